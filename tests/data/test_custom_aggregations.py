"""Aggregations of the user, as Ray documents them: kinds of values x blocks x missing values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

CLUSTER = {"num_cpus": 2}


@pytest.mark.contract("F10.11")
@pytest.mark.parametrize("ignore_nulls", [True, False])
def test_a_mean_of_figures_of_blocks(rd: Any, ignore_nulls: bool) -> None:
    from ray.data._internal.util import is_nan, is_null
    from ray.data.aggregate import AggregateFnV2
    from ray.data.block import AggType, Block, BlockAccessor, U

    class Average(AggregateFnV2[list[float], float]):
        def __init__(self, on: str) -> None:
            super().__init__(
                f"average({on})", on=on, ignore_nulls=ignore_nulls, zero_factory=lambda: [0, 0]
            )

        def aggregate_block(self, block: Block) -> AggType:
            accessor = BlockAccessor.for_block(block)
            count = accessor.count(self._target_col_name, self._ignore_nulls)
            if not count:
                return None
            total = accessor.sum(self._target_col_name, self._ignore_nulls)
            return total if is_null(total) else [total, count]

        def combine(self, current_accumulator: AggType, new: AggType) -> AggType:
            return [current_accumulator[0] + new[0], current_accumulator[1] + new[1]]

        def finalize(self, accumulator: AggType) -> U | None:
            return accumulator[0] / accumulator[1] if accumulator[1] else np.nan

    assert Average("a").get_agg_name() == "average"
    assert (is_null(None), is_null(math.nan), is_null(0), is_nan(None)) == (
        True,
        True,
        False,
        False,
    )
    values = [1, 2, None, 4, 5, 6]
    whole = [v for v in values if v is not None]
    rows = [{"k": i % 2, "a": v, "b": v or 0} for i, v in enumerate(values)]
    for blocks in (1, 3):
        made = rd.from_items(rows, override_num_blocks=blocks)
        expected = sum(whole) / len(whole) if ignore_nulls else None
        assert made.aggregate(Average("a"), Average("b")) == {
            "average(a)": expected,
            "average(b)": 3.0,
        }
        found = made.groupby("k").aggregate(Average("a")).sort("k").take_all()
        assert [row["average(a)"] for row in found] == [3.0 if ignore_nulls else None, 4.0]


@pytest.mark.contract("F10.11")
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_figures_of_a_column_of_a_block(kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    from ray.data.block import BlockAccessor, BlockColumnAccessor

    table = pa.table({"a": pa.array([3.0, None, 1.0, 2.0]), "b": [1, 1, 2, 2]})
    accessor = BlockAccessor.for_block(table if kind == "arrow" else table.to_pandas())
    figures = {"count": 3, "sum": 6.0, "min": 1.0, "max": 3.0, "mean": 2.0}
    figures["sum_of_squared_diffs_from_mean"] = 2.0
    for name, expected in figures.items():
        assert getattr(accessor, name)("a", ignore_nulls=True) == expected, name
        assert getattr(accessor, name)("b", ignore_nulls=False) is not None, name
    assert accessor.count("a") == 4
    column = BlockColumnAccessor.for_column(table["b"])
    assert column.quantile(q=0.5, ignore_nulls=True) == 1.5
    assert column.value_counts() == {"values": [1, 2], "counts": [2, 2]}
    assert column.unique().to_pylist() == [1, 2]
    assert column.to_numpy().tolist() == column.to_pylist() == [1, 1, 2, 2]
    with pytest.raises(ValueError, match="aa"):
        accessor.sum("aa", ignore_nulls=True)


VALUES: dict[str, list[Any]] = {
    "numbers": [2, 1, 2, None],
    "of two types": [1, "x", 1, None],
    "structs": [{"x": 2}, {"x": 1}, {"x": 2}, None],
    "lists": [[1, 2], [1], [1, 2], None],
    "objects": [2j, 1j, 2j, None],
}


@pytest.mark.contract("F10.11")
@pytest.mark.heliostat_only("Ray has no order of structs, and no sets of mixed values")
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_different_values_are_told_apart(rd: Any, values: list[Any]) -> None:
    for blocks in (1, 4):
        made = rd.from_items([{"a": v} for v in values], override_num_blocks=blocks)
        found = made.unique("a")
        assert sorted(map(str, found)) == sorted({str(row["a"]) for row in made.take_all()})
        assert len(made.unique("a", ignore_nulls=True)) == len(found) - 1


@pytest.mark.contract("F10.11")
@pytest.mark.heliostat_only("Ray has no order of structs")
def test_structs_have_an_order(rd: Any) -> None:
    made = rd.from_items([{"a": {"x": i * 7 % 20}} for i in range(20)], override_num_blocks=4)
    found = made.sort("a", descending=True).take_all()
    assert [row["a"]["x"] for row in found] == list(range(19, -1, -1))
    with pytest.raises(TypeError, match="expected one DataFrame or a list of them, got a int"):
        rd.from_pandas([1, 2])
