"""Data: groups, aggregates, sorts, joins, unions, zips, splits, shuffles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
from ray.data.aggregate import AggregateFn, Count, Max, Mean, Min, Quantile, Std, Sum, Unique

from tests.strangers.kit import main, raised, stranger

TAGS = [
    {"tag": "kitty", "number": 12},
    {"tag": "karen", "number": 1},
    {"tag": "karen", "number": 3},
    {"tag": "times", "number": 2},
]


@stranger("ray#49276", {"1.0": 2, "2.0": 1, "nan": 1})
def groups_by_a_column_with_nan() -> object:
    """Grouping by a column with NaN ends, and NaN is a group."""
    found = ray.data.from_items([1.0, 1.0, 2.0, np.nan]).groupby("item").count().take_all()
    return {
        str(float("nan") if row["item"] is None else row["item"]): row["count()"] for row in found
    }


@stranger("ray#46748", [12, 3, 2, 1])
def sorting_groups_that_are_frames() -> object:
    """A sort after map_groups with pandas batches."""
    ds = ray.data.from_items(TAGS).groupby("tag").map_groups(lambda g: g, batch_format="pandas")
    return ds.sort("number", descending=True).to_pandas()["number"].tolist()


@stranger("ray#44536", [("a", 2), ("b", 1)])
def grouping_frames_and_tables_at_once() -> object:
    """Blocks of which some are frames and some tables are grouped together."""
    ds = ray.data.from_pandas(pd.DataFrame({"k": ["a", "b"]})).union(
        ray.data.from_arrow(pa.table({"k": ["a"]}))
    )
    return sorted((row["k"], row["count()"]) for row in ds.groupby("k").count().take_all())


@stranger("ray#48926", "raises")
def sort_without_a_key() -> object:
    """sort() without a key is an error in words."""
    error = raised(lambda: ray.data.from_pandas(pd.DataFrame({"x": [1, 2]})).sort().take_all())
    return "raises" if not isinstance(error, IndexError) else repr(error)


@stranger("ray#30205", [(0, [0, 3, 6]), (1, [1, 4, 7]), (2, [2, 5])])
def an_aggregate_of_ones_own() -> object:
    """AggregateFn with init, accumulate_row, merge and finalize."""
    gather = AggregateFn(
        init=lambda key: [],
        accumulate_row=lambda a, row: [*a, row["id"]],
        merge=lambda a, b: [*a, *b],
        finalize=lambda a: sorted(a),
        name="all",
    )
    ds = ray.data.range(8).map(lambda r: {"k": r["id"] % 3, "id": r["id"]})
    return sorted((r["k"], list(r["all"])) for r in ds.groupby("k").aggregate(gather).take_all())


@stranger("ray#35166", [("foo", [123, 456])])
def a_map_after_an_aggregate() -> object:
    """map_batches after an aggregate."""
    gather = AggregateFn(
        init=lambda key: [],
        accumulate_row=lambda a, row: [*a, row["val"]],
        merge=lambda a, b: [*a, *b],
        name="vals",
    )
    ds = ray.data.from_items([{"key": "foo", "val": 123}, {"key": "foo", "val": 456}])
    ds = ds.groupby("key").aggregate(gather).map_batches(lambda b: b)
    return [(row["key"], sorted(row["vals"])) for row in ds.take_all()]


@stranger("ray#45312", 5)
def map_groups_runs_what_is_before_it_once() -> object:
    """What comes before map_groups is executed once."""

    @ray.remote(num_cpus=0)
    class Calls:
        n = 0

        def add(self) -> None:
            self.n += 1

        def value(self) -> int:
            return self.n

    calls = Calls.remote()

    def counted(row: dict[str, Any]) -> dict[str, Any]:
        ray.get(calls.add.remote())
        return row

    ds = ray.data.range(5, override_num_blocks=5).map(counted).groupby("id").map_groups(lambda g: g)
    ds.take_all()
    return ray.get(calls.value.remote())


@stranger("ray#60872", [3, 3])
def a_limit_after_map_groups() -> object:
    """map_groups makes ten rows of a group; limit(3) after it gives three, and all of one group."""

    def ten(group: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"k": np.repeat(group["k"][:1], 10)}

    ds = ray.data.from_items([{"k": 1}] * 4).groupby("k").map_groups(ten)
    return [ds.limit(3).count(), len(ds.limit(3).take_all())]


@stranger("ray#46984", [("a", 1, 3), ("a", 2, 3), ("b", 1, 4)])
def groups_by_two_columns() -> object:
    """groupby of two columns with a sum."""
    ds = ray.data.from_items(
        [
            {"x": "a", "y": 1, "v": 1},
            {"x": "a", "y": 1, "v": 2},
            {"x": "a", "y": 2, "v": 3},
            {"x": "b", "y": 1, "v": 4},
        ]
    )
    return sorted((r["x"], r["y"], r["sum(v)"]) for r in ds.groupby(["x", "y"]).sum("v").take_all())


@stranger(
    "docs: Aggregations", {"sum": 6, "min": 0, "max": 3, "mean": 1.5, "std": 1.2910, "count": 4}
)
def aggregates_of_the_whole() -> object:
    """sum, min, max, mean, std of a column, by aggregate() at once."""
    ds = ray.data.range(4)
    found = ds.aggregate(Sum("id"), Min("id"), Max("id"), Mean("id"), Std("id"), Count())
    return {
        "sum": found["sum(id)"],
        "min": found["min(id)"],
        "max": found["max(id)"],
        "mean": found["mean(id)"],
        "std": round(found["std(id)"], 4),
        "count": found["count()"],
    }


@stranger("docs: Aggregations, nulls", [3, None, 1.5])
def aggregates_with_nulls() -> object:
    """Nulls are passed over, or make the result null with ignore_nulls=False."""
    ds = ray.data.from_arrow(pa.table({"x": [1, None, 2]}))
    return [ds.sum("x"), ds.aggregate(Sum("x", ignore_nulls=False))["sum(x)"], ds.mean("x")]


@stranger("docs: unique, quantile", [[1, 2, 3], 2.0, 3])
def unique_values_and_quantiles() -> object:
    """unique() of a column, the median, and Unique as an aggregate."""
    ds = ray.data.from_items([{"x": x} for x in (1, 2, 2, 3, 1)])
    median = ds.aggregate(Quantile(on="x", q=0.5))["quantile(x)"]
    return [sorted(ds.unique("x")), float(median), len(ds.aggregate(Unique(on="x"))["unique(x)"])]


@stranger("docs: Sorting", [[("a", 2), ("a", 1), ("b", 3)], [None, 1, 2]])
def sorting_by_two_columns() -> object:
    """Two keys with an order each; nulls have a place."""
    ds = ray.data.from_items([{"k": "b", "v": 3}, {"k": "a", "v": 1}, {"k": "a", "v": 2}])
    pairs = [(r["k"], r["v"]) for r in ds.sort(["k", "v"], descending=[False, True]).take_all()]
    nulls = ray.data.from_arrow(pa.table({"x": [2, None, 1]})).sort("x").take_all()
    values = [r["x"] for r in nulls]
    return [pairs, sorted(values, key=lambda v: (v is not None, v))]


@stranger("docs: Joins", [[(1, "a", "x")], [(1, "a", "x"), (2, "b", None)], 3], needs=("polars",))
def joins() -> object:
    """Inner, left and full outer joins by one column."""
    left = ray.data.from_items([{"id": 1, "l": "a"}, {"id": 2, "l": "b"}])
    right = ray.data.from_items([{"id": 1, "r": "x"}, {"id": 3, "r": "y"}])

    def join(kind: str) -> list[dict[str, Any]]:
        return left.join(right, join_type=kind, num_partitions=2, on=("id",)).take_all()

    def told(kind: str) -> list[tuple[Any, ...]]:
        return sorted((r["id"], r["l"], r["r"]) for r in join(kind))

    return [told("inner"), told("left_outer"), len(join("full_outer"))]


@stranger("ray#62844", [("anna", "DE")], needs=("polars",))
def joining_by_keys_of_two_names() -> object:
    """on and right_on name different columns; what is selected of the left one stays."""
    people = ray.data.from_items([{"name": "anna", "land": 1}])
    lands = ray.data.from_items([{"key": 1, "code": "DE"}, {"key": 2, "code": "FR"}])
    ds = people.join(lands, join_type="inner", num_partitions=2, on=("land",), right_on=("key",))
    return [(r["name"], r["code"]) for r in ds.select_columns(["name", "code"]).take_all()]


@stranger("ray#61055", ["id", "only", "v_l", "v_r"], needs=("polars",))
def suffixes_of_a_join() -> object:
    """Suffixes are put on the columns that both sides have, not on the others."""
    left = ray.data.from_items([{"id": 1, "v": 1, "only": 0}])
    right = ray.data.from_items([{"id": 1, "v": 2}])
    ds = left.join(
        right, join_type="inner", num_partitions=1, on=("id",), left_suffix="_l", right_suffix="_r"
    )
    return sorted(ds.take_all()[0])


@stranger("ray#56487", [[1, 2], {"a": 1}], needs=("polars",))
def a_join_with_lists_and_structs() -> object:
    """Columns of lists and structs come through a join."""
    left = ray.data.from_items([{"id": 1, "list": [1, 2]}])
    right = ray.data.from_items([{"id": 1, "struct": {"a": 1}}])
    [row] = left.join(right, join_type="inner", num_partitions=1, on=("id",)).take_all()
    return [list(row["list"]), dict(row["struct"])]


@stranger(
    "docs: union and zip", [[0, 0, 1, 1, 2], [{"id": 0, "id_1": 0}, {"id": 1, "id_1": 1}], "raises"]
)
def union_and_zip() -> object:
    """union puts one behind the other; zip puts columns side by side and needs equal counts."""
    two, three = ray.data.range(2), ray.data.range(3)
    zipped = two.zip(ray.data.range(2)).take_all()
    raised(lambda: two.zip(three).take_all())
    return [sorted(r["id"] for r in two.union(three).take_all()), zipped, "raises"]


@stranger("docs: Splitting", [[3, 7], [8, 2], [[0, 1], [2, 3, 4], [5]]])
def splits() -> object:
    """split_proportionately, train_test_split, split_at_indices."""
    ds = ray.data.range(10)
    proportion = [part.count() for part in ds.split_proportionately([0.3])]
    train, test = ds.train_test_split(0.2)
    parts = ray.data.range(6).split_at_indices([2, 5])
    return [
        proportion,
        [train.count(), test.count()],
        [[r["id"] for r in part.take_all()] for part in parts],
    ]


@stranger("docs: train_test_split, stratify", {"a": [4, 1], "b": [8, 2]})
def a_stratified_split() -> object:
    """stratify keeps the classes' shares in both parts."""
    ds = ray.data.from_items([{"k": "a"}] * 5 + [{"k": "b"}] * 10)
    train, test = ds.train_test_split(0.2, stratify="k")

    def counts(part: ray.data.Dataset) -> dict[str, int]:
        return {r["k"]: r["count()"] for r in part.groupby("k").count().take_all()}

    one, other = counts(train), counts(test)
    return {k: [one[k], other[k]] for k in ("a", "b")}


