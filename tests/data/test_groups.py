"""Groups whose aggregations are put together of parts: the answers are those of all rows at once."""

from __future__ import annotations

import decimal
import math
import random
import statistics
from typing import Any

import numpy as np
import pyarrow as pa
import pytest


def rows_of(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return [
        {
            "k": maybe(rng.randint(0, 4)),
            "t": rng.choice(["a", "b"]),
            "i": maybe(rng.randint(-9, 9)),
            "f": maybe(rng.choice([0.5, -2.0, 1e9 + rng.random()])),
            "s": maybe(rng.choice(["x", "y", "z"])),
            "b": maybe(rng.random() < 0.5),
        }
        for _ in range(count)
    ]


def expected(rows: list[dict[str, Any]], keys: list[str]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[k] for k in keys), []).append(row)
    made = []
    order = sorted(groups, key=lambda key: [(v is None, v) for v in key])
    for key in order:
        group = groups[key]

        def there(name: str, group: Any = group) -> list[Any]:
            return [row[name] for row in group if row[name] is not None]

        made.append(
            {
                **dict(zip(keys, key, strict=True)),
                "count()": len(group),
                "count(i)": len(group),
                "there": len(there("i")),
                "sum(i)": sum(there("i")) if there("i") else None,
                "sum(b)": sum(there("b")) if there("b") else None,
                "mean(i)": statistics.fmean(there("i")) if there("i") else None,
                "min(s)": min(there("s"), default=None),
                "max(f)": max(there("f"), default=None),
                "std(f)": _std(there("f"), 1),
                "p": _std(there("i"), 0),
            }
        )
    return made


def _std(values: list[float], ddof: int) -> float | None:
    if not values:
        return None
    if len(values) <= ddof:
        return math.nan
    return statistics.stdev(values) if ddof else statistics.pstdev(values)


@pytest.mark.contract("F10.12", "F10.13")
@pytest.mark.parametrize("keys", [["k"], ["t", "k"]])
@pytest.mark.parametrize("blocks", [1, 7])
@pytest.mark.parametrize("seed", [1, 2])
def test_groups_of_parts(rd: Any, keys: list[str], blocks: int, seed: int) -> None:
    from ray.data.aggregate import Count, Max, Mean, Min, Std, Sum

    rows = rows_of(60, seed)
    dataset = rd.from_items(rows, override_num_blocks=blocks)
    found = dataset.groupby(keys).aggregate(
        Count(), Count("i"), Count("i", ignore_nulls=True, alias_name="there"), Sum("i"), Sum("b"),
        Mean("i"), Min("s"), Max("f"), Std("f"), Std("i", ddof=0, alias_name="p"),
    ).take_all()  # fmt: skip
    found.sort(key=lambda row: [(row[k] is None, row[k]) for k in keys])
    wanted = expected(rows, keys)
    assert len(found) == len(wanted)
    for mine, right in zip(found, wanted, strict=True):
        assert mine.keys() == right.keys()
        for name, value in right.items():
            near = (
                value
                if value is None or isinstance(value, str)
                else pytest.approx(value, nan_ok=True, rel=1e-9)
            )
            assert mine[name] == near, name


@pytest.mark.contract("F10.12")
@pytest.mark.heliostat_only(
    "Ray's groups come in the order of a hash, and its blocks in their number"
)
def test_groups_come_sorted_and_in_as_many_blocks_as_asked_for(rd: Any) -> None:
    numbers = rd.range(1000, override_num_blocks=8)
    dataset = numbers.add_column("k", lambda b: b["id"] % 97, batch_format="numpy")
    assert [r["k"] for r in dataset.groupby("k").count().take_all()] == list(range(97))
    made = dataset.groupby("k", num_partitions=4).sum("id").materialize()
    assert made.num_blocks() == 4
    assert [r["k"] for r in made.take_all()] == list(range(97))


@pytest.mark.contract("F10.12")
def test_groups_of_decimals_and_of_missing_values(rd: Any) -> None:
    values = [decimal.Decimal("1.50"), decimal.Decimal("2.25"), None, decimal.Decimal("1.00")]
    table = pa.table({"k": [1, 1, 2, 2], "d": pa.array(values, pa.decimal128(5, 2))})
    found = rd.from_arrow(table).groupby("k").mean("d").take_all()
    assert [(r["k"], float(r["mean(d)"])) for r in found] == [(1, 1.88), (2, 1.0)]
    missing = rd.from_items([{"k": 1, "v": None}, {"k": 1, "v": 3}, {"k": 2, "v": None}])
    found = missing.groupby("k").sum("v").take_all()
    assert [(r["k"], r["sum(v)"]) for r in found] == [(1, 3), (2, None)]


