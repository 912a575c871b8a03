"""Data: reading and writing files and other sources."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from ray.data.datasource import PathPartitionFilter

from tests.strangers.kit import main, raised, stranger


def folder(name: str) -> Path:
    path = Path(name).absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


def ids(dataset: ray.data.Dataset) -> list[Any]:
    return sorted(row["id"] for row in dataset.take_all())


@stranger("ray#60215", [["x"], ["x", "part"], [10.5, 20.5]])
def columns_of_a_partitioned_table() -> object:
    """columns= gives those columns only, with or without those of the folders' names."""
    table = pa.table({"part": ["a", "b"], "x": [10.5, 20.5], "y": [1, 2]})
    where = folder("partitioned")
    pq.write_to_dataset(table, where, partition_cols=["part"])
    only = ray.data.read_parquet(str(where), columns=["x"])
    both = ray.data.read_parquet(str(where), columns=["x", "part"])
    return [only.schema().names, both.schema().names, sorted(r["x"] for r in only.take_all())]


@stranger("ray#49411", [["part=a", "part=b"], [("a", 1), ("b", 2)]])
def writing_by_partitions() -> object:
    """write_parquet(partition_cols=...) makes a folder a value, and reading gives the column back."""
    where = folder("by part")
    ds = ray.data.from_items([{"part": "a", "x": 1}, {"part": "b", "x": 2}])
    ds.write_parquet(str(where), partition_cols=["part"])
    back = ray.data.read_parquet(str(where)).take_all()
    return [sorted(os.listdir(where)), sorted((r["part"], r["x"]) for r in back)]


@stranger("ray#45393", [True, 100])
def so_many_rows_a_file() -> object:
    """min_rows_per_file: files of at least so many rows, and all rows are there."""
    where = folder("rows a file")
    ray.data.range(100, override_num_blocks=10).write_parquet(str(where), min_rows_per_file=50)
    counts = [pq.read_metadata(where / name).num_rows for name in os.listdir(where)]
    return [min(counts) >= 50, sum(counts)]


@stranger(
    "docs: Reading files, CSV", [[{"id": 1, "t": "a"}, {"id": 2, "t": "b"}], ["double", "string"]]
)
def csv_files() -> object:
    """read_csv of several files, with column types of one's own."""
    import pyarrow.csv as csv

    where = folder("csv")
    (where / "a.csv").write_text("id,t\n1,a\n")
    (where / "b.csv").write_text("id,t\n2,b\n")
    plain = sorted(ray.data.read_csv(str(where)).take_all(), key=lambda r: r["id"])
    options = csv.ConvertOptions(column_types={"id": pa.float64()})
    typed = ray.data.read_csv(str(where), convert_options=options)
    return [plain, [str(t) for t in typed.schema().types]]


