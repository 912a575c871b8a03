"""Faults that random plans (``tests/plans``) have found, each by the smallest plan that showed it."""

from __future__ import annotations

import datetime
import decimal
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import ray.data.aggregate as agg
from ray.data.expressions import col

from tests.plans.combine import JOINS

CLUSTER = {"num_cpus": 4}
NAN = math.nan


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that can be compared although NaN is in them."""
    return [repr(row) for row in rows]


# --- NaN is a value, None is none ------------------------------------------------------------------


@pytest.mark.contract("F10.01")
@pytest.mark.parametrize("blocks", [1, 3])
def test_nan_is_not_null(rd: Any, blocks: int) -> None:
    rows = [{"f": 1.5}, {"f": NAN}, {"f": None}]
    dataset = rd.from_items(rows, override_num_blocks=blocks)
    assert texts(dataset.take_all()) == texts(rows)
    assert texts(dataset.map(lambda row: row).take_all()) == texts(rows)
    assert [r["w"] for r in dataset.with_column("w", col("f").is_null()).take_all()] == [
        False,
        False,
        True,
    ]


@pytest.mark.contract("F10.01", "F10.07")
@pytest.mark.parametrize(
    "values",
    [[1, NAN], [NAN, NAN], [None, NAN], [[1.0, NAN]], [{"x": NAN}], ["a", NAN], [True, NAN]],
    ids=str,
)
def test_nan_beside_other_values(rd: Any, values: list[Any]) -> None:
    rows = [{"v": float(v) if v == 1 and v is not True else v} for v in values]
    made = rd.from_items([{"v": v} for v in values], override_num_blocks=1)
    assert texts(made.take_all()) == texts(rows)
    batch = rd.range(1).map_batches(lambda _: {"v": values})
    assert texts(batch.take_all()) == texts(rows)


@pytest.mark.contract("F10.12", "F10.13")
@pytest.mark.parametrize("blocks", [1, 4])
def test_aggregations_of_nan(rd: Any, blocks: int) -> None:
    rows = [(1, 1.0), (1, NAN), (1, None), (2, NAN), (3, None), (4, 2.0)]
    dataset = rd.from_items([{"k": k, "f": f} for k, f in rows], override_num_blocks=blocks)
    made = dataset.groupby("k").aggregate(
        agg.Sum("f"),
        agg.Min("f"),
        agg.Max("f"),
        agg.Mean("f"),
        agg.AbsMax("f"),
        agg.Count(on="f", ignore_nulls=True),
    )
    found = [tuple(map(repr, row.values())) for row in made.take_all()]
    assert found == [
        ("1", "nan", "1.0", "1.0", "nan", "1.0", "2"),
        ("2", "nan", "nan", "nan", "nan", "None", "1"),
        ("3", "None", "None", "None", "None", "None", "0"),
        ("4", "2.0", "2.0", "2.0", "2.0", "2.0", "1"),
    ]


@pytest.mark.contract("F10.12")
def test_the_deviation_of_one_value_is_nan(rd: Any) -> None:
    (row,) = rd.range(1).groupby("id").std("id").take_all()
    assert math.isnan(row["std(id)"])


# --- the order of files ----------------------------------------------------------------------------


@pytest.mark.contract("F10.03")
def test_files_of_one_row_keep_their_place(rd: Any, tmp_path: Path) -> None:
    """Such files are read together; they came after all larger ones of their task."""
    rows = [[0, 1], [2], [3, 4], [5], [6]]
    for number, values in enumerate(rows):
        lines = "".join(f'{{"a": {v}}}\n' for v in values)
        (tmp_path / f"{number}.jsonl").write_text(lines)
    made = rd.read_json(str(tmp_path), override_num_blocks=1)
    assert [r["a"] for r in made.take_all()] == list(range(7))


@pytest.mark.contract("F10.03")
@pytest.mark.parametrize("blocks", [2, 7, 9])
def test_row_groups_keep_their_order(rd: Any, tmp_path: Path, blocks: int) -> None:
    """Groups with numbers from 8 on came first: pyarrow puts those asked for into a set."""
    pq.write_table(pa.table({"id": range(35)}), tmp_path / "a.parquet", row_group_size=3)
    made = rd.read_parquet(str(tmp_path), override_num_blocks=blocks)
    assert [r["id"] for r in made.take_all()] == list(range(35))


# --- blocks without rows, columns without values ---------------------------------------------------


@pytest.mark.contract("F10.07", "F10.08")
@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow"])
def test_a_column_added_where_some_blocks_are_empty(rd: Any, batch_format: str) -> None:
    dataset = rd.from_numpy([np.array([1.5]), np.array([])])
    made = dataset.add_column("x", lambda b: b["data"], batch_format=batch_format)
    expected = [{"data": 1.5, "x": 1.5, "w": 2.5}]
    assert made.with_column("w", col("x") + 1).take_all() == expected
    assert made.select_columns(["x"]).rename_columns({"x": "y"}).take_all() == [{"y": 1.5}]
    assert made.filter(expr=col("x") > 9).take_all() == []


@pytest.mark.contract("F10.12")
def test_expressions_of_aggregations_of_no_rows(rd: Any) -> None:
    rows = [{"k": i % 2, "v": i} for i in range(4)]
    none = rd.from_items(rows).filter(expr=col("v") > 9).groupby("k").count()
    assert none.with_column("w", col("count()") + 1).take_all() == []
    # Of two partitions one is empty.
    counts = rd.from_items(rows, override_num_blocks=4).groupby("k", num_partitions=4).count()
    found = counts.with_column("w", col("count()") * 2).take_all()
    assert [(r["k"], r["w"]) for r in found] == [(0, 4), (1, 4)]


@pytest.mark.contract("F10.09")
@pytest.mark.heliostat_only(
    "Ray knows no type of a column whose values are all missing, and raises"
)
def test_expressions_of_columns_without_values(rd: Any) -> None:
    dataset = rd.from_items([{"s": None}, {"s": "ab"}], override_num_blocks=2)
    made = dataset.with_columns(
        {
            "upper": col("s").str.upper(),
            "long": col("s").str.len() > 1,
            "least": (col("s") < col("s")) | col("s").is_null(),
        }
    )
    nothing, row = made.take_all()
    assert nothing == {"s": None, "upper": None, "long": None, "least": True}
    assert row == {"s": "ab", "upper": "AB", "long": True, "least": False}
    assert dataset.filter(expr=col("s").str.starts_with("a")).count() == 1
    assert rd.from_items([{"b": None}]).filter(expr=col("b")).count() == 0


# --- joins -------------------------------------------------------------------------------------------


OTHERS: dict[str, list[Any]] = {
    "nothing": [None, None],
    "lists": [[1], [2, 3]],
    "structs": [{"x": 1}, {"x": None}],
    "tensors": [np.ones((2, 2)), np.zeros((2, 2))],
    "ragged": [np.ones((1, 2)), np.ones((2, 2))],
    "objects": [1j, 2j],
    "texts": ["a", None],
}


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize("how", JOINS)
@pytest.mark.parametrize("other", OTHERS)
def test_joins_carry_columns_of_any_type(rd: Any, how: str, other: str) -> None:
    left = rd.from_items([{"k": i, "l": v} for i, v in enumerate(OTHERS[other])])
    right = rd.from_items([{"k": i + 1, "r": v} for i, v in enumerate(OTHERS[other])])
    made = left.join(right, how, num_partitions=2, on=("k",))
    found = sorted((repr(sorted(row.items())) for row in made.take_all()), key=str)

    first, second = OTHERS[other]
    rows = {
        "inner": [{"k": 1, "l": second, "r": first}],
        "left_outer": [{"k": 0, "l": first, "r": None}, {"k": 1, "l": second, "r": first}],
        "right_outer": [{"k": 1, "l": second, "r": first}, {"k": 2, "l": None, "r": second}],
        "left_semi": [{"k": 1, "l": second}],
        "right_semi": [{"k": 1, "r": first}],
        "left_anti": [{"k": 0, "l": first}],
        "right_anti": [{"k": 2, "r": second}],
    }
    rows["full_outer"] = [rows["left_outer"][0], *rows["right_outer"]]
    assert found == sorted(repr(sorted(row.items())) for row in rows[how])


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.int64(), pa.int32()),
        (pa.string(), pa.large_string()),
        (pa.string(), pa.dictionary(pa.int32(), pa.string())),
        (pa.timestamp("us"), pa.timestamp("ns")),
        (pa.int64(), pa.null()),
        (pa.null(), pa.null()),
    ],
    ids=str,
)
def test_joins_of_keys_of_two_types(rd: Any, left: Any, right: Any) -> None:
    def side(kind: Any, name: str) -> Any:
        values: list[Any] = ["a", "b"]
        if pa.types.is_integer(kind):
            values = [1, 2]
        elif pa.types.is_timestamp(kind):
            values = [datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)]
        elif pa.types.is_null(kind):
            values = [None, None]
        return rd.from_arrow(pa.table({"k": pa.array(values, kind), name: [1, 2]}))

    made = side(left, "l").join(side(right, "r"), "inner", num_partitions=2, on=("k",))
    assert made.count() == (0 if pa.null() in (left, right) else 2)
    outer = side(left, "l").join(side(right, "r"), "full_outer", num_partitions=2, on=("k",))
    assert outer.count() == (4 if pa.null() in (left, right) else 2)


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize("how", JOINS)
def test_what_follows_a_join_of_no_rows(rd: Any, how: str) -> None:
    """What a function would have made of no rows is not known."""
    none = rd.from_items([{"a": "x"}]).filter(expr=col("a").is_null())
    left = none.map(lambda row: {**row, "k": 1})
    right = rd.from_items([{"k": None, "r": 1}])
    made = left.join(right, how, num_partitions=1, on=("k",))
    if how.startswith(("inner", "left")):
        assert made.with_column("w", col("a").str.len()).take_all() == []
    else:
        assert made.count() == (0 if how == "right_semi" else 1)


# --- types -------------------------------------------------------------------------------------------


@pytest.mark.contract("F10.01", "F10.07")
def test_lists_of_numpy_dates(rd: Any) -> None:
    days = [np.datetime64("2020-01-01"), np.datetime64("2020-01-02")]
    made = rd.range(1).map_batches(lambda _: {"d": days, "e": [days[0], None]})
    found = made.take_all()
    assert [str(r["d"])[:10] for r in found] == ["2020-01-01", "2020-01-02"]
    assert found[1]["e"] is None
    dates = pa.table({"d": pa.array([datetime.date(2020, 9, 29)])})
    listed = rd.from_arrow(dates).map_batches(lambda b: {"d": list(b["d"])})
    assert [str(r["d"])[:10] for r in listed.take_all()] == ["2020-09-29"]


@pytest.mark.contract("F10.05", "F10.14")
@pytest.mark.heliostat_only("Ray refuses tensors beside blocks without any")
@pytest.mark.parametrize("ragged", [False, True])
def test_tensors_beside_blocks_without_any(rd: Any, ragged: bool) -> None:
    arrays = [np.ones((2, 2)), None, None, np.zeros((3, 2) if ragged else (2, 2))]
    dataset = rd.from_items([{"a": a} for a in arrays], override_num_blocks=4)
    for made in (dataset, dataset.repartition(1), rd.range(4).zip(dataset)):
        found = [r["a"] for r in made.take_all()]
        assert [a if a is None else a.shape for a in found] == [
            a if a is None else a.shape for a in arrays
        ]
    (batch,) = dataset.repartition(1).iter_batches(batch_size=None)
    assert [a is None for a in batch["a"]] == [False, True, True, False]


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize(
    "arrays",
    [
        [np.ones((2, 1), np.int64), np.full((2, 2), 0.5)],
        [np.ones((2, 1), np.int8), np.ones((3, 1), np.float32)],
        [np.ones((2, 2)), np.ones(3)],
    ],
    ids=["shapes and numbers", "numbers", "dimensions"],
)
def test_unions_of_tensors_of_several_types(rd: Any, arrays: list[Any]) -> None:
    first, second = (rd.from_items([{"a": a}, {"a": a}]) for a in arrays)
    for made in (first.union(second), first.union(second).repartition(1)):
        found = [r["a"] for r in made.take_all()]
        for have, want in zip(found, [arrays[0], arrays[0], arrays[1], arrays[1]], strict=True):
            np.testing.assert_array_equal(have, want)
        made.schema()


@pytest.mark.contract("F10.02")
def test_missing_values_of_frames_are_null(rd: Any) -> None:
    frame = pd.DataFrame({"o": pd.Series(["a", NAN, None, pd.NaT, pd.NA], dtype=object)})
    assert next(r["o"] for r in rd.from_pandas(frame).take_all()) == "a"
    made = rd.range(1).map_batches(lambda _: frame).filter(expr=col("o").is_null())
    assert made.count() == 4


# --- splits ------------------------------------------------------------------------------------------


@pytest.mark.contract("F10.16")
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(
    ("rows", "size", "parts"),
    [(2, 0.25, (1, 1)), (3, 0.5, (1, 2)), (5, 0.1, (4, 1)), (10, 0.3, (7, 3)), (10, 4, (6, 4))],
)
def test_rows_for_training_are_rounded_down(
    rd: Any, rows: int, size: Any, parts: tuple[int, int], shuffle: bool
) -> None:
    made = rd.range(rows).train_test_split(size, shuffle=shuffle, seed=1)
    assert tuple(part.count() for part in made) == parts


@pytest.mark.contract("F10.16")
def test_no_part_of_a_split_by_proportions_is_empty(rd: Any) -> None:
    made = rd.range(10).split_proportionately([0.4, 0.05, 0.4])
    assert [part.count() for part in made] == [3, 1, 4, 2]
    with pytest.raises(ValueError, match="non-empty splits"):
        rd.range(3).split_proportionately([0.25, 0.5])
    assert ray.is_initialized()


# --- names that change places ----------------------------------------------------------------------


@pytest.mark.contract("F10.08")
def test_columns_that_swap_names_may_be_chosen_from(rd: Any) -> None:
    dataset = rd.from_items([{"a": 1, "b": 2, "c": 3, "d": 4}])
    swapped = dataset.rename_columns({"a": "b", "b": "a"})
    assert swapped.select_columns(["a"]).take_all() == [{"a": 2}]
    assert swapped.groupby("c").sum("b").take_all() == [{"c": 3, "sum(b)": 1}]
    ring = dataset.rename_columns({"a": "b", "b": "c", "c": "a"})
    for name, value in {"a": 3, "b": 1, "c": 2, "d": 4}.items():
        assert ring.select_columns([name]).take_all() == [{name: value}]


# --- groups whose values are all missing -----------------------------------------------------------


@pytest.mark.contract("F10.12")
@pytest.mark.parametrize("typed", [True, False])
def test_groups_without_values_have_empty_lists(rd: Any, typed: bool) -> None:
    values = pa.array([None, 1], pa.int64()) if typed else pa.array([None, None])
    dataset = rd.from_arrow(pa.table({"k": ["none", "one"], "v": values}))
    made = dataset.groupby("k").aggregate(
        agg.AsList("v", ignore_nulls=True), agg.Unique("v", ignore_nulls=True)
    )
    found = {row["k"]: (row["list(v)"], row["unique(v)"]) for row in made.take_all()}
    assert found == {"none": ([], []), "one": ([1], [1]) if typed else ([], [])}


@pytest.mark.contract("F10.12")
@pytest.mark.parametrize("value", ["text", 2.5, True, datetime.date(2020, 1, 2)], ids=str)
@pytest.mark.parametrize("keys", [(1, 2), (1, 1)], ids=["two groups", "one group"])
def test_a_block_whose_values_are_all_missing_is_grouped_with_others(
    rd: Any, value: Any, keys: tuple[int, int]
) -> None:
    rows = [{"k": keys[0], "v": None}, {"k": keys[1], "v": value}]
    for ordered in (rows, rows[::-1]):
        dataset = rd.from_items(ordered, override_num_blocks=2)
        made = dataset.groupby("k").aggregate(agg.Max("v"), agg.Min("v"))
        found = {row["k"]: (row["max(v)"], row["min(v)"]) for row in made.take_all()}
        assert found == {keys[0]: (None, None), keys[1]: (value, value)}


@pytest.mark.contract("F10.12")
def test_the_least_and_greatest_of_untyped_missing_values_have_no_type(rd: Any) -> None:
    dataset = rd.from_arrow(pa.table({"k": [1, 2, 1], "v": pa.nulls(3)}))
    made = dataset.groupby("k").aggregate(agg.Min("v"), agg.Max("v"), agg.Sum("v"), agg.Mean("v"))
    names_and_types = dict(zip(made.schema().names, made.schema().types, strict=True))
    assert {name: repr(kind) for name, kind in names_and_types.items()} == {
        "k": "DataType(int64)",
        "min(v)": "DataType(null)",
        "max(v)": "DataType(null)",
        "sum(v)": "DataType(int64)",
        "mean(v)": "DataType(double)",
    }


@pytest.mark.contract("F10.13")
@pytest.mark.parametrize("blocks", [1, 2])
def test_a_missing_value_that_counts_makes_the_quantile_missing(rd: Any, blocks: int) -> None:
    dataset = rd.from_items([{"k": 1, "v": 3}, {"k": 1, "v": None}], override_num_blocks=blocks)
    for ignore, found in ((False, None), (True, 3.0)):
        quantile = agg.Quantile("v", ignore_nulls=ignore)
        assert dataset.aggregate(quantile) == {"quantile(v)": found}
        assert dataset.groupby("k").aggregate(quantile).take_all() == [
            {"k": 1, "quantile(v)": found}
        ]


# --- tensors without elements ----------------------------------------------------------------------


@pytest.mark.contract("F10.02")
def test_a_missing_value_among_tensors_without_elements(rd: Any) -> None:
    kind = pa.fixed_shape_tensor(pa.int64(), (0,))
    storage = pa.array([[], None, []], kind.storage_type)
    table = pa.table({"t": pa.ExtensionArray.from_storage(kind, storage)})
    rows = rd.from_arrow(table).take_all()
    assert [None if row["t"] is None else len(row["t"]) for row in rows] == [0, None, 0]
    [batch] = rd.from_arrow(table).iter_batches(batch_size=None)
    assert [None if one is None else one.shape for one in batch["t"]] == [(0,), None, (0,)]


NOON = datetime.datetime(2024, 1, 1, 12)
# Keys of the left and of the right side, and how many of them are equal.
KEYS: dict[str, tuple[Any, Any, int]] = {
    "truth beside a missing value": (pa.array([True, False]), pa.array([True, None, False]), 2),
    "narrow floats": (pa.array([0.1, 2.0], pa.float32()), pa.array([0.5, 2.0, None]), 1),
    "half floats": (pa.array([np.float16(0.5)]), pa.array([0.5, 2.0]), 1),
    "durations": (pa.array([1000, 2000], pa.duration("ms")), pa.array([1, 2], pa.duration("s")), 2),
    "decimals": (
        pa.array([decimal.Decimal("1.0"), decimal.Decimal("2.5")]),
        pa.array([decimal.Decimal("1.00"), decimal.Decimal("2.50"), None]),
        2,
    ),
    "a dictionary": (pa.array([1, 2]).dictionary_encode(), pa.array([1, 2, None]), 2),
    "times with a zone": (
        pa.array([NOON, None], pa.timestamp("ns", "UTC")),
        pa.array([NOON], pa.timestamp("us", "UTC")),
        1,
    ),
    "times of units": (
        pa.array([NOON.replace(microsecond=123456)], pa.timestamp("ns")),
        pa.array([NOON.replace(microsecond=123456), None], pa.timestamp("us")),
        1,
    ),
    "dates": (pa.array([NOON.date()], pa.date32()), pa.array([NOON.date()], pa.date64()), 1),
}


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize("keys", KEYS)
def test_equal_keys_meet_whatever_their_types(rd: Any, keys: str) -> None:
    """The task that a key goes to depended on its type, or on whether a value was missing beside it."""
    ours, theirs, equal = KEYS[keys]
    left = rd.from_arrow(pa.table({"k": ours, "l": range(len(ours))}))
    right = rd.from_arrow(pa.table({"k": theirs, "r": range(len(theirs))}))
    for how, rows in (("inner", equal), ("full_outer", len(ours) + len(theirs) - equal)):
        found = left.join(right, how, num_partitions=7, on=("k",)).take_all()
        assert len(found) == rows
        assert sum(row["l"] is not None and row["r"] is not None for row in found) == equal


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_two_zeros_are_two_values_and_none_is_lost(ray_start: Any, blocks: int) -> None:
    """Equal to Python, two values to Arrow, as on Ray: a count by a dict kept the last one's alone."""
    values = [0.0, -0.0, 1.0, 0.0, float("nan"), float("nan")]
    dataset = ray.data.from_arrow(pa.table({"v": values})).repartition(blocks)
    found = dataset.aggregate(agg.Unique("v"), agg.CountDistinct("v"), agg.ValueCounter("v"))
    assert sorted(map(repr, found["unique(v)"])) == ["-0.0", "0.0", "1.0", "nan"]
    assert found["count_distinct(v)"] == 4
    counted = found["value_counter(v)"]
    pairs = dict(zip(map(repr, counted["values"]), counted["counts"], strict=True))
    assert pairs == {"0.0": 2, "-0.0": 1, "1.0": 1, "nan": 2}
    groups = {repr(row["v"]): row["count()"] for row in dataset.groupby("v").count().take_all()}
    assert groups == pairs
