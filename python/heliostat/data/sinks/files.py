"""Writing blocks as files. A task writes its blocks under names that only it uses."""

from __future__ import annotations

import contextlib
import enum
import io
import posixpath
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from heliostat.core.platform.extras import required
from heliostat.core.platform.spelling import did_you_mean
from heliostat.data import block, frames, tensors
from heliostat.data.execute import exchanges
from heliostat.data.execute.groups import group_begins
from heliostat.data.plan import task
from heliostat.data.retries import retried
from heliostat.data.sources.files import resolve

if TYPE_CHECKING:
    from heliostat.data.aliases import Row


SAMPLE_ROWS = 4096  # of a table, by which its columns are judged
OptionsFn = Callable[[], dict[str, object]]  # gives options of a format's writer in the task
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # what Hive calls the folder of missing values


class SaveMode(str, enum.Enum):
    """The treatment of a folder that is there: add files, refuse, empty it first, or do nothing.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> from ray.data import SaveMode
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(2).write_parquet(folder)
        >>> ray.data.range(3).write_parquet(folder, mode=SaveMode.OVERWRITE)
        >>> ray.data.read_parquet(folder).count()
        3
    """

    CREATE = "create"
    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"
    UPSERT = "upsert"


def save_mode(mode: object) -> SaveMode:
    """The ``SaveMode`` of a name, or of Ray's or one's own class.

    Raises:
        ValueError: There is no such mode.
    """
    known = [one.value for one in SaveMode]
    named = getattr(mode, "value", mode)
    if named not in known:
        near = did_you_mean(str(named), known)
        raise ValueError(f"There is no mode {named!r}; there are {', '.join(known)}.{near}")
    return SaveMode(named)


class FilenameProvider:
    """Names files; the name of a task's file is what derived classes override.

    Args:
        dataset_uuid: What names begin with, if anything.
        file_format: What they end with, without the dot.

    Examples:
        >>> import os, tempfile
        >>> import ray
        >>> from ray.data import FilenameProvider
        >>> class Named(FilenameProvider):
        ...     def get_filename_for_task(self, write_uuid, task_index):
        ...         return f"part-{task_index}.parquet"
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(4, override_num_blocks=1).write_parquet(folder, filename_provider=Named())
        >>> os.listdir(folder)
        ['part-0_000000.parquet']
    """

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self.dataset_uuid, self.file_format = dataset_uuid, file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """Return the name of a task's file; it must differ for each task and each write.

        Args:
            write_uuid: An id of the write.
            task_index: The task's number.
        """
        begin = f"{self.dataset_uuid}_" if self.dataset_uuid else ""
        ending = f".{self.file_format}" if self.file_format else ""
        return f"{begin}{write_uuid}_{task_index:06}{ending}"

    def get_filename_for_block(
        self, block: pa.Table, write_uuid: str, task_index: int, block_index: int
    ) -> str:
        """Return the name of a file with a block; it must differ for each. Deprecated.

        Args:
            block: The block.
            write_uuid: An id of the write.
            task_index: The task's number.
            block_index: The block's number in the task.
        """
        return numbered(self.get_filename_for_task(write_uuid, task_index), block_index)

    def get_filename_for_row(
        self,
        row: dict[str, object],
        write_uuid: str,
        task_index: int,
        block_index: int,
        row_index: int,
    ) -> str:
        """Return the name of a file with a row; it must differ for each. Deprecated.

        Args:
            row: The row.
            write_uuid: An id of the write.
            task_index: The task's number.
            block_index: The block's number in the task.
            row_index: The row's number in the block.
        """
        return numbered(self.get_filename_for_task(write_uuid, task_index), block_index, row_index)


def numbered(name: str, *numbers: int) -> str:
    """The name with numbers before its ending."""
    stem, dot, ending = name.partition(".")
    return stem + "".join(f"_{n:06}" for n in numbers) + dot + ending


