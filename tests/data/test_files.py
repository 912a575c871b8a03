"""Reading and writing files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
import ray

CLUSTER = {"num_cpus": 4}


def ids(dataset: Any) -> list[int]:
    return [row["id"] for row in dataset.take_all()]


@pytest.mark.contract("F10.03", "F10.24")
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_what_is_written_is_read(rd: Any, tmp_path: Path, kind: str) -> None:
    rows = [{"id": i, "s": f"é{i}", "f": i / 2} for i in range(20)]
    folder = str(tmp_path / "out")
    getattr(rd.from_items(rows, override_num_blocks=3), f"write_{kind}")(folder)
    assert len(list(Path(folder).glob(f"*.{kind}"))) == 3
    found = getattr(rd, f"read_{kind}")(folder)
    assert sorted(found.take_all(), key=lambda row: row["id"]) == rows
    assert found.count() == 20


@pytest.mark.contract("F10.24")
def test_tensors_in_parquet(rd: Any, tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    rd.from_numpy(array).write_parquet(str(tmp_path))
    np.testing.assert_array_equal(rd.read_parquet(str(tmp_path)).take_batch()["data"], array)


@pytest.mark.contract("F10.03")
def test_parquet_reads_only_what_is_asked_for(rd: Any, tmp_path: Path) -> None:
    table = pa.table({"id": range(100), "x": [str(i) for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    path = str(tmp_path / "a.parquet")
    assert rd.read_parquet(path, columns=["id"]).columns() == ["id"]
    assert rd.read_parquet(path).count() == 100
    many = rd.read_parquet(path, override_num_blocks=5)
    assert sorted(ids(many)) == list(range(100))


@pytest.mark.heliostat_only("how many tasks read a file is our own matter")
def test_a_small_row_group_is_read_with_the_one_before_it(rd: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": range(2_200_000)})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=1_000_000)
    found = rd.read_parquet(str(tmp_path)).materialize()
    assert [found.count(), found.sum("id")] == [2_200_000, 2_199_999 * 1_100_000]
    assert found.num_blocks() == 2
    wanted = rd.read_parquet(str(tmp_path), override_num_blocks=3)
    assert wanted.materialize().num_blocks() == 3


@pytest.mark.contract("F10.03")
@pytest.mark.heliostat_only("this release of Ray refuses `filter`")
def test_parquet_leaves_out_rows_while_reading(rd: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet", row_group_size=10)
    few = rd.read_parquet(str(tmp_path), filter=pads.field("id") < 5)
    assert ids(few) == [0, 1, 2, 3, 4]


@pytest.mark.contract("F10.03", "F10.24")
def test_partitions(rd: Any, tmp_path: Path) -> None:
    rows = [{"k": f"g {i % 2}", "id": i} for i in range(6)]
    rd.from_items(rows).write_parquet(str(tmp_path), partition_cols=["k"])
    assert len([p for p in tmp_path.iterdir() if p.name.startswith("k=")]) == 2
    found = rd.read_parquet(str(tmp_path)).take_all()
    assert sorted(found, key=lambda row: row["id"]) == rows


@pytest.mark.contract("F10.03")
def test_partitions_of_folders_and_filters(rd: Any, tmp_path: Path) -> None:
    from ray.data.datasource import Partitioning, PathPartitionFilter

    for year in (2023, 2024):
        folder = tmp_path / f"year={year}"
        folder.mkdir()
        (folder / "a.csv").write_text(f"id\n{year}\n")
    typed = rd.read_csv(str(tmp_path), partitioning=Partitioning("hive", field_types={"year": int}))
    assert sorted(r["year"] for r in typed.take_all()) == [2023, 2024]
    chosen = PathPartitionFilter.of(lambda found: found["year"] == "2024")
    assert ids(rd.read_csv(str(tmp_path), partition_filter=chosen)) == [2024]


@pytest.mark.contract("F10.03")
def test_paths(rd: Any, tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text(f"id\n{i}\n")
    (tmp_path / ".hidden.csv").write_text("id\n99\n")
    (tmp_path / "note.txt").write_text("none of it")
    assert ids(rd.read_csv([str(tmp_path / "2.csv"), str(tmp_path / "0.csv")])) == [2, 0]
    some = rd.read_csv(str(tmp_path), file_extensions=["csv"], include_paths=True)
    assert sorted(Path(row["path"]).name for row in some.take_all()) == ["0.csv", "1.csv", "2.csv"]
    uri = rd.read_csv((tmp_path / "1.csv").as_uri())
    assert ids(uri) == [1]
    mixed = rd.read_csv(str(tmp_path), file_extensions=["csv"], shuffle="files")
    assert sorted(ids(mixed)) == [0, 1, 2]


@pytest.mark.contract("F10.03")
def test_what_is_not_there(rd: Any, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.csv")
    with pytest.raises(FileNotFoundError):
        rd.read_csv(missing)
    with pytest.raises(FileNotFoundError):
        rd.read_parquet(missing)
    (tmp_path / "0.csv").write_text("id\n0\n")
    found = rd.read_csv([missing, str(tmp_path / "0.csv")], ignore_missing_paths=True)
    assert ids(found) == [0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="No files found"):
        rd.read_csv(str(tmp_path / "empty")).materialize()


@pytest.mark.contract("F10.03")
@pytest.mark.parametrize("style", ["pyarrow", "fsspec"])
def test_filesystems(rd: Any, tmp_path: Path, style: str) -> None:
    if style == "pyarrow":
        filesystem: Any = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
        folder = "data"
    else:
        fsspec = pytest.importorskip("fsspec")
        filesystem, folder = fsspec.filesystem("file"), str(tmp_path / "data")
    rd.range(5).write_parquet(folder, filesystem=filesystem)
    assert sorted(ids(rd.read_parquet(folder, filesystem=filesystem))) == [0, 1, 2, 3, 4]
    assert (tmp_path / "data").is_dir()


@pytest.mark.contract("F10.03")
def test_lines_bytes_and_arrays(rd: Any, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("a\n\nb\n")
    assert rd.read_text(str(text)).take_all() == [{"text": "a"}, {"text": "b"}]
    assert rd.read_text(str(text), drop_empty_lines=False).count() == 3
    assert rd.read_binary_files(str(text)).take_all() == [{"bytes": b"a\n\nb\n"}]
    np.save(tmp_path / "x.npy", np.arange(4))
    assert [r["data"] for r in rd.read_numpy(str(tmp_path / "x.npy")).take_all()] == [0, 1, 2, 3]


@pytest.mark.contract("F10.03")
def test_json_of_both_kinds(rd: Any, tmp_path: Path) -> None:
    rows = [{"id": i, "nested": {"x": [i]}} for i in range(3)]
    (tmp_path / "list.json").write_text(json.dumps(rows))
    (tmp_path / "lines.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    for name in ("list.json", "lines.jsonl"):
        assert rd.read_json(str(tmp_path / name)).take_all() == rows


@pytest.mark.contract("F10.03", "F10.24")
def test_pictures(rd: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    for i in range(3):
        image.new("RGB", (4 + i, 5), (i, 0, 0)).save(tmp_path / f"{i}.png")
    batch = rd.read_images(str(tmp_path)).take_batch()
    assert sorted(a.shape for a in batch["image"]) == [(5, 4, 3), (5, 5, 3), (5, 6, 3)]
    small = rd.read_images(str(tmp_path), size=(2, 3), mode="L").take_batch()
    assert small["image"].shape == (3, 2, 3)
    out = tmp_path / "out"
    rd.from_numpy(np.zeros((2, 4, 4, 3), np.uint8)).write_images(str(out), column="data")
    assert rd.read_images(str(out)).count() == 2
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(Exception, match=r"bad\.png"):
        rd.read_images(str(tmp_path / "bad.png")).materialize()


@pytest.mark.contract("F10.24")
def test_folders_that_are_there(rd: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    rd.range(2).write_parquet(folder)
    rd.range(2).write_parquet(folder)
    assert rd.read_parquet(folder).count() == 4
    rd.range(2).write_parquet(folder, mode=rd.SaveMode.IGNORE)
    assert rd.read_parquet(folder).count() == 4
    rd.range(3).write_parquet(folder, mode=rd.SaveMode.OVERWRITE)
    assert rd.read_parquet(folder).count() == 3
    with pytest.raises(ValueError, match="already exists"):
        rd.range(2).write_parquet(folder, mode=rd.SaveMode.ERROR)


@pytest.mark.contract("F10.24")
def test_rows_of_a_file(rd: Any, tmp_path: Path) -> None:
    dataset = rd.range(20, override_num_blocks=10)
    dataset.write_parquet(str(tmp_path / "few"), min_rows_per_file=10)
    assert len(list((tmp_path / "few").iterdir())) == 2
    dataset.write_parquet(
        str(tmp_path / "large"), min_bytes_per_file=5 * 2 * 8
    )  # five blocks' 2 rows
    assert len(list((tmp_path / "large").iterdir())) == 2
    with pytest.raises(ValueError, match="min_bytes_per_file is 0; it has to be 1 or more"):
        dataset.write_parquet(str(tmp_path / "none"), min_bytes_per_file=0)
    few = sorted((tmp_path / "few").iterdir())
    assert rd.read_parquet(str(tmp_path / "few"), skip_paths=str(few[0])).count() == 10
    given = [str(few[1]), str(tmp_path / "not there")]
    assert rd.read_parquet(given, skip_paths=given[1:]).count() == 10
    one = rd.range(20, override_num_blocks=1)
    one.write_parquet(str(tmp_path / "many"), max_rows_per_file=5)
    assert sorted(pq.read_table(p).num_rows for p in (tmp_path / "many").iterdir()) == [5] * 4


@pytest.mark.contract("F10.03", "F10.29")
@pytest.mark.heliostat_only("how many tasks read many small files is ours to say")
def test_small_neighbouring_files_share_a_task(
    rd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rd.DataContext.get_current(), "target_min_block_size", 1)
    for i in range(40):
        pq.write_table(pa.table({"id": [2 * i, 2 * i + 1]}), tmp_path / f"{i:02}.parquet")
    few = rd.read_parquet(str(tmp_path)).materialize()
    assert [row["id"] for row in few.take_all()] == list(range(80))
    assert few.num_blocks() == 2 * int(ray.cluster_resources()["CPU"])
    assert rd.read_parquet(str(tmp_path), override_num_blocks=40).materialize().num_blocks() == 40


@pytest.mark.contract("F10.20")
@pytest.mark.heliostat_only("Ray names files only after an execution")
def test_the_files_of_a_dataset(rd: Any, tmp_path: Path) -> None:
    rd.range(4, override_num_blocks=2).write_csv(str(tmp_path))
    found = rd.read_csv(str(tmp_path)).map(lambda row: row).input_files()
    assert found == sorted(str(p) for p in tmp_path.iterdir())


@pytest.mark.contract("F10.26")
def test_a_source_of_ones_own(rd: Any) -> None:
    from ray.data.block import BlockMetadata

    class Letters(rd.Datasource):  # type: ignore[misc, name-defined]
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            about = BlockMetadata(num_rows=2, size_bytes=8, input_files=None, exec_stats=None)
            return [
                rd.ReadTask(lambda c=c: [pd.DataFrame({"c": [c, c]})], about) for c in ("a", "b")
            ]

    found = rd.read_datasource(Letters(), override_num_blocks=2).take_all()
    assert sorted(row["c"] for row in found) == ["a", "a", "b", "b"]


@pytest.mark.contract("F10.04")
def test_a_query(rd: Any, tmp_path: Path) -> None:
    import sqlite3

    path = str(tmp_path / "x.db")
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (id integer, s text)")
        connection.executemany("insert into t values (?, ?)", [(i, str(i)) for i in range(5)])
    connection.close()
    found = rd.read_sql("select * from t where id > 2", lambda: sqlite3.connect(path))
    assert found.take_all() == [{"id": 3, "s": "3"}, {"id": 4, "s": "4"}]


@pytest.mark.contract("F10.25", "F10.26")
def test_a_sink_of_ones_own(rd: Any, tmp_path: Path) -> None:
    from ray.data.datasource import Datasink

    class Lines(Datasink[None]):
        def __init__(self, folder: str) -> None:
            self.folder, self.rows = folder, 0

        def write(self, blocks: Any, ctx: Any) -> Any:
            ids = [i for b in blocks for i in b["id"].to_pylist()]
            Path(self.folder, str(ctx.task_idx)).write_text(" ".join(map(str, ids)))

        def on_write_complete(self, write_result: Any) -> None:
            self.rows = write_result.num_rows

    sink = Lines(str(tmp_path))
    rd.range(9, override_num_blocks=3).write_datasink(sink)
    assert sink.rows == 9
    written = " ".join(p.read_text() for p in tmp_path.iterdir())
    assert sorted(map(int, written.split())) == list(range(9))


def test_a_sink_gets_the_bytes_that_it_asks_for(rd: Any, tmp_path: Path) -> None:
    from ray.data.datasource import Datasink

    class Lines(Datasink[None]):
        min_bytes_per_write = 48  # of 8 for each row

        def write(self, blocks: Any, ctx: Any) -> None:
            rows = sum(block.num_rows for block in blocks)
            Path(tmp_path, str(ctx.task_idx)).write_text(str(rows))

    rd.range(12, override_num_blocks=4).write_datasink(Lines())
    assert sorted(p.read_text() for p in tmp_path.iterdir()) == ["6", "6"]


@pytest.mark.contract("F10.23")
def test_lineage(rd: Any) -> None:
    dataset = rd.range(5).map(lambda row: {"id": row["id"] * 2})
    assert dataset.has_serializable_lineage()
    again = rd.Dataset.deserialize_lineage(dataset.serialize_lineage())
    assert ids(again) == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError, match=r"(?i)from_|in-memory|store"):
        rd.from_items([1]).serialize_lineage()


@pytest.mark.contract("F10.24")
def test_folders_of_missing_values_are_named_as_hive_names_them(rd: Any, tmp_path: Any) -> None:
    rows = [{"a": 1, "k": "x"}, {"a": 2, "k": None}]
    rd.from_items(rows, override_num_blocks=1).write_parquet(str(tmp_path), partition_cols=["k"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k=__HIVE_DEFAULT_PARTITION__", "k=x"]
    found = pads.dataset(str(tmp_path), partitioning="hive").to_table().to_pylist()
    assert sorted(found, key=lambda row: row["a"]) == rows


@pytest.mark.contract("F10.03")
def test_columns_of_parquet_that_no_file_has(rd: Any, tmp_path: Any) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [2], "b": [3]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"'zz'.*\['a', 'b'\]"):
        rd.read_parquet(str(tmp_path), columns=["a", "zz"])
    rows = rd.read_parquet(str(tmp_path), columns=["b", "a"]).take_all()  # one file has both
    assert sorted(row["a"] for row in rows) == [1, 2]


@pytest.mark.contract("F10.24")
def test_rows_of_files_that_contradict_each_other(rd: Any, tmp_path: Any) -> None:
    for limits in ({"min_rows_per_file": 5, "max_rows_per_file": 3}, {"max_rows_per_file": 0}):
        with pytest.raises(ValueError, match="max_rows_per_file"):
            rd.range(9).write_parquet(str(tmp_path / "out"), **limits)
    assert not list(tmp_path.iterdir())


@pytest.mark.contract("F10.03")
def test_columns_with_dots_in_their_names(rd: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from ray.data.expressions import col

    table = pa.table({"sepal.length": [1.5, 2.5], "sepal": [7, 8], "s": [{"x": 1}, {"x": 2}]})
    pq.write_table(table, tmp_path / "x.parquet")

    def read(*columns: str) -> Any:
        return rd.read_parquet(str(tmp_path), columns=list(columns))

    assert read("sepal.length").take_all() == [{"sepal.length": 1.5}, {"sepal.length": 2.5}]
    assert read("s", "sepal.length").schema().names == ["s", "sepal.length"]
    assert read("sepal").take_all() == [{"sepal": 7}, {"sepal": 8}]
    chosen = read("sepal.length", "sepal").filter(expr=col("sepal.length") > 2)
    assert chosen.take_all() == [{"sepal.length": 2.5, "sepal": 8}]
    for missing in ("nothing", "s.y", "sepal.width", "s.x"):  # the whole of a struct can be read
        with pytest.raises(ValueError, match=missing):
            read(missing)


@pytest.mark.contract("F10.24")
def test_parquet_with_a_schema(rd: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    numbers = iter(range(100))

    def written(schema: Any, **options: Any) -> Any:
        folder = tmp_path / str(next(numbers))
        rd.from_items(rows).write_parquet(str(folder), schema=schema, **options)
        found = [pq.ParquetFile(p) for p in sorted(folder.rglob("*.parquet"))]
        assert sum(f.metadata.num_rows for f in found) == 2
        (kinds,) = {f.schema_arrow for f in found}
        return [(f.name, str(f.type)) for f in kinds]

    narrow = pa.schema([("b", pa.large_string()), ("a", pa.int8())])
    assert written(narrow) == [("b", "large_string"), ("a", "int8")]
    assert written(narrow, min_rows_per_file=2) == [("b", "large_string"), ("a", "int8")]
    assert written(narrow, partition_cols=["a"]) == [("b", "large_string")]
    assert written(None, arrow_parquet_args_fn=lambda: {"schema": narrow})[1] == ("a", "int8")
    for wrong, kind in (
        (pa.schema([("a", pa.int64())]), ValueError),
        (pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int64())]), KeyError),
        (pa.schema([("a", pa.int64()), ("b", pa.int64())]), ValueError),
        (pa.schema([("a", pa.int64()), pa.field("b", pa.string(), nullable=False)]), ValueError),
    ):
        with pytest.raises(kind):
            written(wrong)


@pytest.mark.parametrize(
    ("text", "lines", "rows"),
    [
        ("[1, 2]\n[3, 4]\n", True, [{"0": 1, "1": 2}, {"0": 3, "1": 4}]),
        ("[1, 2]\n[3]\n", True, [{"0": 1, "1": 2}, {"0": 3, "1": None}]),
        ("[1, 2]", True, [{"0": 1, "1": 2}]),
        ('[{"a": 1}, {"a": 2}]', True, [{"0": {"a": 1}, "1": {"a": 2}}]),
        ('[{"a": 1}, {"a": 2}]', False, [{"a": 1}, {"a": 2}]),
        ("1\n2\n", True, [{"0": 1}, {"0": 2}]),
        ('{"a": 1}\n\n{"a": 2}\n', False, [{"a": 1}, {"a": 2}]),
        ('{"a": 1}\n{"b": "x"}', True, [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        ('{\n"a": 1,\n"b": [1, 2]\n}', False, [{"a": 1, "b": [1, 2]}]),
        ('{"a":\n null}\n', False, [{"a": None}]),
        ('{"a": 1}\n null \n', True, [{"a": 1, "0": None}, {"a": None, "0": None}]),
        ("null", True, [{"0": None}]),
        ("", False, []),
        ("", True, []),
    ],
)
@pytest.mark.contract("F10.03")
def test_forms_of_json(rd: Any, tmp_path: Path, text: str, lines: bool, rows: list[Any]) -> None:
    (tmp_path / "x.json").write_text(text)
    assert rd.read_json(str(tmp_path), lines=lines).take_all() == rows


@pytest.mark.contract("F10.03")
def test_files_packed_with_snappy(rd: Any, tmp_path: Path) -> None:
    cramjam = pytest.importorskip("cramjam", reason="unpacks Snappy")
    plain = b"id\n1\n2\n"
    (tmp_path / "x.csv.snappy").write_bytes(bytes(cramjam.snappy.compress(plain)))
    (tmp_path / "y.txt.snappy").write_bytes(bytes(cramjam.snappy.compress(b"a\nb\n")))
    assert ids(rd.read_csv(str(tmp_path / "x.csv.snappy"))) == [1, 2]
    given = rd.read_csv(
        str(tmp_path / "x.csv.snappy"), arrow_open_stream_args={"compression": "snappy"}
    )
    assert ids(given) == [1, 2]
    assert [r["text"] for r in rd.read_text(str(tmp_path / "y.txt.snappy")).take_all()] == [
        "a",
        "b",
    ]
    assert rd.read_binary_files(str(tmp_path / "x.csv.snappy")).take_all() == [{"bytes": plain}]


def test_files_come_in_another_order_with_each_execution(rd: Any, tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / f"{i:02}.csv").write_text(f"x\n{i}\n")

    def order(config: Any) -> list[list[int]]:
        dataset = rd.read_csv(str(tmp_path), shuffle=config, override_num_blocks=1)
        return [[row["x"] for row in dataset.take_all()] for _ in range(2)]

    config = rd.FileShuffleConfig(seed=7)
    first, second = order(config)
    assert sorted(first) == sorted(second) == list(range(12))
    assert first != second
    once, again = order(rd.FileShuffleConfig(seed=7, reseed_after_execution=False))
    assert once == again
    assert config.get_seed(0) == config.get_seed() != config.get_seed(1)
    assert rd.FileShuffleConfig(seed=7, reseed_after_execution=False).get_seed(5) == 7
    assert rd.FileShuffleConfig().get_seed(5) is None
    with pytest.raises(ValueError, match="Seed must be an integer or None"):
        rd.FileShuffleConfig(seed="x")
