"""Helpers over the core API (contract F2.28, F3.11, F14.04, F14.11, F14.13)."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest
import ray
from ray.util import as_completed, inspect_serializability, map_unordered

pytestmark = pytest.mark.usefixtures("ray_start")


@ray.remote
def double(x: int) -> int:
    return 2 * x


@ray.remote
def fail(x: int) -> int:
    raise ValueError(f"not {x}")


@pytest.mark.contract("F2.28")
def test_results_come_as_they_are_ready() -> None:
    refs = [double.remote(n) for n in range(7)]
    assert sorted(as_completed(refs)) == [2 * n for n in range(7)]
    assert sorted(as_completed(refs, chunk_size=3)) == [2 * n for n in range(7)]
    assert set(as_completed(refs, chunk_size=2, yield_obj_refs=True)) == set(refs)
    assert list(as_completed([])) == []
    with pytest.raises(ValueError, match="chunk_size"):
        list(as_completed(refs, chunk_size=0))
    with pytest.raises(ValueError, match="not 1"):
        list(as_completed([fail.remote(1)]))


@pytest.mark.contract("F2.28")
def test_a_function_is_mapped_with_few_calls_on_their_way() -> None:
    taken: list[int] = []

    def items() -> Any:
        for n in range(10):
            taken.append(n)
            yield n

    found = map_unordered(double, items(), backpressure_size=2, chunk_size=1)
    first = next(found)
    assert len(taken) <= 3, "no more were taken than may be on their way"
    assert sorted([first, *found]) == [2 * n for n in range(10)]
    refs = list(map_unordered(double, [1], yield_obj_refs=True))
    assert ray.get(refs) == [2]
    with pytest.raises(ValueError, match="backpressure_size"):
        list(map_unordered(double, [1], backpressure_size=0))


@pytest.mark.contract("F3.11", "F14.04")
def test_what_cannot_be_serialized_is_found_and_named() -> None:
    lock = threading.Lock()

    def uses_it() -> Any:
        return lock

    said = io.StringIO()
    serializable, failures = inspect_serializability(uses_it, name="culprit", print_file=said)
    assert not serializable
    assert {failure.obj for failure in failures} == {lock}
    assert {failure.path for failure in failures} == {("culprit", "lock")}
    assert "culprit" in said.getvalue()
    fine, none = inspect_serializability(lambda: 1, print_file=io.StringIO())
    assert fine
    assert none == set()


@pytest.mark.contract("F14.13")
def test_references_have_a_generic_type() -> None:
    from ray.types import ObjectRef

    assert ObjectRef[int] is not None