@dataclass
class Sink:
    """A folder that blocks are written to. ``encode`` makes the bytes of a file of a table."""

    path: str
    filesystem: pa.fs.FileSystem
    ending: str
    encode: Callable[[pa.Table], object]  # bytes, or a buffer
    by_row: Callable[[Row], bytes] | None = None  # each row is a file
    partition_cols: list[str] = field(default_factory=list)
    max_rows: int | None = None
    names: FilenameProvider | None = None
    open_args: dict[str, object] = field(default_factory=dict)
    write_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Write all tables of a task; gives a table with the number of rows and bytes."""
        number = task.index()  # an attempt more writes the same names
        rows = size = 0
        written: list[str] = []
        try:
            for index, table in enumerate(t for t in tables if t.num_rows):
                rows += table.num_rows
                size += table.nbytes
                self._write(table, number, index, written)
        except BaseException:
            for path in written:  # the task may be tried again
                with contextlib.suppress(
                    OSError
                ):  # it is not there; the error above is the one to tell
                    self.filesystem.delete_file(path)
            raise
        yield pa.table({"rows": [rows], "bytes": [size]})

    def undo(self) -> None:
        """Delete the files of this write, which has failed; tasks that still run delete theirs.

        Files are known by the write's id in their names: a ``FilenameProvider`` that leaves it out keeps
        its files.
        """
        selector = pyarrow.fs.FileSelector(self.path, allow_not_found=True, recursive=True)
        for info in self.filesystem.get_file_info(selector):
            if info.type == pyarrow.fs.FileType.File and self.write_id in info.base_name:
                with contextlib.suppress(OSError):  # its task was faster
                    self.filesystem.delete_file(info.path)

    def _write(self, table: pa.Table, number: int, index: int, written: list[str]) -> None:
        if self.by_row is not None:
            for at, row in enumerate(block.rows(table)):
                name = f"{self.write_id}_{number:06}_{index:06}_{at:06}.{self.ending}"
                if self.names is not None:
                    name = self.names.get_filename_for_row(row, self.write_id, number, index, at)
                self._store(name, self.by_row(row), written)
            return
        for folder, part in _partitions(table, self.partition_cols):
            step = self.max_rows or part.num_rows
            for at in range(0, part.num_rows, step):
                name = f"{self.write_id}_{number:06}_{index:06}-{at // step}.{self.ending}"
                piece = part.slice(at, step)
                if self.names is not None:
                    count = len(written)  # a block may be several files
                    name = self.names.get_filename_for_block(piece, self.write_id, number, count)
                self._store(posixpath.join(folder, name), self.encode(piece), written)

    def _store(self, name: str, data: object, written: list[str]) -> None:
        path = posixpath.join(self.path, name)
        folder = posixpath.dirname(path)
        written.append(path)

        def write() -> None:
            if folder != self.path:
                self.filesystem.create_dir(folder, recursive=True)
            with self.filesystem.open_output_stream(path, **self.open_args) as stream:
                stream.write(data)

        retried(write, "a write")


def _partitions(table: pa.Table, names: list[str]) -> Iterator[tuple[str, pa.Table]]:
    """(folder, rows) for each combination of values of the partition columns."""
    if not names:
        yield "", table
        return
    exchanges.require(table, names)
    table = exchanges.ordered(table, [(n, "ascending") for n in names])
    begins = group_begins(table, names)
    for begin, end in zip(begins, [*begins[1:], table.num_rows], strict=True):
        part = table.slice(begin, end - begin)
        head = part.slice(0, 1).select(names).to_pylist()[0]
        folder = "/".join(f"{n}={_in_path(head[n])}" for n in names)
        yield folder, part.drop_columns(names)


def _in_path(value: object) -> str:
    return NO_VALUE if value is None else urllib.parse.quote(str(value), safe="")


def prepare(
    path: str, filesystem: pa.fs.FileSystem, mode: object, create: bool
) -> tuple[str, pa.fs.FileSystem] | None:
    """(path, filesystem) of the folder to write to; None: nothing is to be written.

    Raises:
        ValueError: It is there, and the mode says that it must not be.
    """
    mode = save_mode(mode)
    bare, used = resolve(path, filesystem)
    info = retried(lambda: used.get_file_info(bare), "a look at a folder")
    there = info.type != pa.fs.FileType.NotFound
    if info.type == pa.fs.FileType.File:
        raise NotADirectoryError(
            f"{path} is a file: files are written into a folder, under names of their own."
        )
    if there:
        if mode is SaveMode.IGNORE:
            return None
        if mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(
                f"Path {path} already exists. If this is unexpected, use mode='ignore' to ignore "
                "those files"
            )
        if mode is SaveMode.OVERWRITE:
            retried(lambda: used.delete_dir_contents(bare), "the deletion of a folder's files")
    if mode is SaveMode.UPSERT:
        raise ValueError("mode='upsert' is for tables with keys, not for files.")
    if create and not there:
        retried(lambda: used.create_dir(bare, recursive=True), "the making of a folder")
    return bare, used


# --- formats ---------------------------------------------------------------------------------------


@dataclass
class ParquetBytes:
    """A table as a Parquet file."""

    options: dict[str, object]
    options_fn: OptionsFn | None = None
    partition_cols: list[str] = field(default_factory=list)

    def __call__(self, table: pa.Table) -> pa.Buffer:
        """Encode."""
        import pyarrow.parquet as pq

        options = {**self.options, **(self.options_fn() if self.options_fn else {})}
        schema = options.pop("schema", None)
        if schema is not None:
            table = _as_schema(table, schema, self.partition_cols)
        options.setdefault("use_dictionary", _with_repetitions(table))
        sink = pa.BufferOutputStream()
        pq.write_table(frames.without_marks(table), sink, **options)
        return sink.getvalue()


def _with_repetitions(table: pa.Table) -> bool | list[str]:
    """The columns that Parquet is to write as numbers of a dictionary.

    Trying to, only to find that nearly all values differ, takes several times as long as writing them.
    """
    if any(
        pa.types.is_nested(f.type) or isinstance(f.type, pa.BaseExtensionType) for f in table.schema
    ):
        return True  # their leaves have names of their own
    sample = table.slice(0, SAMPLE_ROWS)
    numbers = {f.name for f in table.schema if tensors.is_array(f.type)}
    return [
        name
        for name in table.column_names
        if name not in numbers or pc.count_distinct(sample.column(name)).as_py() * 2 < len(sample)
    ]


def _as_schema(table: pa.Table, schema: pa.Schema, left_out: list[str]) -> pa.Table:
    """The table's columns in the order and with the types of a schema.

    Raises:
        KeyError: The table lacks one of its columns.
        ValueError: The table has other columns too, a value does not fit its type, or one is missing
            where the schema allows no null.
    """
    wanted = pa.schema([f for f in schema if f.name not in left_out], schema.metadata)
    others = [name for name in table.column_names if name not in wanted.names]
    if others:
        raise ValueError(
            f"the schema to write with has no columns {others}; it has {schema.names}."
        )
    return table.select(wanted.names).cast(wanted)


@dataclass
class CsvBytes:
    """A table as a CSV file."""

    options: dict[str, object]
    options_fn: OptionsFn | None = None

    def __call__(self, table: pa.Table) -> bytes:
        """Encode."""
        from pyarrow import csv

        options = {**self.options, **(self.options_fn() if self.options_fn else {})}
        sink = io.BytesIO()
        csv.write_csv(table, sink, **options)
        return sink.getvalue()


@dataclass
class OrcBytes:
    """A table as an ORC file."""

    options: dict[str, object]
    options_fn: OptionsFn | None = None

    def __call__(self, table: pa.Table) -> bytes:
        """Encode."""
        from pyarrow import orc

        if not table.num_columns:
            raise ValueError("write_orc requires at least one column.")
        options = {**self.options, **(self.options_fn() if self.options_fn else {})}
        sink = pa.BufferOutputStream()
        orc.write_table(table, sink, **options)
        data: bytes = sink.getvalue().to_pybytes()
        return data


@dataclass
class JsonBytes:
    """A table as lines of JSON, by pandas."""

    options: dict[str, object]
    options_fn: OptionsFn | None = None

    def __call__(self, table: pa.Table) -> bytes:
        """Encode."""
        options = {"orient": "records", "lines": True, **self.options}
        options.update(self.options_fn() if self.options_fn else {})
        text: str = frames.to_pandas(table).to_json(**options)
        return text.encode()


@dataclass
class NumpyBytes:
    """A column as a ``.npy`` file."""

    column: str

    def __call__(self, table: pa.Table) -> bytes:
        """Encode."""
        import numpy as np

        sink = io.BytesIO()
        columns = dict(zip(table.column_names, table.columns, strict=True))
        np.save(sink, tensors.to_numpy(block.named(columns, self.column)))
        return sink.getvalue()


@dataclass
class TfRecordBytes:
    """A table as a TFRecord file."""

    kinds: dict[str, str] | None

    def __call__(self, table: pa.Table) -> bytes:
        """Encode."""
        from heliostat.data import tfrecords

        return b"".join(tfrecords.framed(r) for r in tfrecords.encode(table, self.kinds))


@dataclass
class WebDatasetBytes:
    """A table as a tar archive."""

    encoder: object

    def __call__(self, table: pa.Table) -> bytes:
        """Encode."""
        from heliostat.data import webdataset

        return webdataset.archive(block.rows(table), self.encoder)


@dataclass
class ImageBytes:
    """A row's array as a picture."""

    column: str
    file_format: str

    def __call__(self, row: dict[str, object]) -> bytes:
        """Encode."""
        pictures = required("PIL.Image", "Pictures")

        sink = io.BytesIO()
        value = block.named(row, self.column)
        try:
            picture = pictures.fromarray(np.asarray(value))
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"write_images: a value of column {self.column!r} is not a picture, but {_about(value)}; it "
                f"takes an array of height, width and colours, mostly of uint8 ({error})"
            ) from error
        picture.save(sink, format=self.file_format)
        return sink.getvalue()


def _about(value: object) -> str:
    """The type of a value, in words; of an array its shape, too."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of the shape {value.shape}"
    return f"of type {type(value).__name__}"