@stranger("ray#57984", [20, 20, 20])
def blocks_of_so_many_rows() -> object:
    """repartition(target_num_rows_per_block=20, strict=True): each block has twenty rows."""
    ds = ray.data.range(60, override_num_blocks=7).repartition(
        target_num_rows_per_block=20, strict=True
    )
    return [len(b["id"]) for b in ds.materialize().iter_batches(batch_size=None)]


@stranger("docs: Shuffling", [True, True, True])
def shuffles() -> object:
    """random_shuffle with a seed gives the same order twice, with all rows; another order than before."""
    ds = ray.data.range(100, override_num_blocks=4)
    one = [r["id"] for r in ds.random_shuffle(seed=3).take_all()]
    other = [r["id"] for r in ds.random_shuffle(seed=3).take_all()]
    return [one == other, sorted(one) == list(range(100)), one != list(range(100))]


@stranger("docs: random_sample", [True, True])
def samples() -> object:
    """random_sample gives about its share; with a seed it is the same one."""
    ds = ray.data.range(1000, override_num_blocks=4)
    one = ds.random_sample(0.3, seed=7).count()
    return [200 < one < 400, one == ds.random_sample(0.3, seed=7).count()]


@stranger("docs: streaming_split", [[50, 50], True])
def streams_for_two_readers() -> object:
    """streaming_split(2, equal=True): two readers get half of the rows each, all of them once."""
    one, other = ray.data.range(100, override_num_blocks=10).streaming_split(2, equal=True)

    @ray.remote(num_cpus=0)
    def read(part: ray.data.DataIterator) -> list[int]:
        return [int(i) for batch in part.iter_batches() for i in batch["id"]]

    a, b = ray.get([read.remote(one), read.remote(other)])
    return [[len(a), len(b)], sorted(a + b) == list(range(100))]


