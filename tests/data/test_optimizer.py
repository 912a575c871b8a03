"""What the optimiser makes of plans: sources read less, and the rows are those of the plan as written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ours = pytest.mark.heliostat_only("how a plan is changed before it runs is ours to say")


@pytest.fixture
def facts(rd: Any, tmp_path: Any) -> Callable[[], Any]:
    """A dataset of three files, each of two row groups, with missing values and NaN."""
    for i in range(3):
        begin = i * 20
        ids = list(range(begin, begin + 20))
        table = pa.table(
            {
                "id": ids,
                "x": [None if n % 7 == 0 else math.nan if n % 5 == 0 else n / 2 for n in ids],
                "k": [n % 3 for n in ids],
                "s": [None if n % 11 == 0 else f"name-{n % 4}" for n in ids],
                "t": pa.array([n * 1_000_000 for n in ids], pa.timestamp("us")),
            }
        )
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=10)
    return lambda: rd.read_parquet(str(tmp_path))


def optimized(dataset: Any) -> str:
    """The plan that is executed, as text."""
    from heliostat.data.plan.operators import describe

    return describe(dataset._to_execute())


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows that can be compared: NaN is equal to itself."""
    return [repr(row) for row in rows]


def pipelines() -> dict[str, Callable[[Any], Any]]:
    """Plans in which there is something to push down, or something that must stay."""
    from ray.data.aggregate import Count, Max, Sum
    from ray.data.expressions import col, lit, random

    return {
        "range": lambda d: d.filter(expr=(col("id") > 12) & (col("id") <= 41)),
        "none": lambda d: d.filter(expr=col("id") < 0),
        "nan": lambda d: d.filter(expr=col("x") != 3.5),
        "not": lambda d: d.filter(expr=~(col("x") > 5)),
        "unknown": lambda d: d.filter(expr=(col("x") > 20) | col("s").is_null()),
        "member": lambda d: d.filter(expr=col("s").is_in(["name-1", None]) & col("id").is_in([1, 22])),
        "mirrored": lambda d: d.filter(expr=lit(30) <= col("id")),
        "constant": lambda d: d.filter(expr=lit(True)),
        "in order": lambda d: d.filter(expr=col("id") != 0).filter(expr=10 // col("id") > 1),
        "renamed": lambda d: d.rename_columns({"id": "k", "k": "id"}).filter(expr=col("k") > 55),
        "projected": lambda d: d.with_column("y", col("id") * 2).filter(expr=col("y") > 100)
        .filter(expr=col("k") == 1).select_columns(["y", "s"]),
        "alias": lambda d: d.with_column("y", col("id")).filter(expr=col("y") > 50),
        "random": lambda d: d.with_column("r", random(seed=1, reseed_after_execution=False))
        .filter(expr=col("id") > 40),
        "dropped": lambda d: d.drop_columns(["x", "t"]).filter(expr=col("s") == "name-2"),
        "sorted": lambda d: d.sort(["k", "id"], descending=[True, False]).filter(expr=col("id") > 30),
        "limit": lambda d: d.limit(25).filter(expr=col("id") > 15),
        "limit of rows": lambda d: d.map(lambda r: {"n": r["id"] + 1}).limit(33).limit(31),
        "limit of some": lambda d: d.filter(expr=col("id") > 15).limit(7),
        "union": lambda d: d.select_columns(["id"]).union(d.select_columns(["k", "id"]))
        .filter(expr=col("id") > 50),
        "sample": lambda d: d.random_sample(0.5, seed=3).filter(expr=col("k") == 0),
        "groups": lambda d: d.filter(expr=col("id") > 9).groupby("k")
        .aggregate(Count(), Sum("id"), Max("s")),
        "shuffled": lambda d: d.random_shuffle(seed=2).select_columns(["id"]),
    }  # fmt: skip


@pytest.mark.contract("F10.03", "F10.06", "F10.08", "F10.09")
@pytest.mark.parametrize("name", list(pipelines()))
@ours
def test_optimised_plans_have_the_same_rows(facts: Callable[[], Any], name: str) -> None:
    make = pipelines()[name]
    made, as_written = make(facts()), make(facts())
    as_written.context._optimizes = False
    assert plain(made.take_all()) == plain(as_written.take_all())
    assert make(facts()).count() == as_written.count()
    assert made.columns() == as_written.columns()
    assert [str(t) for t in made.schema().types] == [str(t) for t in as_written.schema().types]


@pytest.mark.contract("F10.03", "F10.08")
@ours
def test_sources_read_what_is_needed(facts: Callable[[], Any]) -> None:
    from ray.data.expressions import col, udf

    same = udf(return_dtype=pa.int64())(lambda values: values)
    d = facts()
    assert (
        optimized(d.select_columns(["s", "id"])) == "SelectColumns\n+- ReadParquet[columns=[id, s]]"
    )
    assert optimized(d.drop_columns(["x", "t"]).filter(expr=col("id") > 3)) == (
        "DropColumns\n+- ReadParquet[columns=[id, k, s], filter=(col('id') > 3)]"
    )
    assert optimized(d.filter(expr=(col("id") > 3) & (same(col("k")) > 0))) == (
        "Filter(test_sources_read_what_is_needed.<locals>.<lambda>(col('k')) > 0)\n"
        "+- ReadParquet[filter=(col('id') > 3)]"
    ).replace("test_sources_read_what_is_needed.<locals>.<lambda>", "<lambda>")
    assert optimized(d.limit(5).map(lambda r: r)) == "Map(<lambda>)\n+- ReadParquet[limit=5]"
    # The user's functions see whole rows, and conditions do not pass them.
    mapped = d.map_batches(lambda b: b).filter(expr=col("id") > 3).select_columns(["id"])
    assert "ReadParquet[" not in optimized(mapped)
    # Evaluating the second may fail for rows that the first leaves out.
    kept = d.filter(expr=same(col("id")) != 0).filter(expr=10 // col("id") > 1)
    assert "ReadParquet[" not in optimized(kept)


@pytest.mark.contract("F10.20")
@ours
def test_explain_shows_the_plan_before_and_after(
    facts: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.data.expressions import col

    facts().filter(expr=col("id") > 3).select_columns(["k"]).explain()
    assert capsys.readouterr().out == (
        "-------- Logical Plan --------\n"
        "SelectColumns\n"
        "+- Filter(col('id') > 3)\n"
        "   +- ReadParquet\n\n"
        "-------- Logical Plan (Optimized) --------\n"
        "SelectColumns\n"
        "+- ReadParquet[columns=[k], filter=(col('id') > 3)]\n\n"
        "-------- Physical Plan --------\n"
        "Tasks[ReadParquet->SelectColumns]\n"
    )


@pytest.mark.contract("F10.19")
@ours
def test_rows_that_statistics_decide_are_counted_without_tasks(facts: Callable[[], Any]) -> None:
    from ray.data.expressions import col

    for condition, rows in ((col("id") >= 20, 40), (col("id") < 0, 0), (col("id") <= 59, 60)):
        made = facts().filter(expr=condition)
        assert made.count() == rows
        assert made.stats() == ""  # nothing was executed
    some = facts().filter(expr=col("id") > 12)
    assert some.count() == 47
    assert "Count: 1 tasks" in some.stats()  # of one row group in six


@pytest.mark.contract("F10.03")
@ours
def test_columns_of_folders_and_paths_that_are_not_needed(rd: Any, tmp_path: Any) -> None:
    for year in (2024, 2025):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"n": [year, 1], "m": [2, 3]}), tmp_path / f"year={year}/a.parquet")
    from ray.data.expressions import col

    d = rd.read_parquet(str(tmp_path), include_paths=True)
    assert d.select_columns(["n"]).take_all() == [{"n": 2024}, {"n": 1}, {"n": 2025}, {"n": 1}]
    found = d.filter(expr=(col("n") > 1) & (col("year") == "2025")).select_columns(["year", "m"])
    assert found.take_all() == [{"year": "2025", "m": 2}]
    assert "ReadParquet[files=1 of 2, columns=[m, year], filter=(col('n') > 1)]" in optimized(found)
    assert d.filter(expr=col("year") > "2025").count() == 0
    assert d.filter(expr=col("year").is_in(["2024"])).count() == 2
    with pytest.raises(Exception, match="equal"):
        d.filter(expr=col("year") == 2025).take_all()


