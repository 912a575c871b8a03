"""Data: maps, batches, columns, expressions, schemas that differ from block to block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
from ray.data.datatype import DataType
from ray.data.expressions import col, lit, udf

from tests.strangers.kit import main, raised, stranger


def rows(dataset: ray.data.Dataset, key: str = "id") -> list[Any]:
    """The dataset's rows, in an order that does not depend on the blocks'."""
    return sorted(dataset.take_all(), key=lambda row: row[key])


@stranger("ray#39559", [["Looney", "Loona"], ["Rorey"], ["Scoot"]])
def lists_of_several_lengths() -> object:
    """Lists of different lengths in a column survive several map_batches."""
    names = [["Looney", "Loona"], ["Rorey"], ["Scoot"]]
    ds = ray.data.from_items([{"id": i, "names": n} for i, n in enumerate(names)])
    for _ in range(3):
        ds = ds.map_batches(lambda batch: batch)
    return [list(row["names"]) for row in rows(ds)]


@stranger(
    "ray#46855",
    [
        [{"role": "user", "text": "a"}],
        [{"role": "bot", "text": "b"}, {"role": "user", "text": "c"}],
    ],
)
def lists_of_structs_as_pandas() -> object:
    """A column of lists of dicts goes through a pandas batch."""
    talks = [
        [{"role": "user", "text": "a"}],
        [{"role": "bot", "text": "b"}, {"role": "user", "text": "c"}],
    ]
    ds = ray.data.from_items([{"id": i, "messages": m} for i, m in enumerate(talks)])

    def same(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            [{"id": r["id"], "messages": r["messages"]} for _, r in frame.iterrows()]
        )

    ds = ds.map_batches(same, batch_format="pandas")
    return [[dict(m) for m in row["messages"]] for row in rows(ds)]


@stranger("ray#49338", [None, "a", None, "b"])
def a_column_that_is_null_in_one_block() -> object:
    """A column that is all null in one block and text in another, mapped beside an array column."""
    one = pa.table({"id": [0], "label": pa.nulls(1)})
    other = pa.table({"id": [1, 2, 3], "label": ["a", None, "b"]})
    ds = ray.data.from_arrow([one, other]).map(lambda r: {**r, "image": np.zeros((2, 2))})
    return [row["label"] for row in rows(ds)]


@stranger("ray#65187", [{"a": 0.0, "b": 4.0}, {"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 0.0}])
def fillna_of_a_null_block() -> object:
    """fillna in a pandas batch works where a block's column is all null."""
    ds = ray.data.from_items(
        [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": None}, {"a": None, "b": 4.0}],
        override_num_blocks=3,
    )
    return rows(
        ds.map_batches(lambda f: f.fillna({"a": 0.0, "b": 0.0}), batch_format="pandas"), "a"
    )


@stranger("ray#53529", [None, None, 5])
def rows_that_lack_a_key() -> object:
    """Rows of one map with different keys: what is missing is null."""
    ds = ray.data.range(3).map(lambda r: {"id": r["id"], **({"x": 5} if r["id"] == 2 else {})})
    return [row.get("x") for row in rows(ds)]


@stranger(
    "ray#59946",
    [["apples"], 0],
    on_ray=[[], 0],
    why="ray#59946 is open: a table without rows loses its columns.",
)
def an_empty_table_keeps_its_columns() -> object:
    """from_arrow_refs of a table without rows: to_pandas has its column."""
    empty = pa.table([pa.array([], pa.int32())], ["apples"])
    frame = ray.data.from_arrow_refs([ray.put(empty)]).to_pandas()
    return [list(frame.columns), len(frame)]


@stranger("ray#57709", ["b", "c"])
def renaming_columns_of_a_frame() -> object:
    """rename_columns of a dataset that was made of a pandas frame."""
    ds = ray.data.from_pandas(pd.DataFrame({"a": [1], "c": [2]})).rename_columns({"a": "b"})
    return sorted(ds.take_all()[0])


@stranger("ray#57700", [["n", "x"], ["n", "x"]])
def renamed_columns_in_batches() -> object:
    """A renamed column of a Parquet file has its new name in batches, too, and in the schema."""
    ray.data.from_items([{"id": 1, "x": 2}]).write_parquet("table")
    ds = ray.data.read_parquet("table").rename_columns({"id": "n"})
    [batch] = ds.iter_batches(batch_size=10)
    return [sorted(batch), sorted(ds.schema().names)]


@stranger("ray#58714", [{"day": "1", "x": 2}])
def renaming_a_partition_column() -> object:
    """A column that comes from the folder's name is renamed."""
    ray.data.from_items([{"date": "1", "x": 2}]).write_parquet("parts", partition_cols=["date"])
    return ray.data.read_parquet("parts").rename_columns({"date": "day"}).take_all()


@stranger("ray#56878", [{"id": 10}, {"id": 11}])
def renaming_to_a_name_that_is_there() -> object:
    """A column that is renamed to another one's name takes its place; there are no two of one name."""
    ds = ray.data.range(2).with_column("id2", col("id") + 10)
    return rows(ds.rename_columns({"id2": "id"}))


@stranger("docs: Expressions", [{"id": 2, "double": 4, "big": True, "half": 1.0}])
def columns_by_expressions() -> object:
    """with_column by arithmetic, comparison and literals; filter by an expression."""
    ds = (
        ray.data.range(4)
        .with_column("double", col("id") * 2)
        .with_column("big", col("double") > lit(3))
        .with_column("half", col("id") / 2.0)
    )
    return ds.filter(expr=(col("id") == 2) & col("big")).take_all()


@stranger("docs: Expressions, UDFs", [0, 1, 4])
def an_expression_of_ones_own() -> object:
    """@udf makes a function of batches an expression."""

    @udf(return_dtype=DataType.int64())
    def square(x: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        return pc.multiply(x, x)

    return [row["s"] for row in rows(ray.data.range(3).with_column("s", square(col("id"))))]


@stranger("docs: Expressions, nulls", [[True, False], [7, 2], ["A", None]])
def expressions_on_nulls() -> object:
    """is_null, fill_null by a choice, and text functions let nulls be."""
    ds = ray.data.from_arrow(pa.table({"id": [0, 1], "x": [None, 2], "t": ["a", None]}))
    ds = ds.with_column("null", col("x").is_null()).with_column("up", col("t").str.upper())
    found = rows(ds)
    filled = [7 if row["x"] is None else row["x"] for row in found]
    return [[row["null"] for row in found], filled, [row["up"] for row in found]]


@stranger("ray#23868", ["one", "two"])
def an_actor_pool_keeps_the_schema() -> object:
    """A class in map_batches with pandas batches: the schema can be read."""

    class Model:
        def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
            frame = frame.copy()
            frame["two"] = "x"
            return frame

    ds = ray.data.from_pandas(pd.DataFrame({"one": [1, 2, 3]}))
    ds = ds.map_batches(Model, batch_format="pandas", batch_size=2, concurrency=1)
    return ds.materialize().schema().names


@stranger("docs: map_batches, constructor arguments", [10, 11, 12])
def arguments_of_a_callable_class() -> object:
    """fn_constructor_args, fn_constructor_kwargs and fn_kwargs reach the class."""

    class Add:
        def __init__(self, one: int, *, other: int) -> None:
            self.both = one + other

        def __call__(self, batch: dict[str, np.ndarray], extra: int) -> dict[str, np.ndarray]:
            return {"id": batch["id"] + self.both + extra}

    ds = ray.data.range(3).map_batches(
        Add,
        fn_constructor_args=(5,),
        fn_constructor_kwargs={"other": 4},
        fn_kwargs={"extra": 1},
        concurrency=(1, 2),
    )
    return [row["id"] for row in rows(ds)]


@stranger("ray#32746", [0, 0, 1, 1])
def a_generator_in_map_batches() -> object:
    """A function of map_batches may yield several batches."""

    def twice(batch: dict[str, np.ndarray]) -> Any:
        yield batch
        yield batch

    return [row["id"] for row in rows(ray.data.range(2).map_batches(twice))]


@stranger("docs: flat_map and filter", [0, 0, 2, 20])
def flat_map_and_filter() -> object:
    """flat_map makes several rows of one, or none; filter takes a function."""
    ds = ray.data.range(4).filter(lambda r: r["id"] % 2 == 0)
    return sorted(
        row["x"]
        for row in ds.flat_map(lambda r: [{"x": r["id"]}, {"x": r["id"] * 10 % 100}]).take_all()
    )


@stranger("ray#40865", 2)
def a_batch_may_be_shorter() -> object:
    """A pandas batch that a mask shortens."""
    ds = ray.data.from_items([{"n": n} for n in (0, 1, 2)])
    return ds.map_batches(lambda f: f[f["n"] > 0], batch_format="pandas").count()


@stranger("docs: Working with tensors", [[2, 3], [4, 2, 3], "ok"])
def tensors_in_columns() -> object:
    """Arrays of one shape are a tensor column; of several shapes they go through, too."""
    ds = ray.data.range(4).map_batches(lambda b: {"t": np.ones((len(b["id"]), 2, 3))})
    batch = ds.take_batch(4)
    ragged = ray.data.from_items([{"a": np.ones((i + 1, 2))} for i in range(3)])
    shapes = sorted(row["a"].shape for row in ragged.map_batches(lambda b: b).take_all())
    return [
        list(ds.take(1)[0]["t"].shape),
        list(batch["t"].shape),
        "ok" if shapes == [(1, 2), (2, 2), (3, 2)] else shapes,
    ]


@stranger("docs: Inspecting data", [["id", "x"], ["int64", "string"], 3])
def the_schema_of_a_map() -> object:
    """schema(), columns() and types after a map."""
    ds = ray.data.range(3).map(lambda r: {"id": r["id"], "x": str(r["id"])})
    return [ds.columns(), [str(t) for t in ds.schema().types], ds.count()]


@stranger("docs: select_columns and drop_columns", [["b"], ["a"], "raises"])
def selecting_and_dropping() -> object:
    """select_columns and drop_columns; a column that is not there is an error."""
    ds = ray.data.from_items([{"a": 1, "b": 2}])
    raised(lambda: ds.select_columns(["c"]).take_all())
    return [ds.select_columns(["b"]).columns(), ds.drop_columns(["b"]).columns(), "raises"]


@stranger("docs: add_column", [[1, 2], [10, 10]])
def adding_a_column() -> object:
    """add_column by a function of the frame."""
    ds = ray.data.range(2).add_column("next", lambda f: f["id"] + 1)
    ds = ds.add_column("ten", lambda f: pd.Series([10] * len(f)))
    found = rows(ds)
    return [[r["next"] for r in found], [r["ten"] for r in found]]


@stranger("docs: Handling errors of a map", ["ValueError", 4])
def a_map_that_raises() -> object:
    """An error of a function reaches the caller; max_errored_blocks lets the rest through."""
    from ray.data import DataContext

    def one_bad(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 2:
            raise ValueError("bad row")
        return row

    ds = ray.data.range(5, override_num_blocks=5).map(one_bad)
    error: BaseException | None = raised(ds.take_all)
    found = "no ValueError"
    while error is not None:
        if isinstance(error, ValueError) or "ValueError" in str(error):
            found = "ValueError"
        error = error.__cause__
    context = DataContext.get_current()
    context.max_errored_blocks = 1
    try:
        count = len(ray.data.range(5, override_num_blocks=5).map(one_bad).take_all())
    finally:
        context.max_errored_blocks = 0
    return [found, count]


@stranger("docs: Iterating, batch formats", ["ndarray", "DataFrame", "Table"])
def formats_of_batches() -> object:
    """numpy, pandas and pyarrow batches."""
    ds = ray.data.range(3, override_num_blocks=1)
    found = []
    for batch_format in ("numpy", "pandas", "pyarrow"):
        [batch] = ds.iter_batches(batch_size=None, batch_format=batch_format)
        found.append(type(batch["id"] if batch_format == "numpy" else batch).__name__)
    return found


@stranger(
    "ray#66085",
    [8, 8, 8, 8, 8],
    on_ray="short ones in the middle",
    why="ray#66085 is open: with a local shuffle a batch in the middle can be short.",
)
def batches_of_a_local_shuffle() -> object:
    """Batches of a local shuffle have batch_size rows, except the last, whatever the blocks are."""
    blocks = [pa.table({"id": list(range(30))}), pa.table({"id": list(range(30, 40))})]
    ds = ray.data.from_arrow(blocks)
    sizes = [
        len(batch["id"])
        for batch in ds.iter_batches(
            batch_size=8, local_shuffle_buffer_size=8, local_shuffle_seed=1
        )
    ]
    return sizes if all(size == 8 for size in sizes[:-1]) else "short ones in the middle"


@stranger("docs: Iterating, drop_last", [[4, 4], [4, 4, 2]])
def the_last_batch() -> object:
    """drop_last leaves the short one out."""
    ds = ray.data.range(10, override_num_blocks=3)
    return [
        [len(b["id"]) for b in ds.iter_batches(batch_size=4, drop_last=drop)]
        for drop in (True, False)
    ]


@stranger("docs: limit and take", [[0, 1, 2], [0, 1], {"id": 0}, "ValueError"])
def limits() -> object:
    """limit, take, take_batch, and take_batch of nothing."""
    ds = ray.data.range(100, override_num_blocks=10)
    first = [r["id"] for r in ds.limit(3).take_all()]
    batch = ds.take_batch(2)["id"].tolist()
    error = raised(lambda: ray.data.range(3).filter(lambda r: False).take_batch(1))
    return [first, batch, ds.take(1)[0], type(error).__name__]


@stranger("ray#51758", [1, 1, 1])
def a_series_in_each_block() -> object:
    """add_column with a Series whose index begins at 0 in each block leaves no row empty."""
    ds = ray.data.from_pandas([pd.DataFrame({"a": [number]}) for number in (1, 2, 3)])
    added = ds.add_column("x", lambda df: pd.Series([1] * len(df)), batch_format="pandas")
    return [row["x"] for row in rows(added, "a")]


@stranger("ray#49261", [["int64", [0, 3]], ["int64", [0, 4096]]])
def tuples_of_integers_stay_integers() -> object:
    """Columns of pairs of integers come as arrays of integers, not of objects."""
    items = [{"band": (np.int64(0), np.int64(3)), "y": (0, 4096)} for _ in range(4)]
    batch = ray.data.from_items(items).map_batches(lambda b: b).take_batch(2)
    return [[batch[name][0].dtype.name, batch[name][0].tolist()] for name in ("band", "y")]


@stranger("ray#45801", ["decimal128(10, 2)", ["1.10", "2.25"], ["2.20", "4.50"]])
def decimals_go_through() -> object:
    """Decimals keep their type through parquet, maps and arithmetic of Arrow."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    kind = pa.decimal128(10, 2)
    pq.write_table(
        pa.table({"id": [1, 2], "m": pa.array(["1.10", "2.25"]).cast(kind)}), "m.parquet"
    )
    read = ray.data.read_parquet("m.parquet")

    def twice(table: pa.Table) -> pa.Table:
        return table.append_column("n", pc.add(table["m"], table["m"]))

    made = rows(read.map_batches(twice, batch_format="pyarrow"))
    kinds = dict(zip(read.schema().names, read.schema().types, strict=True))
    return [str(kinds["m"]), [str(row["m"]) for row in made], [str(row["n"]) for row in made]]


@stranger("ray#39860", [[0, 18], [1, 12], [2, 15]])
def groups_of_what_has_no_schema_yet() -> object:
    """groupby of a lazy chain with repartition does not need the schema to be asked for first."""
    ds = ray.data.range(10).map(lambda row: {"k": row["id"] % 3, "v": row["id"]}).repartition(4)
    ds = ds.map_batches(lambda batch: batch)
    return [[row["k"], row["sum(v)"]] for row in rows(ds.groupby("k").sum("v"), "k")]


if __name__ == "__main__":
    main()
