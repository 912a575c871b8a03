"""Functions of a row, without a cluster: what results are like x how rows come x where another is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from heliostat.data import block
from heliostat.data.exceptions import UserCodeException
from heliostat.data.plan.transforms import MapRows
from heliostat.data.plan.udf import Udf

Row = dict[str, Any]
AT_ONCE = 64  # instead of some thousand
ROWS = 3 * AT_ONCE + 10

TABLES = {
    "one": [ROWS],
    "small": [9] * (ROWS // 9) + [ROWS % 9],
    "single rows, then one": [1] * 20 + [ROWS - 20],
}
OTHERS: dict[str, Callable[[int], Any]] = {
    "alike": lambda i: {"a": i, "b": str(i)},
    "another key": lambda i: {"a": i, "c": 1.5},
    "a key more": lambda i: {"a": i, "b": str(i), "c": 1.5},
    "a key less": lambda i: {"a": i},
    "another order": lambda i: {"b": str(i), "a": i},
    "no key": lambda i: {},
    "a mapping": lambda i: OrderedDict(a=i, b=str(i)),
    "another type": lambda i: {"a": float(i), "b": str(i)},
}
PLACES = {"first": 0, "later": 2 * AT_ONCE + 5, "last": ROWS - 1}


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: Any) -> None:
    monkeypatch.setattr(block, "ROWS_AT_ONCE", AT_ONCE)


def tables(sizes: list[int]) -> list[pa.Table]:
    made = block.concat([pa.table({"id": pa.array(range(ROWS)), "twice": range(0, 2 * ROWS, 2)})])
    cut, at = [], 0
    for size in sizes:
        cut.append(made.slice(at, size))
        at += size
    return cut


def mapped(function: Callable[..., Any], sizes: list[int], **given: Any) -> list[pa.Table]:
    step = MapRows(Udf(function, **given))
    opened = step.open()
    assert opened is not None
    opened.begin()
    return list(step.apply(iter(tables(sizes)), opened))


@pytest.mark.heliostat_only("it calls the step of a plan")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("sizes", TABLES.values(), ids=TABLES)
def test_each_result_is_a_row(sizes: list[int], other: Callable[[int], Any], place: int) -> None:
    odd = range(place, min(ROWS, place + 3))

    def function(row: Row, *more: int) -> Any:
        i = row["twice"] // 2
        assert i == row["id"]
        return other(i) if i in odd else {"a": i, "b": str(i)}

    expected = [other(i) if i in odd else {"a": i, "b": str(i)} for i in range(ROWS)]
    names = dict.fromkeys(name for row in expected for name in row)
    for given in ({}, {"args": (1,)}):
        found = block.concat(mapped(function, sizes, **given)).to_pylist()
        assert found == [{name: row.get(name) for name in names} for row in expected]


@pytest.mark.heliostat_only("it calls the step of a plan")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("sizes", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("kind", [KeyError, ValueError])
def test_an_error_names_the_row_and_is_that_of_the_function(
    kind: type[Exception], sizes: list[int], place: int
) -> None:
    def function(row: Row) -> Row:
        if row["id"] == place:
            raise kind("b")  # the name of a key of the results
        return {"b": row["id"]}

    with pytest.raises(UserCodeException) as failed:
        mapped(function, sizes)
    assert isinstance(failed.value.__cause__, kind)
    assert f"row {place} " in str(failed.value)
    assert f"'id': {place}" in str(failed.value)


@pytest.mark.heliostat_only("it calls the step of a plan")
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("wrong", [None, 5, [{"b": 1}], (1,)])
def test_a_result_that_is_no_dict_is_named_with_its_row(wrong: object, place: int) -> None:
    with pytest.raises(ValueError, match=f"row {place} .*a function of `map` returns a dict"):
        mapped(lambda row: wrong if row["id"] == place else {"b": row["id"]}, [ROWS])
