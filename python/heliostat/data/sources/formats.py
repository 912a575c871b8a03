"""The file formats, which make tables of files. These run in workers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import block, tensors
from heliostat.data.sources.streams import opened

if TYPE_CHECKING:
    from heliostat.data.aliases import Row, Value


ROWS_AT_ONCE = 4096  # images, lines and files that make up one table


@dataclass
class Format:
    """Reads one kind of file. ``open_args`` are those of ``FileSystem.open_input_stream``."""

    open_args: dict[str, object] = field(default_factory=dict)

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the tables of a file."""
        raise NotImplementedError

    def keeps(self, name: str) -> bool:
        """Whether a column that comes from the file's place is wanted."""
        return True

    def of_folder(self, name: str, value: Value) -> pa.Scalar:
        """The value that a folder's name gives to a column, as pyarrow has it."""
        return pa.scalar(value)

    def _bytes(self, filesystem: pa.fs.FileSystem, path: str) -> bytes:
        with self._stream(filesystem, path) as stream:
            data: bytes = stream.read()
        return data

    def _stream(self, filesystem: pa.fs.FileSystem, path: str) -> pa.NativeFile:
        return opened(filesystem, path, self.open_args)


@dataclass
class Csv(Format):
    """Comma-separated values, with a line of names."""

    options: dict[str, object] = field(default_factory=dict)

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the tables of a file, in pieces."""
        from pyarrow import csv

        with self._stream(filesystem, path) as stream:
            try:
                reader = csv.open_csv(stream, **self.options)
            except pa.ArrowInvalid as error:
                if "Empty CSV file" in str(error):
                    return
                raise pa.ArrowInvalid(f"{path}: {error}") from error
            some = False
            for batch in reader:
                if batch.num_rows:
                    some = True
                    yield pa.Table.from_batches([batch])
            if not some:
                yield reader.schema.empty_table()


@dataclass
class Json(Format):
    """JSON: an object a line, or a list of objects."""

    lines: bool = False
    options: dict[str, object] = field(default_factory=dict)

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the table of a file."""
        from pyarrow import json as paj

        data = self._bytes(filesystem, path)
        begin = data.lstrip()[:1]
        if not begin:
            return
        # pyarrow reads lines of objects; it crashes where a line is a null
        if begin != b"{" or _NULL_LINE.search(data):
            yield _lines(data) if self.lines else _document(data)
            return
        try:
            yield paj.read_json(io.BytesIO(data), **self.options)
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                # Lines that pyarrow has no type for, or a single object over several lines.
                yield _document(data)
                return
            bigger = paj.ReadOptions(block_size=len(data) + 1)
            yield paj.read_json(io.BytesIO(data), read_options=bigger)


@dataclass
class Orc(Format):
    """Columns in stripes, of which one at a time is in memory."""

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the tables of a file, one for each stripe."""
        from pyarrow import orc

        with filesystem.open_input_file(path) as file:  # what it holds is told at its end
            found = orc.ORCFile(file)
            for number in range(found.nstripes):
                yield pa.Table.from_batches([found.read_stripe(number)])
            if not found.nstripes:
                yield found.schema.empty_table()


_NULL_LINE = re.compile(rb"^\s*null\s*$", re.MULTILINE)


def _document(data: bytes) -> pa.Table:
    """The rows of one object, of a list of rows, or of lines."""
    try:
        found = json.loads(data)
    except json.JSONDecodeError:
        return _lines(data)
    return block.from_rows(found if isinstance(found, list) else [found])


def _lines(data: bytes) -> pa.Table:
    """A row a line: the keys of an object are columns, so are the places in a list."""
    found = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError as error:
            shown = line[:80].decode("utf-8", "replace")
            raise ValueError(f"line {number} is not JSON, {error.msg}: {shown}") from None
    return block.from_rows([_row(value) for value in found])


def _row(value: Value) -> Row:
    if isinstance(value, dict):
        return value
    values = value if isinstance(value, list) else [value]
    return {str(place): one for place, one in enumerate(values)}


@dataclass
class Text(Format):
    """Lines."""

    encoding: str = "utf-8"
    drop_empty: bool = True

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the lines of a file, in pieces."""
        with (
            self._stream(filesystem, path) as stream,
            io.TextIOWrapper(stream, encoding=self.encoding) as lines,
        ):
            held: list[str] = []
            for line in lines:
                stripped = line.rstrip("\r\n")
                if self.drop_empty and not stripped.strip():
                    continue
                held.append(stripped)
                if len(held) >= ROWS_AT_ONCE:
                    yield pa.table({"text": pa.array(held, pa.string())})
                    held = []
            yield pa.table({"text": pa.array(held, pa.string())})


@dataclass
class Binary(Format):
    """The bytes of each file, a row."""

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield one row."""
        yield pa.table({"bytes": pa.array([self._bytes(filesystem, path)], pa.binary())})


@dataclass
class Numpy(Format):
    """``.npy`` files: the column "data"."""

    allow_pickle: bool = False
    options: dict[str, object] = field(default_factory=dict)

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the rows of a file."""
        data = io.BytesIO(self._bytes(filesystem, path))
        array = np.load(data, allow_pickle=self.allow_pickle, **self.options)
        yield pa.table({block.DATA: tensors.from_numpy(np.atleast_1d(array))})


@dataclass
class Images(Format):
    """Pictures as arrays: the column "image". ``size`` is (height, width)."""

    size: tuple[int, int] | None = None
    mode: str | None = None

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield one row."""
        pillow = required("PIL.Image", "Pictures")

        try:
            image = pillow.open(io.BytesIO(self._bytes(filesystem, path)))
            if self.size is not None:
                height, width = self.size
                image = image.resize((width, height), pillow.Resampling.BILINEAR)
            if self.mode is not None:
                image = image.convert(self.mode)
            array = np.array(image)
        except pillow.UnidentifiedImageError as error:
            raise ValueError(f"PIL couldn't load image file at path '{path}'.") from error
        yield pa.table({"image": tensors.from_numpy(array[None])})