@stranger("docs: Preprocessors", [[-1.2247, 0.0, 1.2247], [0, 1, 0], [1, 0, 1]])
def preprocessors() -> object:
    """StandardScaler, LabelEncoder, OneHotEncoder of a small dataset."""
    from ray.data.preprocessors import LabelEncoder, OneHotEncoder, StandardScaler

    ds = ray.data.from_items([{"x": 1.0, "k": "a"}, {"x": 2.0, "k": "b"}, {"x": 3.0, "k": "a"}])
    scaled = StandardScaler(["x"]).fit_transform(ds).sort("x").take_all()
    labels = LabelEncoder("k").fit_transform(ds).sort("x").take_all()
    hot = OneHotEncoder(["k"]).fit_transform(ds).sort("x").take_all()
    first = [row["k_a"] if "k_a" in row else int(np.asarray(row["k"])[0]) for row in hot]
    return [[round(r["x"], 4) for r in scaled], [r["k"] for r in labels], [int(f) for f in first]]


@stranger("forum: mean of an empty dataset", [None, 0, []])
def nothing_at_all() -> object:
    """Aggregates, counts and rows of a dataset that a filter left empty."""
    ds = ray.data.range(3).filter(lambda r: False)
    mean = ds.mean("id")
    if isinstance(mean, float) and math.isnan(mean):
        mean = None
    return [mean, ds.count(), ds.take_all()]


if __name__ == "__main__":
    main()
