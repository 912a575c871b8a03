"""Shuffles, sorts, groups, joins: what needs all blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import ray

CLUSTER = {"num_cpus": 4}


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


@pytest.mark.contract("F10.11")
def test_random_shuffle(rd: Any) -> None:
    dataset = rd.range(500, override_num_blocks=5)
    mixed = ids(dataset.random_shuffle(seed=1))
    assert sorted(mixed) == list(range(500))
    assert mixed != list(range(500))
    # No block holds only what one block held before.
    assert all(max(mixed[i : i + 50]) - min(mixed[i : i + 50]) > 200 for i in range(0, 500, 50))


@pytest.mark.contract("F10.11")
def test_a_seed_repeats_the_shuffle(rd: Any) -> None:
    dataset = rd.range(100, override_num_blocks=4).materialize()
    first, again, other = (ids(dataset.random_shuffle(seed=s)) for s in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.contract("F10.11")
def test_the_order_of_blocks(rd: Any) -> None:
    dataset = rd.range(100, override_num_blocks=20).materialize()
    mixed = ids(dataset.randomize_block_order(seed=3))
    assert sorted(mixed) == list(range(100))
    assert mixed != list(range(100))
    assert all(mixed[i + 1] == mixed[i] + 1 for i in range(0, 100, 5))


@pytest.mark.contract("F10.11")
def test_repartition(rd: Any) -> None:
    dataset = rd.range(10, override_num_blocks=7)

    def sizes(made: Any) -> list[int]:
        found = made.materialize()
        assert sorted(ids(found)) == list(range(10))
        return sorted(t.num_rows for t in ray.get(found.to_arrow_refs()))

    assert sizes(dataset.repartition(3)) == [3, 3, 4]
    assert len(sizes(dataset.repartition(3, shuffle=True))) == 3
    assert len(sizes(dataset.repartition(20))) == 20
    for wrong in ({}, {"num_blocks": 2, "target_num_rows_per_block": 2}):
        with pytest.raises(ValueError, match=r"num_blocks|target"):
            dataset.repartition(**wrong)


@pytest.mark.contract("F10.11")
@pytest.mark.heliostat_only("Ray joins no small blocks unless strict=True")
def test_blocks_of_a_number_of_rows(rd: Any) -> None:
    made = rd.range(10, override_num_blocks=7).repartition(target_num_rows_per_block=4)
    assert [t.num_rows for t in ray.get(made.to_arrow_refs())] == [4, 4, 2]
    assert ids(made) == list(range(10))


@pytest.mark.contract("F10.11")
def test_sort(rd: Any) -> None:
    dataset = rd.range(300, override_num_blocks=6).random_shuffle(seed=1)
    assert ids(dataset.sort("id")) == list(range(300))
    assert ids(dataset.sort("id", descending=True)) == list(range(299, -1, -1))
    with pytest.raises(ValueError, match="key"):
        dataset.sort(None)


@pytest.mark.contract("F10.11")
def test_sort_by_several_columns(rd: Any) -> None:
    rng = np.random.default_rng(0)
    rows = [{"a": int(a), "b": str(b)} for a, b in rng.integers(0, 6, (60, 2))]
    dataset = rd.from_items(rows, override_num_blocks=5)
    found = dataset.sort(["a", "b"], descending=[True, False]).take_all()
    assert found == sorted(rows, key=lambda r: (-r["a"], r["b"]))


@pytest.mark.contract("F10.12")
def test_groups(rd: Any) -> None:
    dataset = rd.from_items([{"k": i % 3, "v": i} for i in range(30)])

    def by_key(made: Any) -> list[Any]:
        rows = sorted(made.take_all(), key=lambda row: row["k"])
        return [next(v for n, v in row.items() if n != "k") for row in rows]

    groups = dataset.groupby("k")
    assert by_key(groups.count()) == [10, 10, 10]
    assert by_key(groups.sum("v")) == [135, 145, 155]
    assert by_key(groups.min("v")) == [0, 1, 2]
    assert by_key(groups.max("v")) == [27, 28, 29]
    assert by_key(groups.mean("v")) == [13.5, 14.5, 15.5]
    assert by_key(groups.std("v")) == pytest.approx([np.std(range(0, 30, 3), ddof=1)] * 3)
    assert set(groups.sum("v").columns()) == {"k", "sum(v)"}


@pytest.mark.contract("F10.12")
def test_all_rows_as_one_group(rd: Any) -> None:
    rows = rd.range(10, override_num_blocks=3).groupby(None)
    assert rows.count().take_all() == [{"count()": 10}]
    assert rows.sum("id").take_all() == [{"sum(id)": 45}]
    made = rows.map_groups(lambda g: {"n": [len(g["id"])]})
    assert made.take_all() == [{"n": 10}]


@pytest.mark.contract("F10.12")
def test_functions_of_groups(rd: Any) -> None:
    dataset = rd.from_items([{"k": i % 3, "v": i} for i in range(10)])
    made = dataset.groupby("k").map_groups(lambda g: {"k": g["k"][:1], "n": [len(g["v"])]})
    assert sorted((row["k"], row["n"]) for row in made.take_all()) == [(0, 4), (1, 3), (2, 3)]


@pytest.mark.contract("F10.12")
def test_aggregates_of_the_whole(rd: Any) -> None:
    dataset = rd.range(10)
    assert (dataset.sum("id"), dataset.min("id"), dataset.max("id")) == (45, 0, 9)
    assert (dataset.mean("id"), dataset.std("id")) == pytest.approx((4.5, 3.0276503540974917))
    assert sorted(dataset.unique("id")) == list(range(10))
    assert dataset.filter(lambda row: False).sum("id") is None


@pytest.mark.contract("F10.12", "F10.13")
def test_missing_values(rd: Any) -> None:
    from ray.data.aggregate import Count, Mean, Min, Sum

    dataset = rd.from_items([{"v": 1.0}, {"v": None}, {"v": 3.0}], override_num_blocks=3)
    made = dataset.aggregate(
        Sum("v"), Mean("v"), Min("v"), Count(), Count("v", ignore_nulls=True, alias_name="there")
    )
    assert made == {"sum(v)": 4.0, "mean(v)": 2.0, "min(v)": 1.0, "count()": 3, "there": 2}
    assert dataset.sum("v", ignore_nulls=False) is None


@pytest.mark.contract("F10.13")
def test_further_aggregations(rd: Any) -> None:
    from ray.data import aggregate as agg

    rows = [{"v": v} for v in (-4, 0, 1, 1, 2)]
    dataset = rd.from_items(rows, override_num_blocks=2)
    made = dataset.aggregate(
        agg.AbsMax("v"), agg.Quantile("v", 0.5), agg.Std("v", ddof=0), agg.CountDistinct("v"),
        agg.ZeroPercentage("v"), agg.MissingValuePercentage("v"),
    )  # fmt: skip
    assert made["abs_max(v)"] == 4
    assert made["quantile(v)"] == 1
    assert math.isclose(made["std(v)"], np.std([-4, 0, 1, 1, 2]))
    assert made["count_distinct(v)"] == 4
    assert made["zero_pct(v)"] == 20
    assert made["missing_pct(v)"] == 0
    kept = dataset.aggregate(agg.Unique("v"), agg.AsList("v"))
    assert sorted(kept["unique(v)"]) == [-4, 0, 1, 2]
    assert sorted(kept["list(v)"]) == [-4, 0, 1, 1, 2]


@pytest.mark.contract("F10.14")
def test_union_and_zip(rd: Any) -> None:
    a, b = rd.range(5), rd.range(3)
    assert sorted(ids(a.union(b))) == sorted([*range(5), *range(3)])
    zipped = a.zip(rd.range(5, override_num_blocks=2).map_batches(lambda x: {"id": x["id"] * 2}))
    assert zipped.take_all() == [{"id": i, "id_1": 2 * i} for i in range(5)]
    with pytest.raises(ValueError, match="different number of rows"):
        a.zip(b).materialize()


@pytest.mark.contract("F10.14")
@pytest.mark.heliostat_only("Ray's joins need polars")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", [2, 3]),
        ("left_outer", [0, 1, 2, 3]),
        ("right_outer", [2, 3, 4]),
        ("full_outer", [0, 1, 2, 3, 4]),
        ("left_semi", [2, 3]),
        ("right_semi", [2, 3]),
        ("left_anti", [0, 1]),
        ("right_anti", [4]),
    ],
)
def test_joins(rd: Any, kind: str, expected: list[int]) -> None:
    left = rd.from_items([{"id": i, "l": f"l{i}"} for i in range(4)])
    right = rd.from_items([{"id": i, "r": f"r{i}"} for i in (2, 3, 4)])
    made = left.join(right, kind, 2)
    rows = {row["id"]: row for row in made.take_all()}
    assert sorted(rows) == expected
    if kind == "full_outer":
        assert rows[0] == {"id": 0, "l": "l0", "r": None}
        assert rows[3] == {"id": 3, "l": "l3", "r": "r3"}


@pytest.mark.contract("F10.14")
@pytest.mark.heliostat_only("Ray's joins need polars")
def test_wrong_joins(rd: Any) -> None:
    with pytest.raises(ValueError, match="join type"):
        rd.range(2).join(rd.range(2), "sideways", 1)
    with pytest.raises(ValueError, match="no column 'zz'"):
        rd.range(2).join(rd.range(2), "inner", 1, on=("zz",)).materialize()


# (key, l) of the left side, (key, r) of the right; what Ray 2.60 gives with polars.
LEFT, RIGHT = [(1, 1), (1, 2), (None, 3)], [(1, 7), (None, 8), (3, 9)]
MATCHED = [(1, 1, 7), (1, 2, 7)]
ONLY_LEFT, ONLY_RIGHT = [(None, 3, None)], [(None, None, 8), (3, None, 9)]


@pytest.mark.contract("F10.14")
@pytest.mark.heliostat_only("Ray's joins need polars")
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", MATCHED),
        ("left_outer", MATCHED + ONLY_LEFT),
        ("right_outer", MATCHED + ONLY_RIGHT),
        ("full_outer", MATCHED + ONLY_LEFT + ONLY_RIGHT),
        ("left_semi", [(1, 1), (1, 2)]),
        ("right_semi", [(1, 7)]),
        ("left_anti", [(None, 3)]),
        ("right_anti", [(None, 8), (3, 9)]),
    ],
)
def test_missing_keys_match_nothing_in_joins(rd: Any, kind: str, expected: list[Any]) -> None:
    left = rd.from_items([{"id": k, "l": v} for k, v in LEFT])
    right = rd.from_items([{"id": k, "r": v} for k, v in RIGHT])
    rows = left.join(right, kind, 2).take_all()
    found = [tuple(row[name] for name in ("id", "l", "r") if name in row) for row in rows]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.contract("F10.14")
@pytest.mark.heliostat_only("Ray's joins need polars")
def test_names_of_joined_columns(rd: Any) -> None:
    left = rd.from_items([{"id": 1, "v": "l", "a": 0}])
    right = rd.from_items([{"key": 1, "v": "r"}])

    def row(kind: str = "inner", **suffixes: str) -> dict[str, Any]:
        made = left.join(right, kind, 1, on=("id",), right_on=("key",), **suffixes)
        return dict(made.take(1)[0])

    both = {"left_suffix": "_l", "right_suffix": "_r"}
    assert list(row(**both).items()) == [("id", 1), ("v_l", "l"), ("a", 0), ("v_r", "r")]
    assert row("right_outer", **both) == {"key": 1, "v_l": "l", "a": 0, "v_r": "r"}
    assert row(left_suffix="_l") == {"id": 1, "v_l": "l", "a": 0, "v": "r"}
    assert row(right_suffix="_r") == {"id": 1, "v": "l", "a": 0, "v_r": "r"}
    assert row("left_semi") == {"id": 1, "v": "l", "a": 0}
    assert row("right_semi") == {"key": 1, "v": "r"}
    for suffixes in ({}, {"left_suffix": "_x", "right_suffix": "_x"}):
        with pytest.raises(ValueError, match=r"\['v'\].*left_suffix"):
            row(**suffixes)
    with pytest.raises(ValueError, match="num_partitions"):
        left.join(right, "inner", 0)


@pytest.mark.contract("F10.12")
@pytest.mark.heliostat_only("Ray's needs datasketches")
def test_summary(rd: Any) -> None:
    from ray.data.aggregate import Count, Sum
    from ray.data.datatype import DataType

    dataset = rd.from_items([{"n": 0, "s": "a"}, {"n": 2, "s": None}, {"n": 4, "s": "a"}])
    summary = dataset.summary()
    assert summary.columns == ["n", "s"]
    numbers = summary.get_column_stats("n").set_index("statistic")["value"].dropna().to_dict()
    assert numbers == {
        "approx_quantile[0]": 2, "count": 3, "max": 4, "mean": 2, "min": 0, "missing_pct": 0,
        "std": pytest.approx(1.632993162), "zero_pct": pytest.approx(100 / 3),
    }  # fmt: skip
    frame = summary.to_pandas()
    assert list(frame.columns) == ["statistic", "n", "s"]
    assert list(frame["statistic"]) == sorted(frame["statistic"])
    texts = frame.set_index("statistic")["s"]
    assert texts["approx_topk[0]"] == {"s": "a", "count": 2}
    assert texts["missing_pct"] == pytest.approx(100 / 3)
    own = {DataType.int64(): lambda column: [Count(on=column), Sum(on=column)]}
    assert dataset.summary(["n"], own).to_pandas().to_dict("list") == {
        "statistic": ["count", "sum"],
        "n": [3, 6],
    }
    for wrong in (lambda: dataset.summary(["zz"]), lambda: summary.get_column_stats("zz")):
        with pytest.raises(ValueError, match="zz"):
            wrong()


@pytest.mark.contract("F10.13")
@pytest.mark.heliostat_only("Ray's sketches need datasketches")
def test_values_that_occur_most_and_quantiles(rd: Any) -> None:
    from ray.data import aggregate as agg

    rows = [{"v": v, "s": s} for v, s in zip([3, None, -4, 0, 3, 1], "abacad", strict=True)]
    dataset = rd.from_items(rows, override_num_blocks=3)
    found = dataset.aggregate(
        agg.ApproximateQuantile("v", [0.1, 0.5, 0.9]), agg.ApproximateTopK("s", 1),
        agg.CountDistinct("v"), agg.CountDistinct("v", ignore_nulls=False, alias_name="all"),
    )  # fmt: skip
    assert found == {
        "approx_quantile(v)": [-4, 1, 3],
        "approx_topk(s)": [{"s": "a", "count": 3}],
        "count_distinct(v)": 4,
        "all": 5,
    }
    assert None in dataset.aggregate(agg.Unique("v"))["unique(v)"]
    lists = rd.from_items([{"l": [1, 2]}, {"l": [2]}, {"l": [1, 2]}])
    kept = lists.aggregate(
        agg.Unique("l"), agg.Unique("l", alias_name="inside", encode_lists=True),
        agg.ApproximateTopK("l", 1, encode_lists=True),
    )  # fmt: skip
    assert sorted(kept["unique(l)"]) == [[1, 2], [2]]
    assert sorted(kept["inside"]) == [1, 2]
    assert kept["approx_topk(l)"] == [{"l": 2, "count": 3}]


@pytest.mark.contract("F10.11", "F10.12")
def test_blocks_whose_keys_are_all_missing_or_of_another_type(rd: Any) -> None:
    # Each row is a block of its own: of integers, of nothing, of a fraction.
    keys = [3, None, 1, 2.5, None, 1]
    dataset = rd.from_items([{"k": k, "v": i} for i, k in enumerate(keys)], override_num_blocks=6)
    assert [row["k"] for row in dataset.sort("k").take_all()] == [1, 1, 2.5, 3, None, None]
    falling = dataset.sort("k", descending=True).take_all()
    assert [row["k"] for row in falling] == [3, 2.5, 1, 1, None, None]
    counts = {row["k"]: row["count()"] for row in dataset.groupby("k").count().take_all()}
    assert counts == {1: 2, 2.5: 1, 3: 1, None: 2}
    assert dataset.unique("k", ignore_nulls=True) != []
    assert set(dataset.unique("k")) == {3, None, 1, 2.5}
    parts = dataset.repartition(2, keys=["k"]).materialize()
    assert sorted(row["v"] for row in parts.take_all()) == [0, 1, 2, 3, 4, 5]
    joined = dataset.join(dataset, "inner", 3, on=("k",), left_suffix="_l", right_suffix="_r")
    pairs = sorted((row["v_l"], row["v_r"]) for row in joined.take_all())
    assert pairs == [(0, 0), (2, 2), (2, 5), (3, 3), (5, 2), (5, 5)]


# --- many blocks in many parts ---------------------------------------------------------------------


@pytest.mark.contract("F10.11", "F10.12", "F10.14")
@pytest.mark.heliostat_only("how many objects an exchange makes is no part of Ray's API")
@pytest.mark.parametrize("at_once", [2, 100])
def test_exchanges_of_many_blocks_give_the_same_in_two_steps(
    rd: Any, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    from heliostat.data.execute import two_levels

    monkeypatch.setattr(two_levels, "TOGETHER_BYTES", 0)
    # Of one key with half of all rows, and rows of equal keys in the order that they came in.
    rows = [{"k": 0 if i % 2 else i % 37, "id": i} for i in range(900)]
    dataset = rd.from_items(rows, override_num_blocks=12).materialize()
    pair = rd.from_items([{"k": k, "name": f"n{k}"} for k in range(37)], override_num_blocks=5)

    def all_ways() -> list[Any]:
        joined = dataset.join(pair.materialize(), "inner", 11, on=("k",)).take_all()
        return [
            dataset.random_shuffle(seed=3, num_blocks=13).take_all(),
            dataset.sort("k").take_all(),
            dataset.sort("k", descending=True).take_all(),
            dataset.groupby("k", num_partitions=11).map_groups(lambda g: g).take_all(),
            sorted(joined, key=lambda row: int(row["id"])),
        ]

    in_one = all_ways()
    assert in_one[1] == sorted(rows, key=lambda row: row["k"])
    calls: list[int] = []
    monkeypatch.setattr(two_levels, "OBJECTS_MAX", 1)
    monkeypatch.setattr(two_levels, "BLOCKS_MIN", at_once)
    monkeypatch.setattr(
        two_levels, "blocks_at_once", lambda *_: calls.append(1) or min(at_once, 12)
    )
    assert all_ways() == in_one
    assert len(calls) >= 4


@pytest.mark.contract("F10.11", "F10.12", "F10.14")
@pytest.mark.heliostat_only("how many tasks an exchange has is no part of Ray's API")
def test_small_blocks_are_split_by_one_task(rd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from heliostat.data.execute import two_levels
    from heliostat.data.plan.operators import Bundle

    rows = [{"k": i % 37, "id": i} for i in range(900)]
    dataset = rd.from_items(rows, override_num_blocks=90).materialize()
    pair = rd.from_items([{"k": k, "name": f"n{k}"} for k in range(37)], override_num_blocks=5)

    def len_of(group: Any) -> dict[str, list[int]]:
        return {"k": [int(group["k"][0])], "rows": [len(group["id"])]}

    def both() -> tuple[list[Any], int]:
        ordered = dataset.sort("k", descending=True).materialize()
        tasks = ordered._stats.operators[-1].tasks
        joined = dataset.join(pair.materialize(), "inner", 11, on=("k",)).take_all()
        made = sorted(joined, key=lambda row: int(row["id"]))
        groups = dataset.groupby("k", num_partitions=5)
        made += [*groups.sum("id").take_all(), *groups.map_groups(len_of).take_all()]
        return [*ordered.take_all(), *made], tasks

    together, few = both()
    assert together[:900] == sorted(rows, key=lambda row: -row["k"])
    monkeypatch.setattr(two_levels, "TOGETHER_BYTES", 0)
    alone, many = both()
    assert alone == together
    assert many - few == 2 * (90 - 1)  # samples and parts are of one table, not of 90
    # A shuffle by a seed is the same each time.
    monkeypatch.undo()
    shuffled = [dataset.random_shuffle(seed=5).take_all() for _ in range(2)]
    assert shuffled[0] == shuffled[1] != rows

    def runs(*sizes: int) -> list[list[int]]:
        found = two_levels.neighbours([Bundle(None, 1, size) for size in sizes])
        return [[bundle.size for bundle in run] for run in found]

    mib = 1 << 20
    assert runs() == []
    assert runs(mib, mib, mib, mib, 1, 9 * mib, 1, 1) == [[mib] * 4, [1], [9 * mib], [1, 1]]
    assert [len(run) for run in runs(*[1] * 2001)] == [1000, 1000, 1]


@pytest.mark.contract("F10.11")
@pytest.mark.heliostat_only("how many objects an exchange makes is no part of Ray's API")
def test_objects_of_an_exchange_grow_less_than_blocks_times_parts() -> None:
    from heliostat.data.execute import two_levels

    assert not two_levels.is_wanted(200, 200)
    assert two_levels.is_wanted(1000, 1000)
    for parts in range(1, 2000):
        width = two_levels.group_size(parts)
        assert (width - 1) ** 2 < parts <= width**2
    groups = -(-1000 // two_levels.group_size(1000))
    at_once = two_levels.blocks_at_once(1000, groups, 1e9, 128 << 20)
    first, second = 1000 * groups, -(-1000 // at_once) * 1000
    assert first + second < 50_000
    # Large blocks are taken a few at a time: what a task holds stays near a block.
    few = two_levels.blocks_at_once(1000, groups, 1000 * (128 << 20), 128 << 20)
    assert few == 32


@pytest.mark.contract("F10.11")
@pytest.mark.heliostat_only("Heliostat's own function")
def test_a_large_part_is_sorted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    from heliostat.data.execute import exchanges

    rng = np.random.default_rng(0)
    keys = np.where(rng.random(5000) < 0.5, 7, rng.integers(0, 50, 5000))
    table = pa.table({"k": keys, "at": np.arange(5000)})
    pieces = [table.slice(at, 700) for at in range(0, 5000, 700)]
    for direction in ("ascending", "descending"):
        sort = exchanges.Sorted([("k", direction)])
        (whole,) = sort(iter(pieces))
        monkeypatch.setattr(exchanges, "SORTED_BYTES_MAX", 10_000)
        cut = list(sort(iter(pieces)))
        monkeypatch.undo()
        assert len(cut) > 5
        assert max(piece.nbytes for piece in cut) <= 10_000
        assert pa.concat_tables(cut).equals(whole)
