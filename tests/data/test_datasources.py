"""Sources and sinks of the program's own, as Ray documents them, and the names they build on."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
from ray.data.block import Block, BlockAccessor, BlockMetadata
from ray.data.datasource import (
    BlockBasedFileDatasink,
    Datasource,
    FileBasedDatasource,
    FilenameProvider,
    ReadTask,
    RowBasedFileDatasink,
)
from ray.data.datasource.partitioning import (
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)

CLUSTER = {"num_cpus": 4}


class Lines(FileBasedDatasource):
    """A row for each line, in all forms that a block may have."""

    def __init__(self, paths: Any, form: str = "arrow", **options: Any) -> None:
        super().__init__(paths, file_extensions=["line"], **options)
        self.form = form

    def _read_stream(self, f: Any, path: str) -> Iterator[Block]:
        lines = f.read().decode().split()
        if self.form == "builder":
            from ray.data._internal.delegating_block_builder import DelegatingBlockBuilder

            builder = DelegatingBlockBuilder()
            for line in lines:
                builder.add({"line": line})
            yield builder.build()
            return
        made = {
            "arrow": lambda: pa.table({"line": lines}),
            "pandas": lambda: pd.DataFrame({"line": lines}),
            "numpy": lambda: {"line": np.array(lines)},
        }[self.form]()
        yield made


class LineSink(BlockBasedFileDatasink):
    def write_block_to_file(self, block: BlockAccessor, file: Any) -> None:
        for row in block.iter_rows(public_row_format=False):
            file.write(f"{row['line']}\n".encode())


class RowSink(RowBasedFileDatasink):
    def __init__(self, path: str, column: str) -> None:
        super().__init__(path, file_format="npy")
        self.column = column

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        data = io.BytesIO()
        np.save(data, row[self.column])
        file.write(data.getvalue())


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    for year in (2023, 2024):
        folder = tmp_path / "lines" / f"year={year}"
        folder.mkdir(parents=True)
        (folder / "x.line").write_text(f"a{year} b{year}")
        (folder / "note.txt").write_text("no line")
    return tmp_path / "lines"


def values(dataset: Any, column: str = "line") -> list[Any]:
    return sorted(row[column] for row in dataset.take_all())


@pytest.mark.parametrize("form", ["arrow", "pandas", "numpy", "builder"])
@pytest.mark.contract("F10.26")
def test_files_in_a_format_of_ones_own(rd: Any, lines: Path, form: str) -> None:
    dataset = rd.read_datasource(Lines(str(lines), form))
    assert values(dataset) == ["a2023", "a2024", "b2023", "b2024"]
    assert [Path(f).name for f in dataset.materialize().input_files()] == ["x.line"] * 2


@pytest.mark.contract("F10.26", "F10.03")
def test_options_of_sources_of_files(rd: Any, lines: Path, tmp_path: Path) -> None:
    source = Lines(
        [str(lines), str(tmp_path / "missing")],
        partitioning=Partitioning(PartitionStyle.HIVE, field_types={"year": int}),
        partition_filter=PathPartitionFilter.of(lambda found: found["year"] == "2024"),
        include_paths=True,
        ignore_missing_paths=True,
        shuffle="files",
    )
    rows = rd.read_datasource(source, override_num_blocks=1).take_all()
    assert [(r["line"], r["year"], Path(r["path"]).name) for r in rows] == [
        ("a2024", 2024, "x.line"),
        ("b2024", 2024, "x.line"),
    ]
    with pytest.raises(FileNotFoundError):
        Lines(str(tmp_path / "missing"))
    with pytest.raises(NotImplementedError, match="_read_stream"):
        rd.read_datasource(FileBasedDatasource(str(lines))).take_all()


@pytest.mark.contract("F10.26")
def test_sinks_of_ones_own(rd: Any, lines: Path, tmp_path: Path) -> None:
    dataset = rd.read_datasource(Lines(str(lines)))
    out = tmp_path / "out"
    dataset.write_datasink(LineSink(str(out), min_rows_per_file=100, file_format="line"))
    (only,) = out.iterdir()
    assert sorted(only.read_text().split()) == values(dataset)
    assert only.suffix == ".line"
    arrays = rd.from_items([{"x": np.full((2, 2), i)} for i in range(3)], override_num_blocks=2)
    arrays.write_datasink(RowSink(str(tmp_path / "rows"), "x"))
    assert sorted(int(np.load(p)[0, 0]) for p in (tmp_path / "rows").iterdir()) == [0, 1, 2]


@pytest.mark.contract("F10.26", "F10.24")
def test_sinks_keep_the_mode_of_saving(rd: Any, tmp_path: Path) -> None:
    from ray.data import SaveMode

    dataset = rd.from_items([{"line": "x"}])
    for mode, count in ((SaveMode.APPEND, 1), (SaveMode.APPEND, 2), (SaveMode.IGNORE, 2)):
        dataset.write_datasink(LineSink(str(tmp_path / "out"), mode=mode))
        assert len(list((tmp_path / "out").iterdir())) == count
    with pytest.raises(ValueError, match="already exists"):
        dataset.write_datasink(LineSink(str(tmp_path / "out"), mode=SaveMode.ERROR))
    dataset.write_datasink(LineSink(str(tmp_path / "out"), mode=SaveMode.OVERWRITE))
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.contract("F10.26", "F10.24")
def test_names_of_files(rd: Any, tmp_path: Path) -> None:
    class Named(FilenameProvider):
        def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
            return f"part-{task_index}.line"

    dataset = rd.from_items([{"line": str(i)} for i in range(6)], override_num_blocks=2)
    dataset.write_datasink(LineSink(str(tmp_path / "a"), filename_provider=Named()))
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["part-0.line", "part-1.line"]
    # Files of one block do not overwrite each other.
    dataset.write_parquet(str(tmp_path / "b"), filename_provider=Named(), max_rows_per_file=1)
    names = [p.name for p in (tmp_path / "b").iterdir()]
    assert len(names) == 6
    assert all(n.startswith("part-") and n.endswith(".line") for n in names)
    assert FilenameProvider("set", "csv").get_filename_for_task("w", 3) == "set_w_000003.csv"


@pytest.mark.contract("F10.26")
def test_sources_of_the_older_kind(rd: Any) -> None:
    class Old(Datasource):
        def prepare_read(self, parallelism: int, n: int) -> list[ReadTask]:  # type: ignore[override]
            about = BlockMetadata(num_rows=1, size_bytes=8, input_files=None, exec_stats=None)
            return [ReadTask(lambda i=i: [pa.table({"i": [i]})], about) for i in range(n)]

        def estimate_inmemory_data_size(self) -> int | None:
            return None

    assert values(rd.read_datasource(Old(), n=5), "i") == [0, 1, 2, 3, 4]


@pytest.mark.contract("F10.33", "F10.23")
def test_bundles_of_references_are_whole_blocks(rd: Any) -> None:
    cut = rd.range(20, override_num_blocks=2).materialize().limit(15)
    bundles = list(cut.iter_internal_ref_bundles())
    for bundle in bundles:
        for entry in bundle.blocks:
            assert ray.get(entry.ref).num_rows == entry.metadata.num_rows
    tables = [t for b in bundles for t in ray.get(b.block_refs)]
    assert [t.num_rows for t in tables] == [b.num_rows() for b in bundles] == [10, 5]
    assert [i for t in tables for i in t["id"].to_pylist()] == list(range(15))
    for bundle, table in zip(bundles, tables, strict=True):
        ((ref, about),) = bundle.blocks
        assert (about.num_rows, about.size_bytes) == (table.num_rows, bundle.size_bytes())
        assert ref == bundle.block_refs[0]
        assert bundle.schema == table.schema


TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})


@pytest.mark.parametrize("made", [TABLE, TABLE.to_pandas()], ids=["arrow", "pandas"])
@pytest.mark.contract("F10.33")
def test_operations_on_blocks(made: Any) -> None:
    block = BlockAccessor.for_block(made)
    assert block.num_rows() == 3
    assert block.size_bytes() > 0
    assert block.column_names() == ["a", "b"]
    assert block.schema().names == ["a", "b"]
    assert block.get_metadata(input_files=["x"]).input_files == ["x"]
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}]
    assert list(block.iter_rows(public_row_format=True)) == rows
    assert block.to_arrow().to_pylist() == rows
    assert block.to_pandas().to_dict(orient="records") == rows
    assert block.to_numpy("a").tolist() == [1, 2, 3]
    assert list(block.to_numpy(["b"])) == ["b"]
    assert block.to_batch_format("numpy")["a"].tolist() == [1, 2, 3]
    assert block.to_batch_format("pandas")["b"].tolist() == ["x", "y", "z"]

    def back(part: Any) -> list[Any]:
        return BlockAccessor.for_block(part).to_arrow().to_pylist()

    assert type(block.slice(1, 3)) is type(made)
    assert back(block.slice(1, 3, copy=True)) == rows[1:]
    assert back(block.take([2, 0])) == [rows[2], rows[0]]
    assert back(block.select(["a"])) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert back(block.drop(["a"])) == [{"b": "x"}, {"b": "y"}, {"b": "z"}]
    assert back(block.rename_columns({"a": "c"}))[0] == {"c": 1, "b": "x"}
    assert back(block.upsert_column("a", [7, 8, 9]))[2] == {"a": 9, "b": "z"}
    assert sorted(back(block.random_shuffle(3)), key=lambda r: r["a"]) == rows
    assert back(block.zip(TABLE.select(["a"])))[0] == {"a": 1, "b": "x", "a_1": 1}
    with pytest.raises(ValueError, match="rows"):
        block.zip(TABLE.slice(1))


@pytest.mark.contract("F10.33")
def test_what_is_no_block() -> None:
    with pytest.raises(TypeError):
        BlockAccessor.for_block([1])  # type: ignore[arg-type]
    made = BlockAccessor.batch_to_block({"a": np.arange(2)})
    assert BlockAccessor.for_block(made).to_arrow().to_pylist() == [{"a": 0}, {"a": 1}]


@pytest.mark.contract("F10.26")
def test_columns_in_paths() -> None:
    hive = PathPartitionParser.of(field_types={"year": int, "last": bool})
    assert hive("/data/year=2024/last=true/x.csv") == {"year": 2024, "last": True}
    assert PathPartitionParser.of()("/data/x=%20/y/a=b=c/f.csv") == {"x": " "}
    assert PathPartitionParser.of()("f.csv") == {}
    with pytest.raises(KeyError, match="last"):
        hive("/data/year=2024/x.csv")
    below = PathPartitionParser.of("dir", base_dir="/data", field_names=["year", "month"])
    assert below("/data/2024/5/x.csv") == {"year": "2024", "month": "5"}
    assert below("/other/2024/5/x.csv") == {}
    assert below("/data/x.csv") == {}
    with pytest.raises(ValueError, match="2 partition"):
        below("/data/2024/x.csv")
    with pytest.raises(ValueError, match="year"):
        PathPartitionParser.of(field_names=["year"])("/data/month=3/x.csv")
    with pytest.raises(ValueError, match="field_names"):
        PathPartitionParser.of(PartitionStyle.DIRECTORY)
    with pytest.raises(ValueError, match="style"):
        PathPartitionParser(Partitioning("other"))
    assert hive.scheme.style == "hive"
    plain = PathPartitionParser.of()
    keep = PathPartitionFilter(plain, lambda found: found.get("year") == "2024")
    assert keep(["/year=2024/a", "/year=2023/a", "/a"]) == ["/year=2024/a"]
    assert keep.parser is plain
    assert "year" in str(Partitioning("hive", field_types={"year": int}).to_pyarrow().schema)


@pytest.mark.contract("F10.32")
def test_more_names() -> None:
    from ray.data import NodeIdStr
    from ray.data.datasource.datasink import Datasink, WriteResult
    from ray.data.datasource.file_based_datasource import FileBasedDatasource as Same

    assert NodeIdStr is str
    assert Same is FileBasedDatasource
    assert issubclass(LineSink, Datasink)
    both = WriteResult.combine(WriteResult(1, 2, [3]), WriteResult(4, 5, [6]))
    assert (both.num_rows, both.size_bytes, both.write_returns) == (5, 7, [3, 6])


@pytest.mark.contract("F10.32")
def test_rows_of_random_numbers(rd: Any) -> None:
    from ray.data.datasource import RandomIntRowDatasource

    source = RandomIntRowDatasource(10, num_columns=2)
    assert source.get_name() == "RandomInt"
    rows = rd.read_datasource(source, override_num_blocks=3).take_all()
    assert [list(row) for row in rows] == [["c_0", "c_1"]] * 10
    assert len({row["c_0"] for row in rows}) == 10