@pytest.mark.contract("F10.12", "F10.20")
@pytest.mark.heliostat_only("how groups are made is ours to say")
def test_groups_move_parts(rd: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = rd.from_items([{"k": n % 3, "v": n, "w": 0} for n in range(90)])
    dataset.write_parquet(str(tmp_path))
    made = rd.read_parquet(str(tmp_path)).groupby("k").sum("v")
    made.explain()
    said = capsys.readouterr().out
    assert "Aggregate\n+- AggregateParts\n   +- ReadParquet[columns=[k, v]]" in said
    assert made.take_all() == [{"k": k, "sum(v)": sum(range(k, 90, 3))} for k in range(3)]
    with pytest.raises(Exception, match="no column 'zz'"):
        rd.read_parquet(str(tmp_path)).groupby("k").sum("zz").take_all()


@pytest.mark.contract("F10.13")
@pytest.mark.heliostat_only("Ray's quantile raises where all values are missing")
def test_quantiles_of_missing_values(rd: Any) -> None:
    from ray.data.aggregate import Quantile

    dataset = rd.from_items([{"k": 1, "v": None}, {"k": 1, "v": None}])
    for ignore in (True, False):
        assert dataset.aggregate(Quantile("v", ignore_nulls=ignore)) == {"quantile(v)": None}


@pytest.mark.contract("F10.13")
@pytest.mark.heliostat_only("of Ray's own classes, too, only some can be derived from")
def test_groups_of_a_derived_aggregation(rd: Any) -> None:
    from ray.data.aggregate import Sum

    class Tenfold(Sum):
        def finalize(self, accumulator: Any) -> Any:
            return accumulator * 10

    dataset = rd.from_items([{"k": 1, "v": 2}, {"k": 1, "v": 3}])
    assert dataset.groupby("k").aggregate(Tenfold("v")).take_all() == [{"k": 1, "sum(v)": 50}]


# --- tasks and actors of their own for functions of groups ---


class Counted:
    """Says which instance was called, and how often it had been."""

    def __init__(self, name: str) -> None:
        self.name, self.calls = f"{name}{id(self)}", 0

    def __call__(self, group: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        count = np.array([len(group["v"])])
        return {"k": group["k"][:1], "n": count, "by": [self.name], "call": [self.calls]}


@pytest.mark.contract("F10.14")
def test_a_class_has_one_instance_an_actor(rd: Any) -> None:
    rows = rd.from_items([{"k": i % 10, "v": i} for i in range(95)], override_num_blocks=6)
    grouped = rows.groupby("k", num_partitions=5)
    made = grouped.map_groups(Counted, concurrency=1, fn_constructor_args=("x",), num_cpus=0.5)
    found = made.sort("k").take_all()
    assert [(row["k"], row["n"]) for row in found] == [(k, 10 if k < 5 else 9) for k in range(10)]
    assert len({row["by"] for row in found}) == 1
    assert sorted(row["call"] for row in found) == list(range(1, 11))


@pytest.mark.contract("F10.14")
def test_options_reach_the_tasks_of_functions_of_groups(rd: Any) -> None:
    import ray

    def about(group: dict[str, Any]) -> dict[str, Any]:
        given = ray.get_runtime_context().get_assigned_resources()
        return {"k": group["k"][:1], "cpus": [given.get("CPU", 0.0)]}

    rows = rd.from_items([{"k": i % 3} for i in range(9)])
    for made in (
        rows.groupby("k").map_groups(about, num_cpus=0.25),
        rows.groupby("k").map_groups(about, ray_remote_args_fn=lambda: {"num_cpus": 0.25}),
    ):
        assert {row["cpus"] for row in made.take_all()} == {0.25}
    with pytest.raises(ValueError, match="num_cpu"):
        rows.groupby("k").map_groups(about, num_cpu=0.25).take_all()
    with pytest.raises(ValueError, match="cannot both be given"):
        rows.groupby("k").map_groups(Counted, compute=rd.ActorPoolStrategy(size=1), concurrency=2)


@pytest.mark.contract("F10.14")
def test_no_group_is_cut_whatever_the_size_of_blocks(
    rd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.data.context import DataContext

    monkeypatch.setattr(DataContext.get_current(), "target_max_block_size", 512)
    rows = [
        {"k": i % 7, "v": i, "t": np.full((2, 2), i), "o": complex(i, 1), "s": "é" * (i % 5)}
        for i in range(300)
    ]

    def whole(group: dict[str, Any]) -> dict[str, Any]:
        assert group["t"].shape == (len(group["v"]), 2, 2)
        return {"k": group["k"][:1], "v": [sorted(group["v"])], "o": [sum(group["o"]).real]}

    expected = {k: sorted(range(k, 300, 7)) for k in range(7)}
    made = rd.from_items(rows, override_num_blocks=9).groupby("k").map_groups(whole, concurrency=2)
    found = made.take_all()
    assert {row["k"]: list(row["v"]) for row in found} == expected
    assert {row["k"]: row["o"] for row in found} == {k: sum(v) for k, v in expected.items()}
    (all_rows,) = rd.from_items(rows).groupby(None).map_groups(whole, num_cpus=0.5).take_all()
    assert list(all_rows["v"]) == list(range(300))
    empty = rd.from_items(rows).filter(lambda row: False).groupby("k")
    assert empty.map_groups(whole, num_cpus=0.5).take_all() == []


@pytest.mark.contract("F10.14")
def test_async_functions_and_groups_to_write_to(rd: Any) -> None:
    async def later(group: dict[str, Any]) -> dict[str, Any]:
        return {"n": np.array([len(group["k"])])}

    def zeroed(group: dict[str, Any]) -> dict[str, Any]:
        group["v"][:] = 0
        return group

    grouped = rd.from_items([{"k": i % 2, "v": i} for i in range(5)]).groupby("k")
    assert sorted(row["n"] for row in grouped.map_groups(later).take_all()) == [2, 3]
    made = grouped.map_groups(zeroed, zero_copy_batch=False)
    assert [row["v"] for row in made.take_all()] == [0] * 5


# --- keys of dictionaries, as pandas' categories are ---


def categories(rd: Any, *blocks: list[str | None]) -> Any:
    """A dataset whose blocks each have a dictionary of their own."""
    tables, at = [], 0
    for block in blocks:
        numbers = list(range(at, at + len(block)))
        tables.append(pa.table({"k": pa.array(block).dictionary_encode(), "v": numbers}))
        at += len(block)
    return rd.from_arrow(tables)


@pytest.mark.contract("F10.14")
@pytest.mark.parametrize("copies", [1, 3000])  # the sort of many rows takes another way
def test_dictionaries_of_other_blocks_have_the_same_keys(rd: Any, copies: int) -> None:
    made = categories(rd, ["b", "a", None] * copies, ["c", "b"] * copies)
    found = [row["k"] for row in made.sort("k", descending=True).take_all()]
    assert found == ["c"] * copies + ["b"] * 2 * copies + ["a"] * copies + [None] * copies
    grouped = made.groupby("k")
    counts = {"a": copies, "b": 2 * copies, "c": copies, None: copies}
    assert {row["k"]: row["count()"] for row in grouped.count().take_all()} == counts
    assert {row["k"] for row in grouped.std("v").take_all()} == set(counts)
    sizes = grouped.map_groups(lambda g: {"k": g["k"][:1], "n": [len(g["v"])]})
    assert {row["k"]: row["n"] for row in sizes.take_all()} == counts
    joined = made.join(categories(rd, ["c", "a"]), "inner", 3, on=("k",), right_suffix="_r")
    assert joined.count() == 2 * copies


@pytest.mark.contract("F10.14")
def test_dictionaries_beside_plain_values(rd: Any) -> None:
    numbers = pa.table({"k": pa.array([2, 1]).dictionary_encode()})
    made = rd.from_arrow([numbers, pa.table({"k": [1, 3, None]})])
    assert [row["k"] for row in made.sort("k").take_all()] == [1, 1, 2, 3, None]
    assert sorted(row["count()"] for row in made.groupby("k").count().take_all()) == [1, 1, 1, 2]
    assert list(made.to_pandas()["k"].dropna()) == [2, 1, 1, 3]
