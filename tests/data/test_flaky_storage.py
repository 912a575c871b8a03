"""Storage whose errors pass, and errors of filesystems, which keep their class (F10.24)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="files are read with pyarrow")
pytest.importorskip("fsspec", reason="the filesystem that fails is one of fsspec")

import pyarrow.parquet as pq  # noqa: E402
import ray.data  # noqa: E402
from ray.data.datasource import (  # noqa: E402
    BlockBasedFileDatasink,
    Datasink,
    RowBasedFileDatasink,
)

from tests.helpers.flaky import PASSES, Flaky, fails  # noqa: E402

WRITES: dict[str, Callable[..., None]] = {
    "parquet": lambda ds, path, **more: ds.write_parquet(path, **more),
    "parquet in folders": lambda ds, path, **more: ds.write_parquet(
        path, partition_cols=["a"], **more
    ),
    "csv": lambda ds, path, **more: ds.write_csv(path, **more),
    "json": lambda ds, path, **more: ds.write_json(path, **more),
    "numpy": lambda ds, path, **more: ds.write_numpy(path, column="b", **more),
    "tfrecords": lambda ds, path, **more: ds.write_tfrecords(path, **more),
}


@pytest.fixture
def storage(tmp_path: Path) -> Callable[..., Flaky]:
    """``storage(where, error, times)``: a filesystem that fails."""

    def storage(where: str, *more: Any) -> Flaky:
        return Flaky(str(tmp_path / "marks"), where, *more, skip_instance_cache=True)

    return storage


def rows() -> Any:
    return ray.data.from_items([{"a": n, "b": 2 * n} for n in range(3)])


def files(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.parametrize("where", ["write", "mkdir", "info"])
@pytest.mark.parametrize("form", WRITES)
def test_a_write_is_tried_again_after_an_error_that_passes(
    ray_start: Any, tmp_path: Path, storage: Any, form: str, where: str
) -> None:
    WRITES[form](rows(), str(tmp_path / "out"), filesystem=storage(where))
    assert len(files(tmp_path / "marks")) == 2, "it failed twice"
    assert files(tmp_path / "out")


def test_what_was_written_is_whole(ray_start: Any, tmp_path: Path, storage: Any) -> None:
    rows().repartition(3).write_parquet(str(tmp_path / "out"), filesystem=storage("write"))
    again = ray.data.read_parquet(str(tmp_path / "out"))
    assert sorted(row["a"] for row in again.take_all()) == [0, 1, 2]


@pytest.mark.parametrize(
    "error",
    [
        (OSError, "disk full"),
        (PermissionError, "not yours"),
        (FileNotFoundError, "bucket is gone"),
        (ConnectionError, "reset"),
        (ValueError, "bad"),
    ],
)
@pytest.mark.parametrize("form", WRITES)
def test_another_error_of_a_write_keeps_its_class(
    ray_start: Any, tmp_path: Path, storage: Any, form: str, error: tuple[type[Exception], str]
) -> None:
    with pytest.raises(error[0], match=error[1]):
        WRITES[form](
            rows().repartition(1), str(tmp_path / "out"), filesystem=storage("write", error)
        )
    assert len(files(tmp_path / "marks")) == 1, "it was not tried again"
    assert not files(tmp_path / "out")


@pytest.mark.parametrize("own", [["sorry"], ["so.ry, .*"], [r"^OSError: sorry"]])
def test_errors_of_the_users_own_list(
    ray_start: Any, tmp_path: Path, storage: Any, own: list[str]
) -> None:
    ds = rows()
    ds.context.retried_io_errors = own
    ds.write_csv(str(tmp_path / "out"), filesystem=storage("write", (OSError, "sorry, again"), 1))
    assert files(tmp_path / "out")


READS: dict[str, tuple[str, Callable[..., Any]]] = {
    "parquet": ("f.parquet", ray.data.read_parquet),
    "csv": ("f.csv", ray.data.read_csv),
    "json": ("f.json", ray.data.read_json),
    "text": ("f.txt", ray.data.read_text),
    "binary": ("f.bin", ray.data.read_binary_files),
    "numpy": ("f.npy", ray.data.read_numpy),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of each form."""
    import numpy as np

    pq.write_table(pa.table({"a": [1]}), tmp_path / "f.parquet")
    (tmp_path / "f.csv").write_text("a\n1\n")
    (tmp_path / "f.json").write_text('{"a": 1}\n')
    (tmp_path / "f.txt").write_text("1\n")
    (tmp_path / "f.bin").write_bytes(b"1")
    np.save(tmp_path / "f.npy", np.arange(1))
    return tmp_path


@pytest.mark.parametrize("form", READS)
def test_a_read_goes_on_after_an_error_that_passes(
    ray_start: Any, folder: Path, storage: Any, form: str
) -> None:
    name, read = READS[form]
    assert read(str(folder / name), filesystem=storage("read")).count() == 1


@pytest.mark.parametrize(
    "error", [(OSError, "disk"), (PermissionError, "not yours"), (ConnectionError, "reset")]
)
@pytest.mark.parametrize("form", READS)
def test_another_error_of_a_read_keeps_its_class(
    ray_start: Any, folder: Path, storage: Any, form: str, error: tuple[type[Exception], str]
) -> None:
    name, read = READS[form]
    for where in ("read", "info"):
        filesystem = storage(where, error, 1_000_000)
        with pytest.raises(error[0], match=error[1]):
            read(str(folder / name), filesystem=filesystem).take_all()


class ByRow(RowBasedFileDatasink):
    def __init__(self, path: str, marks: str, text: str) -> None:
        super().__init__(path, file_format="txt")
        self.marks, self.text = marks, text

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        file.write(b"begun ")
        if fails(self.marks, 2):
            raise OSError(self.text)
        file.write(b"ended")


class ByBlock(BlockBasedFileDatasink):
    def __init__(self, path: str, marks: str, text: str) -> None:
        super().__init__(path, file_format="txt")
        self.marks, self.text = marks, text

    def write_block_to_file(self, block: Any, file: Any) -> None:
        file.write(b"begun ")
        if fails(self.marks, 2):
            raise OSError(self.text)
        file.write(b"ended")


@pytest.mark.parametrize("kind", [ByRow, ByBlock])
def test_sinks_of_files_of_the_users_own(ray_start: Any, tmp_path: Path, kind: Any) -> None:
    out, marks = tmp_path / "out", tmp_path / "marks"
    rows().repartition(1).write_datasink(kind(str(out), str(marks), PASSES))
    found = files(out)
    assert found
    assert all((out / name).read_bytes() == b"begun ended" for name in found)
    with pytest.raises(OSError, match="disk full"):
        rows().write_datasink(kind(str(tmp_path / "other"), str(tmp_path / "more"), "disk full"))


class Whole(Datasink[None]):
    """Writes by itself: it alone knows what may be done twice."""

    def __init__(self, marks: str) -> None:
        self.marks = marks

    def write(self, blocks: Any, ctx: Any) -> None:
        if fails(self.marks, 1):
            raise OSError(PASSES)


def test_a_sink_that_writes_by_itself_is_not_tried_again(ray_start: Any, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="AWS Error"):
        rows().repartition(1).write_datasink(Whole(str(tmp_path / "marks")))
