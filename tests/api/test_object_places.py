"""Where objects are."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import ray
from ray.experimental import get_local_object_locations, get_object_locations

from tests.helpers.harness import wait_until

CLUSTER = {"num_cpus": 4, "object_store_memory": 100 << 20}
BOTH = pytest.mark.parametrize("ask", [get_object_locations, get_local_object_locations])

pytestmark = [pytest.mark.contract("F3.17")]


def here() -> str:
    node: str = ray.get_runtime_context().get_node_id()
    return node


@ray.remote
def make(count: int) -> Any:
    return np.zeros(count)


@ray.remote
class Holder:
    def put(self, count: int) -> list[Any]:
        return [ray.put(np.ones(count))]

    def look(self, refs: list[Any]) -> list[Any]:
        both = get_object_locations(refs), get_local_object_locations(refs)
        return [list(places.values()) for places in both]


@BOTH
def test_large_and_small_objects(ray_start: Any, ask: Any) -> None:
    large, small, put = make.remote(500_000), make.remote(1), ray.put(1)
    ray.wait([large, small], num_returns=2)
    places = ask([large, small, put, large])
    assert set(places) == {large, small, put}
    assert places[large]["node_ids"] == [here()]
    assert 4_000_000 <= places[large]["object_size"] < 4_001_000
    assert places[small]["node_ids"] == []
    assert 0 < places[small]["object_size"] < 1_000
    assert places[put]["node_ids"] == [here()]
    assert not any(place["did_spill"] for place in places.values())
    assert sorted(places[large]) == ["did_spill", "node_ids", "object_size"]


@BOTH
def test_what_is_not_there_yet(ray_start: Any, ask: Any) -> None:
    @ray.remote
    def wait() -> None:
        time.sleep(1000)

    ref = wait.remote()
    assert ask([ref]) == {ref: {"node_ids": [], "object_size": None, "did_spill": False}}
    ray.cancel(ref, force=True)


def test_objects_of_others(ray_start: Any) -> None:
    holder = Holder.remote()
    (theirs,) = ray.get(holder.put.remote(400_000))
    ours = ray.put(np.zeros(500_000))
    assert get_object_locations([theirs])[theirs]["node_ids"] == [here()]
    asked, known = ray.get(holder.look.remote([ours]))
    assert asked[0]["node_ids"] == [here()]
    assert asked[0]["object_size"] > 4_000_000
    assert len(known) == 1
    ray.kill(holder)
    # Nobody can say any more where it is.
    wait_until(lambda: get_object_locations([theirs]) == {})
    assert set(get_local_object_locations([theirs])) == {theirs}


@BOTH
def test_objects_on_disk(ray_start: Any, ask: Any) -> None:
    refs = [ray.put(np.full(2_500_000, n)) for n in range(8)]

    def spilled() -> list[bool]:
        return [place["did_spill"] for place in ask(refs).values()]

    found = wait_until(lambda: any(spilled()) and spilled(), what="objects on disk")
    assert not all(found)
    assert all(place["node_ids"] == [here()] for place in ask(refs).values())


def test_wrong_arguments(ray_start: Any) -> None:
    ref = ray.put(1)
    for ask in (get_object_locations, get_local_object_locations):
        assert ask([]) == {}
        assert set(ask((ref,))) == {ref}
        for wrong in (None, 5, ref):
            with pytest.raises(TypeError):
                ask(wrong)
        with pytest.raises(ValueError, match="owner is unknown"):
            ask([ray.ObjectRef.from_random()])
    for wrong in ("x", None):
        with pytest.raises(TypeError):
            get_object_locations([ref], wrong)
    assert set(get_object_locations([ref], -1)) == {ref}
    assert set(get_object_locations([ref], timeout_ms=60_000)) == {ref}
    with pytest.raises(ray.exceptions.GetTimeoutError):
        get_object_locations([ref], 0)


def test_without_a_session(ray_down: None) -> None:
    for ask in (get_object_locations, get_local_object_locations):
        with pytest.raises(RuntimeError):
            ask([])
