"""What programs take from files of Ray's data library: file metadata, blocks, tables, tensors."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="blocks are tables of pyarrow")

import numpy as np  # noqa: E402
from ray.data.block import BlockAccessor  # noqa: E402
from ray.data.datasource import (  # noqa: E402
    BaseFileMetadataProvider,
    DefaultFileMetadataProvider,
    FileMetadataProvider,
)

REFUSED = (
    "When reading information for key 'k': AWS Error ACCESS_DENIED during HeadObject operation: "
    "No response body."
)


def test_files_and_their_metadata(tmp_path: Path) -> None:
    from pyarrow.fs import LocalFileSystem

    (tmp_path / "b").mkdir()
    for name, size in (("b/2.csv", 20), ("a.csv", 10)):
        (tmp_path / name).write_bytes(b"x" * size)
    provider = DefaultFileMetadataProvider()
    assert isinstance(provider, BaseFileMetadataProvider | FileMetadataProvider)
    paths, sizes = zip(*provider.expand_paths([str(tmp_path)], LocalFileSystem()), strict=True)
    assert ([Path(path).name for path in paths], list(sizes)) == (["a.csv", "2.csv"], [10, 20])
    about = provider(list(paths), rows_per_file=3, file_sizes=list(sizes))
    assert (about.num_rows, about.size_bytes) == (6, 30)
    assert list(about.input_files) == list(paths)
    unknown = provider(list(paths), rows_per_file=None, file_sizes=[10, None])
    assert (unknown.num_rows, unknown.size_bytes) == (None, None)
    gone = str(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="gone"):
        list(provider.expand_paths([gone], LocalFileSystem()))
    found = provider.expand_paths([gone, str(tmp_path)], LocalFileSystem(), None, True)
    assert len(list(found)) == 2
    for kind in (FileMetadataProvider, BaseFileMetadataProvider):
        with pytest.raises(NotImplementedError):
            kind()(["a"], rows_per_file=None, file_sizes=[None])


def test_an_error_of_storage_keeps_its_class_and_says_what_to_look_at() -> None:
    from ray.data.datasource.file_meta_provider import _handle_read_os_error

    plain = FileNotFoundError("s3://b/k")
    with pytest.raises(FileNotFoundError) as caught:
        _handle_read_os_error(plain, "s3://b/k")
    assert caught.value is plain
    for paths in ("s3://b/k", ["s3://b/k", "s3://b/l"]):
        with pytest.raises(OSError, match=r"Failing to read AWS S3 file\(s\): .*s3://b/k") as told:
            _handle_read_os_error(OSError(REFUSED), paths)
        assert "aws s3 ls" in str(told.value)


def test_a_block_says_which_kind_it_is() -> None:
    from ray.data._internal.arrow_block import ArrowBlockAccessor, ArrowBlockBuilder
    from ray.data._internal.pandas_block import PandasBlockAccessor

    table = pa.table({"a": [1, 2]})
    of_arrow = BlockAccessor.for_block(table)
    of_pandas = BlockAccessor.for_block(table.to_pandas())
    assert isinstance(of_arrow, ArrowBlockAccessor)
    assert isinstance(of_pandas, PandasBlockAccessor)
    assert not isinstance(of_pandas, ArrowBlockAccessor)
    assert ArrowBlockAccessor(table).num_rows() == 2
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    assert ArrowBlockAccessor.from_bytes(data).to_arrow().equals(table)
    builder = ArrowBlockBuilder()
    builder.add_block(pa.table({"a": [1, 2]}))
    builder.add({"a": 3})
    assert builder.num_rows() == 3
    assert builder.build().to_pydict() == {"a": [1, 2, 3]}


def test_a_row_of_a_table_is_a_mapping() -> None:
    from ray.data._internal.arrow_block import ArrowRow

    row = ArrowRow(pa.table({"a": [7, 1], "b": ["y", "x"]}), 1)
    assert dict(row) == row.as_pydict() == {"a": 1, "b": "x"}
    assert (list(row), len(row), row["b"], row.get("c", 7)) == (["a", "b"], 2, "x", 7)
    assert tuple(row[["b", "a"]]) == ("x", 1)
    with pytest.raises(KeyError):
        row["c"]


def test_tables_together() -> None:
    from ray.data._internal.arrow_ops.transform_pyarrow import (
        combine_chunks,
        concat,
        take_table,
        unify_schemas,
    )

    one, other = pa.table({"a": [1, 2]}), pa.table({"a": [3], "b": ["x"]})
    joined = concat([one, other], promote_types=True)
    assert joined.to_pydict() == {"a": [1, 2, 3], "b": [None, None, "x"]}
    assert combine_chunks(joined).column("a").num_chunks == 1
    assert combine_chunks(joined, copy=True).equals(joined)
    assert take_table(joined, [2, 0]).column("a").to_pylist() == [3, 1]
    schemas = [one.schema, pa.schema([("a", pa.float64())])]
    assert unify_schemas(schemas, promote_types=True).field("a").type == pa.float64()
    assert unify_schemas([one.schema, other.schema]).names == ["a", "b"]


def test_tensors_of_batches() -> None:
    torch = pytest.importorskip("torch", reason="tensors are torch's")
    made = importlib.import_module("ray.data.util.torch_utils")

    batch = {"x": np.arange(3), "y": np.ones((3, 2), dtype=np.float64)}
    as_tensors = made.convert_ndarray_batch_to_torch_tensor_batch
    tensors = as_tensors(batch, dtypes={"x": torch.float32, "y": None}, device="cpu")
    assert tensors["x"].dtype is torch.float32
    assert tensors["y"].shape == (3, 2)
    assert as_tensors(np.arange(2), dtypes={"any": torch.int8}).dtype is torch.int8
    with pytest.raises(ValueError, match="dtype"):
        as_tensors(np.arange(2), dtypes={"a": torch.int8, "b": torch.int8})
    with pytest.raises(KeyError):
        as_tensors(batch, dtypes={"x": torch.int8})
    with pytest.raises(TypeError):
        made.convert_ndarray_to_torch_tensor(np.array(["a"]))

    table = pa.table({"x": pa.chunked_array([[1, 2], [3]])})
    assert made.arrow_batch_to_tensors(table, combine_chunks=True)["x"].tolist() == [1, 2, 3]
    parts = made.arrow_batch_to_tensors(table, dtypes=torch.float32)["x"]
    assert [(part.tolist(), part.dtype) for part in parts] == [
        ([1.0, 2.0], torch.float32),
        ([3.0], torch.float32),
    ]
    move = made.move_tensors_to_device
    assert move({"x": parts}, "cpu")["x"].tolist() == [1, 2, 3]
    kept = move({"x": parts}, "cpu", concat=False)["x"]
    assert [part.tolist() for part in kept] == [[1, 2], [3]]
    first, second = move([parts[0], parts], device="meta")
    assert (first.device.type, second.shape) == ("meta", (3,))
    for wrong in ({"x": 1}, [1], "x"):
        with pytest.raises(ValueError):
            move(wrong, "cpu")


def test_rows_without_columns_keep_their_number(rd: Any) -> None:
    import pickle

    there = rd.from_items([{"a": 1}, {"a": 2}, {"a": 3}])
    none = there.select_columns([])
    assert (none.count(), none.columns(), none.schema().names) == (3, [], [])
    assert none.materialize().count() == there.drop_columns(["a"]).count() == 3
    table = pa.table({"a": [1, 2, 3]}).select([])
    assert BlockAccessor.for_block(table).num_rows() == 3
    assert pickle.loads(pickle.dumps(pa.table({"a": [1]}))).to_pydict() == {"a": [1]}
    assert rd.from_items([]).schema() is None


@pytest.mark.heliostat_only("Ray's rows without columns have one of its own, or end the task")
def test_rows_without_columns_are_empty_rows(rd: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    there = rd.from_items([{"a": 1}, {"a": 2}, {"a": 3}])
    for none in (
        there.select_columns([]),
        there.drop_columns(["a"]),
        there.map(lambda row: {}),
    ):
        assert none.schema().names == []
        assert none.take_all() == list(none.iter_rows()) == [{}, {}, {}]
        assert none.limit(2).take_all() == [{}, {}]
    pq.write_table(pa.table({"a": list(range(5000))}), tmp_path / "f.parquet")
    read = rd.read_parquet(str(tmp_path), columns=[])
    assert (read.columns(), read.count(), len(read.take_all())) == ([], 5000, 5000)