@stranger("docs: Reading files, JSON", [[1, 2, 3], [{"a": [1, 2]}, {"a": [3]}]])
def json_files() -> object:
    """Lines of JSON, and a file that is one array."""
    where = folder("json lines")
    (where / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    (where / "b.jsonl").write_text('{"id": 3}\n')
    other = folder("json arrays")
    (other / "a.json").write_text(json.dumps([{"a": [1, 2]}, {"a": [3]}]))
    rows = ray.data.read_json(str(other)).take_all()
    return [ids(ray.data.read_json(str(where))), [{"a": list(r["a"])} for r in rows]]


@stranger("docs: Reading files, text and binary", [["a", "b"], [b"\x00\x01"], True])
def text_and_bytes() -> object:
    """read_text gives lines, read_binary_files bytes, include_paths the file's path."""
    where = folder("text")
    (where / "t.txt").write_text("a\n\nb\n")
    other = folder("binary")
    (other / "x.bin").write_bytes(b"\x00\x01")
    lines = [r["text"] for r in ray.data.read_text(str(where)).take_all()]
    [row] = ray.data.read_binary_files(str(other), include_paths=True).take_all()
    return [lines, [row["bytes"]], row["path"].endswith("x.bin")]


@stranger("docs: Reading files, numpy", [[0, 1, 2], 6])
def numpy_files() -> object:
    """write_numpy and read_numpy."""
    where = folder("npy")
    ray.data.range(3).write_numpy(str(where), column="id")
    back = ray.data.read_numpy(str(where))
    other = folder("npy own")
    np.save(other / "a.npy", np.ones((3, 2)))
    total = sum(int(r["data"].sum()) for r in ray.data.read_numpy(str(other)).take_all())
    return [sorted(int(r["data"]) for r in back.take_all()), total]


@stranger("docs: Reading images", [[(4, 6, 3), (4, 6, 3)], (2, 2), True], needs=("PIL",))
def images() -> object:
    """read_images: arrays, another size, the paths."""
    from PIL import Image

    where = folder("images")
    for name in ("a.png", "b.png"):
        Image.new("RGB", (6, 4), (255, 0, 0)).save(where / name)
    ds = ray.data.read_images(str(where), include_paths=True)
    small = ray.data.read_images(str(where), size=(2, 2), mode="L")
    rows = ds.take_all()
    return [
        [r["image"].shape for r in rows],
        small.take(1)[0]["image"].shape,
        sorted(os.path.basename(r["path"]) for r in rows) == ["a.png", "b.png"],
    ]


@stranger("docs: Reading files, none there", ["raises", "raises"])
def files_that_are_not_there() -> object:
    """A path that does not exist, and a folder without a file, are errors that name them."""
    error = raised(lambda: ray.data.read_csv(os.path.abspath("nowhere")).take_all())
    assert "nowhere" in str(error)
    raised(lambda: ray.data.read_csv(str(folder("empty"))).take_all())
    return ["raises", "raises"]


@stranger("docs: Reading SQL", [[1, 2, 3], 2])
def a_database() -> object:
    """read_sql of SQLite, and write_sql into it."""
    path = os.path.abspath("base.db")
    with sqlite3.connect(path) as base:
        base.execute("create table t (id integer)")
        base.executemany("insert into t values (?)", [(1,), (2,), (3,)])
        base.execute("create table o (id integer)")
    found = ids(ray.data.read_sql("select * from t", lambda: sqlite3.connect(path)))
    ray.data.range(2).write_sql("insert into o values (?)", lambda: sqlite3.connect(path))
    with sqlite3.connect(path) as base:
        [(count,)] = base.execute("select count(*) from o").fetchall()
    return [found, count]


@stranger("docs: Loading from memory", [[1, 2], [1, 2], [1, 2], [0, 1]])
def from_other_libraries() -> object:
    """from_pandas, from_arrow, from_items, from_numpy."""
    frame = pd.DataFrame({"id": [1, 2]})
    return [
        ids(ray.data.from_pandas(frame)),
        ids(ray.data.from_arrow(pa.Table.from_pandas(frame))),
        ids(ray.data.from_items([{"id": 1}, {"id": 2}])),
        sorted(int(r["data"]) for r in ray.data.from_numpy(np.arange(2)).take_all()),
    ]


@stranger("docs: Saving data", [3, 3, ["id"]])
def to_other_libraries() -> object:
    """to_pandas, to_arrow_refs, write_csv."""
    ds = ray.data.range(3)
    where = folder("csv out")
    ds.write_csv(str(where))
    text = [
        line
        for p in where.iterdir()
        for line in p.read_text().splitlines()
        if not line[0].isdigit()
    ]
    tables = ray.get(ds.to_arrow_refs())
    return [
        len(ds.to_pandas()),
        sum(t.num_rows for t in tables),
        sorted({t.strip('"') for t in text}),
    ]


@stranger("docs: Custom datasources", [[0, 1, 2, 3], [4]])
def a_source_and_a_sink_of_ones_own() -> object:
    """A Datasource of two read tasks, and a Datasink that counts the rows it was given."""
    from ray.data import Datasink, Datasource, ReadTask
    from ray.data.block import BlockMetadata

    class Numbers(Datasource):
        def estimate_inmemory_data_size(self) -> int:
            return 32

        def get_read_tasks(self, parallelism: int, *args: Any, **kwargs: Any) -> list[ReadTask]:
            def task(start: int) -> ReadTask:
                metadata = BlockMetadata(
                    num_rows=2, size_bytes=16, input_files=None, exec_stats=None
                )
                return ReadTask(lambda: [pa.table({"id": [start, start + 1]})], metadata)

            return [task(0), task(2)]

    class Count(Datasink):
        def write(self, blocks: Any, ctx: Any) -> int:
            return sum(len(block) for block in blocks)

        def on_write_complete(self, result: Any) -> None:
            self.counts = [sum(result.write_returns)]

    sink = Count()
    ds = ray.data.read_datasource(Numbers())
    ds.write_datasink(sink)
    return [ids(ds), sink.counts]


@stranger("docs: Parquet, filters and pushdown", [[3, 4], ["id"]])
def a_filter_on_a_file() -> object:
    """A filter and a selection after read_parquet."""
    from ray.data.expressions import col

    where = folder("filtered")
    ray.data.range(5).add_column("x", lambda f: f["id"] * 2).write_parquet(str(where))
    ds = ray.data.read_parquet(str(where)).filter(expr=col("id") > 2).select_columns(["id"])
    return [ids(ds), ds.schema().names]


@stranger("forum: Parquet files with different columns", [[None, 5], [1, 2]])
def files_whose_columns_differ() -> object:
    """Two files of which the second has one column more."""
    where = folder("differ")
    pq.write_table(pa.table({"id": [1]}), where / "a.parquet")
    pq.write_table(pa.table({"id": [2], "x": [5]}), where / "b.parquet")
    schema = pa.schema({"id": pa.int64(), "x": pa.int64()})
    rows = sorted(
        ray.data.read_parquet(str(where), schema=schema).take_all(), key=lambda r: r["id"]
    )
    return [[r.get("x") for r in rows], [r["id"] for r in rows]]


@stranger("docs: materialize and lazy execution", [0, 3, 3])
def nothing_runs_before_it_is_asked_for() -> object:
    """A map does not run when it is written; materialize runs it once for several readers."""

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

    ds = ray.data.range(3, override_num_blocks=1).map(counted)
    found = [ray.get(calls.value.remote())]
    ds = ds.materialize()
    found.append(ray.get(calls.value.remote()))
    ds.take_all()
    ds.take_all()
    found.append(ray.get(calls.value.remote()))
    return found


@stranger("ray#40945", [["y"], ["a", "a", "b", "b"]])
def one_of_two_partition_columns() -> object:
    """columns= with one of the columns that are in the names of folders."""
    table = pa.table({"x": [0, 0, 1, 1], "y": ["a", "b", "a", "b"], "z": [0.1, 0.2, 0.3, 0.4]})
    where = folder("two partitions")
    pq.write_to_dataset(table, where, partition_cols=["x", "y"])
    only = ray.data.read_parquet(str(where), columns=["y"])
    return [only.schema().names, sorted(row["y"] for row in only.take_all())]


@stranger("ray#40946", [["x", "z"], [0.3]])
def a_partition_filter_that_leaves_one_file() -> object:
    """The column of the folder's name is there, though only one file is left."""
    where = folder("one file left")
    pq.write_to_dataset(pa.table({"x": [0, 1], "z": [0.1, 0.3]}), where, partition_cols=["x"])
    chosen = PathPartitionFilter.of(lambda values: values["x"] == "1", style="hive")
    ds = ray.data.read_parquet(str(where), partition_filter=chosen)
    rows = ds.take_all()
    return [sorted(rows[0]), [row["z"] for row in rows]]


@stranger("ray#50380", [[2], ["2024-01-02"]])
def filtering_a_partitioned_table() -> object:
    """A condition on a column of the files leaves the columns of the folders alone."""
    where = folder("by date")
    table = pa.table({"date": ["2024-01-01", "2024-01-02", "2024-01-03"], "value": [1, 2, 3]})
    pq.write_to_dataset(table, where, partition_cols=["date"])
    rows = ray.data.read_parquet(str(where)).filter(expr="value == 2").take_all()
    return [[row["value"] for row in rows], [str(row["date"]) for row in rows]]


@stranger("ray#40227", [["f"], 4])
def a_folder_above_that_looks_like_a_partition() -> object:
    """Files named one by one below key=value, read with columns= of the files."""
    where = folder("key=value")
    paths = [str(where / f"{n}.parquet") for n in range(2)]
    for n, path in enumerate(paths):
        pq.write_table(pa.table({"f": [n, n], "g": [0.5, 0.5]}), path)
    ds = ray.data.read_parquet(paths, columns=["f"])
    return [ds.schema().names, ds.count()]


if __name__ == "__main__":
    main()