@pytest.mark.contract("F10.03")
@ours
def test_files_of_several_schemas(rd: Any, tmp_path: Any) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [3.5, 4.0], "c": [True, False]}), tmp_path / "2.parquet")
    from ray.data.expressions import col

    made = rd.read_parquet(str(tmp_path)).filter(expr=col("a") > 1)
    assert made.take_all() == [
        {"a": 2.0, "b": "y", "c": None},
        {"a": 3.5, "b": None, "c": True},
        {"a": 4.0, "b": None, "c": False},
    ]
    found = rd.read_parquet(str(tmp_path)).filter(expr=col("b") == "x").take_all()
    assert found == [{"a": 1.0, "b": "x", "c": None}]
    with pytest.raises(Exception, match="no column 'd'"):
        rd.read_parquet(str(tmp_path)).filter(expr=col("d") == "x").take_all()


@pytest.mark.contract("F10.03")
@ours
def test_what_statistics_say() -> None:
    from heliostat.data.plan.statistics import Range, answers
    from ray.data.expressions import col

    ranges = {
        "i": Range(10, 0, 3, 8),
        "f": Range(10, 2, 1.0, 1.0),
        "s": Range(10, 0, "b", "d"),
        "empty": Range(10, 10),
        "open": Range(10),
        "nan": Range(10, 0, math.nan, 4.0),
    }
    i, f, s = col("i"), col("f"), col("s")
    true, false = {True}, {False}
    known = [
        (i > 2, true), (i > 8, false), (i >= 8, {True, False}), (i == 9, false), (i != 9, true),
        (i < 2**60, true), (i < 3.5, {True, False}), (i < 4, {True, False}), (i < 9, true),
        (~(i > 8), true), ((i > 2) & (i < 3), false), ((i > 8) | (i < 9), true),
        (i.is_in([1, 2]), false), (i.is_in([1, 5]), {True, False}), (i.is_null(), false),
        (f < 0, {False, None}), (f == 1, {True, False, None}), (f != 1, {True, False, None}),
        (f.is_null(), {True, False}), (s > "e", false), (s == "c", {True, False}),
        (col("empty") > 3, {None}), (col("empty").is_not_null(), false),
        (col("open") > 3, {True, False, None}), (col("nan") > 9, {True, False}),
        (i + 1 > 2, {True, False, None}), (col("other") > 2, {True, False, None}),
        (i > "a", {True, False}), (i == None, {True, False, None}),  # noqa: E711 # an expression
    ]  # fmt: skip
    for condition, expected in known:
        assert answers(condition, ranges) == expected, condition


