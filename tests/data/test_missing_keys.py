"""Keys that a dataset lacks: one class of error, the nearest names, before rows move (F10.12, F10.14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="blocks are tables of pyarrow")

import ray.data
from ray.data.aggregate import Count, Sum
from ray.data.expressions import col

from tests.plans.combine import JOINS

ROWS = [{"user_id": n, "left_only": n} for n in range(4)]
OTHERS = [{"user_id": n, "right_only": n} for n in range(4)]

# How a dataset comes to be, whose columns are known at once or not.
MADE: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "known": ray.data.from_items,
    "unknown": lambda rows: ray.data.from_items(rows).map_batches(lambda batch: batch),
}


@pytest.mark.heliostat_only("Ray says nothing of keys, or polars does")
@pytest.mark.parametrize("join_type", JOINS)
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_join_by_a_key_that_a_side_lacks(
    ray_start: Any, join_type: str, made: str, side: str
) -> None:
    left, right = MADE[made](ROWS), MADE[made](OTHERS)
    on, right_on = (("usr_id",), ("user_id",)) if side == "left" else (("user_id",), ("usr_id",))

    def run() -> None:
        joined = left.join(right, join_type, num_partitions=2, on=on, right_on=right_on)
        if made == "known":
            pytest.fail("it was not told when the join was written")
        joined.take_all()

    with pytest.raises(ValueError, match=rf"join: the {side} side: .*did you mean 'user_id'\?"):
        run()


@pytest.mark.heliostat_only("the classes are ours")
def test_no_row_moves_before_the_keys_are_known() -> None:
    import pyarrow as pa
    from heliostat.data.execute.joins import Join
    from heliostat.data.plan.operators import Bundle

    def side(*names: str) -> list[Any]:
        return [Bundle(None, 4, 32, pa.schema([(name, pa.int64()) for name in names]))]

    join = Join("inner", ["a"], ["zz"], 2, None, None)
    with pytest.raises(ValueError, match="the right side: there is no column 'zz'"):
        next(iter(join([side("a"), side("a")], tasks=None)))  # type: ignore[arg-type] # none is used


@pytest.mark.parametrize("made", MADE)
def test_validate_schemas_finds_out(ray_start: Any, made: str) -> None:
    left, right = MADE[made](ROWS), MADE[made](OTHERS)
    with pytest.raises(ValueError, match="usr_id"):
        left.join(right, "inner", 2, on=("usr_id",), validate_schemas=True)


@pytest.mark.parametrize("made", MADE)
def test_a_join_by_keys_that_are_there(ray_start: Any, made: str) -> None:
    left, right = MADE[made](ROWS), MADE[made](OTHERS)
    joined = left.join(right, "inner", 2, on=("user_id",))
    assert sorted(row["right_only"] for row in joined.take_all()) == [0, 1, 2, 3]
    assert left.join(MADE[made]([]), "left_outer", 2, on=("user_id",)).count() == 4


USES: dict[str, Callable[[Any], Any]] = {
    "sort": lambda ds: ds.sort("usr_id").take_all(),
    "sort by several": lambda ds: ds.sort(["user_id", "usr_id"]).take_all(),
    "groupby and count": lambda ds: ds.groupby("usr_id").count().take_all(),
    "groupby and map": lambda ds: ds.groupby("usr_id").map_groups(lambda g: g).take_all(),
    "an aggregate of groups": lambda ds: ds.groupby("user_id").sum("usr_id").take_all(),
    "an aggregate": lambda ds: ds.aggregate(Sum("usr_id"), Count()),
    "sum": lambda ds: ds.sum("usr_id"),
    "mean": lambda ds: ds.mean("usr_id"),
    "min": lambda ds: ds.min("usr_id"),
    "max": lambda ds: ds.max("usr_id"),
    "std": lambda ds: ds.std("usr_id"),
    "unique": lambda ds: ds.unique("usr_id"),
    "random access": lambda ds: ds.to_random_access_dataset("usr_id"),
    "a stratified split": lambda ds: ds.train_test_split(0.5, stratify="usr_id"),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("use", USES)
def test_keys_that_are_not_there_are_value_errors(ray_start: Any, made: str, use: str) -> None:
    with pytest.raises(ValueError, match="usr_id"):
        USES[use](MADE[made](ROWS))


@pytest.mark.heliostat_only("Ray raises pyarrow's KeyError")
@pytest.mark.parametrize("made", MADE)
def test_a_repartition_by_a_key_that_is_not_there(ray_start: Any, made: str) -> None:
    with pytest.raises(ValueError, match=r"usr_id.*did you mean 'user_id'\?"):
        MADE[made](ROWS).repartition(2, keys=["usr_id"]).take_all()


@pytest.mark.heliostat_only("Ray's own messages")
@pytest.mark.parametrize("use", USES)
def test_the_nearest_name_is_said(ray_start: Any, use: str) -> None:
    with pytest.raises(ValueError, match=r"did you mean 'user_id'\?"):
        USES[use](MADE["known"](ROWS))


# --- filters ---


@pytest.mark.parametrize("expr", ["user_id > 1", col("user_id") > 1])
def test_a_filter_has_a_function_or_an_expression(expr: Any) -> None:
    ds = ray.data.from_items(ROWS)
    with pytest.raises(ValueError, match="Exactly one of 'fn' or 'expr'"):
        ds.filter(fn=lambda row: True, expr=expr)
    with pytest.raises(ValueError, match="Exactly one of 'fn' or 'expr'"):
        ds.filter()
    for given in ({"fn": expr}, {"fn": 3}):
        with pytest.raises(ValueError, match="must be a UserDefinedFunction"):
            ds.filter(**given)
    with pytest.raises(ValueError, match="must be a UserDefinedFunction"):
        ds.filter(expr)


@pytest.mark.filterwarnings("ignore:String expressions")
def test_a_text_that_is_no_expression() -> None:
    ds = ray.data.from_items(ROWS)
    with pytest.raises(ValueError, match=r"Invalid syntax in the expression"):
        ds.filter(expr="user_id >")
    with pytest.raises(TypeError):
        ds.filter(expr=lambda row: True)
    with pytest.raises(ValueError, match="fn_args"):
        ds.filter(expr="user_id > 1", fn_args=(1,))


@pytest.mark.heliostat_only("Ray names no aggregation")
def test_an_aggregation_of_a_column_that_is_not_there_is_named(ray_start: Any) -> None:
    dataset = MADE["unknown"](ROWS)
    with pytest.raises(
        ValueError, match=r"sum\(usr_id\): there is no column 'usr_id' \(did you mean"
    ):
        dataset.sum("usr_id")
    with pytest.raises(ValueError, match=r"sum\(usr_id\): there is no column 'usr_id'"):
        dataset.groupby("user_id").sum("usr_id").take_all()


@pytest.mark.heliostat_only("Ray's errors are those of its libraries")
def test_groups_of_values_of_several_types_say_what_to_do(ray_start: Any) -> None:
    mixed = ray.data.from_items([{"x": 1}, {"x": "a"}, {"x": 2.5}])
    with pytest.raises(
        TypeError, match=r"grouped by x: 'x' has values of float, int, str; make them"
    ):
        mixed.groupby("x").count().take_all()
