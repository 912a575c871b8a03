"""Misspelt keywords: each reader, writer and method x each keyword, told at the call with the right one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray.data
from ray.data.grouped_data import GroupedData

CLASSES = {
    "Dataset": ray.data.Dataset,
    "GroupedData": GroupedData,
    "DataIterator": ray.data.DataIterator,
}


def functions(where: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Those that take no further keywords, which are for whoever they hand them on to."""
    of: Any = CLASSES.get(where, ray.data)
    for name in dir(of):
        wanted = where in CLASSES or name.startswith(("read_", "from_", "range"))
        found = getattr(of, name) if wanted and not name.startswith("_") else None
        if inspect.isfunction(found):
            kinds = [p.kind for p in inspect.signature(found).parameters.values()]
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                yield name, found


@pytest.mark.contract("F10.04", "F10.27")
@pytest.mark.heliostat_only("Ray names no nearest keyword")
@pytest.mark.parametrize("where", ["ray.data", *CLASSES])
def test_a_misspelt_keyword_is_told_with_the_one_that_is_meant(where: str) -> None:
    asked = 0
    for name, function in functions(where):
        parameters = list(inspect.signature(function).parameters)
        for right in parameters[1:] if where in CLASSES else parameters:
            wrong, of_class = f"{right}z", [object()] if where in CLASSES else []
            said = re.escape(f"{name}() got an unexpected keyword argument {wrong!r}")
            near = rf" \(did you mean '{right}'\?\)"
            with pytest.raises(TypeError, match=said + (near if len(right) > 2 else "")):
                function(*of_class, **{wrong: 1})
            asked += 1
    assert asked > (100 if where == "Dataset" else 10)


@pytest.mark.contract("F10.04")
@pytest.mark.heliostat_only("Ray names its internal classes")
def test_errors_about_arguments_name_the_class_that_programs_know() -> None:
    dataset = ray.data.range(3)
    with pytest.raises(TypeError, match=r"^Dataset\.write_numpy\(\) missing 1 required"):
        dataset.write_numpy("x")
    with pytest.raises(TypeError, match=r"^Dataset\.limit\(\) missing 1 required"):
        dataset.limit()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'num_block' \(did you mean 'num_blocks'\?\)"):
        dataset.random_shuffle(num_block=3)
    assert inspect.signature(dataset.sort).parameters["descending"].default is False