@pytest.mark.contract("F10.11", "F10.20")
@ours
def test_what_follows_a_sort_runs_in_its_tasks(
    facts: Callable[[], Any], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.data.expressions import col, random

    r = random(seed=3, reseed_after_execution=False)
    made = facts().sort("id", descending=True).with_columns({"y": col("id") * 2, "r": r})
    made.explain()
    assert "Sort->Project\n+- Tasks[ReadParquet]" in capsys.readouterr().out
    rows = made.take_all()
    assert [row["y"] for row in rows] == list(range(118, -1, -2))
    assert len({row["r"] for row in rows}) == 60
    assert "Sort->Project" in made.stats()
    folder = tmp_path / "out"
    made.select_columns(["y"]).write_parquet(str(folder))
    files = sorted(folder.glob("*.parquet"))
    assert sum(pq.read_metadata(f).num_rows for f in files) == 60
    # The user's functions have tasks of their own.
    mapped = facts().sort("id").map_batches(lambda b: b)
    mapped.explain()
    assert "Tasks[MapBatches(<lambda>)]\n+- Sort" in capsys.readouterr().out


@pytest.mark.contract("F10.08", "F10.19")
@ours
@pytest.mark.parametrize("rows", [0, 1, 119_999, 120_000, 150_001, 300_000])
def test_first_rows_of_large_row_groups(rd: Any, tmp_path: Any, rows: int) -> None:
    """They are read in several tasks, in order, each row once."""
    for i in range(2):
        table = pa.table({"n": range(i * 120_000, (i + 1) * 120_000), "m": ["x"] * 120_000})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    made = rd.read_parquet(str(tmp_path)).limit(rows).map_batches(lambda b: b, batch_size=None)
    found = [n for batch in made.iter_batches(batch_size=None) for n in batch["n"]]
    assert found == list(range(min(rows, 240_000)))


@pytest.mark.contract("F10.33")
@ours
def test_a_source_of_the_program_is_told_what_to_leave_out(
    rd: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask
    from ray.data.expressions import col

    class Numbers(Datasource):
        def __init__(self, can: bool) -> None:
            self.can = can

        def supports_projection_pushdown(self) -> bool:
            return self.can

        def supports_predicate_pushdown(self) -> bool:
            return self.can

        def get_read_tasks(self, parallelism: int, *_: Any) -> list[ReadTask]:
            columns, condition = self.get_projection_map(), self.get_current_predicate()

            def read() -> Any:
                table = pa.table({"a": range(10), "b": range(10, 20), "c": ["x"] * 10})
                if condition is not None:
                    table = table.filter(condition.to_pyarrow())
                yield table if columns is None else table.select(list(columns))

            return [ReadTask(read, BlockMetadata(10, None, None, None))]

    for can in (True, False):
        made = rd.read_datasource(Numbers(can)).filter(expr=col("a") > 3).filter(expr=col("b") < 17)
        made = made.select_columns(["b", "c"]).select_columns(["c", "b"])
        made.explain()
        told = "ReadNumbers[columns=[b, c], filter=((col('a') > 3) & (col('b') < 17))]"
        assert (told in capsys.readouterr().out) is can
        assert made.take_all() == [{"c": "x", "b": b} for b in (14, 15, 16)]
    source = Numbers(can=True).apply_projection({"a": "a", "b": "b"})
    assert source.apply_projection({"b": "b", "c": "c"}).get_projection_map() == {"b": "b"}
    assert source.apply_projection(None).get_projection_map() == {"a": "a", "b": "b"}


@pytest.mark.contract("F10.17", "F10.20")
@ours
def test_explain_says_how_a_join_is_made(
    rd: Any, facts: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    few = rd.from_items([{"k": k, "name": str(k)} for k in range(3)])
    large = rd.range(10_000_000).rename_columns({"id": "k"})
    joined = large.join(few, "inner", 4, on=("k",))
    joined.explain()
    physical = capsys.readouterr().out.split("Physical Plan")[1]
    assert "Join(inner)[right side broadcast]" in physical
    assert physical.rstrip().endswith("+- Input")
    large.join(large, "inner", 4, on=("k",), right_suffix="_r").explain()
    assert "Join(inner)[both sides shuffled]" in capsys.readouterr().out
    assert joined.count() == 3
