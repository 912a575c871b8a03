"""What each file format makes of a file: tables. These run in workers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from heliostat.data import block, tensors

ROWS_AT_ONCE = 4096  # images, lines and files that make up one table
PARQUET_ROWS_MAX = 131_072


@dataclass
class Format:
    """Reads one kind of file. ``open_args`` are those of ``FileSystem.open_input_stream``."""

    open_args: dict[str, Any] = field(default_factory=dict)

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield the tables of a file."""
        raise NotImplementedError

    def _bytes(self, filesystem: Any, path: str) -> bytes:
        with filesystem.open_input_stream(path, **self.open_args) as stream:
            data: bytes = stream.read()
        return data


@dataclass
class Parquet(Format):
    """Row groups, with columns and rows chosen while reading."""

    columns: list[str] | None = None
    filter: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield the tables of a file."""
        yield from self.fragment(filesystem, path, None)

    def fragment(self, filesystem: Any, path: str, row_groups: list[int] | None) -> Iterator[Any]:
        """Yield the tables of a file, or of some of its row groups."""
        import pyarrow.dataset as pads

        parquet = pads.ParquetFileFormat()
        fragment = parquet.make_fragment(path, filesystem, row_groups=row_groups)
        columns = self.columns
        if columns is not None:
            known = fragment.physical_schema.names
            columns = [c for c in columns if c in known]
        options = {"batch_size": PARQUET_ROWS_MAX, "use_threads": False, **self.options}
        batches = fragment.to_batches(columns=columns, filter=self.filter, **options)
        some = False
        for batch in batches:
            some = True
            yield pa.Table.from_batches([batch])
        if not some:
            schema = fragment.physical_schema
            yield (
                schema if columns is None else pa.schema([schema.field(c) for c in columns])
            ).empty_table()


@dataclass
class Csv(Format):
    """Comma-separated values, with a line of names."""

    options: dict[str, Any] = field(default_factory=dict)

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield the tables of a file, in pieces."""
        from pyarrow import csv

        with filesystem.open_input_stream(path, **self.open_args) as stream:
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
    """One object a line, or a list of objects."""

    lines: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield the table of a file."""
        from pyarrow import json as paj

        data = self._bytes(filesystem, path)
        if not data.strip():
            return
        if data.lstrip()[:1] == b"[" and not self.lines:
            yield _from_json(data)
            return
        try:
            yield paj.read_json(io.BytesIO(data), **self.options)
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                # Lines that pyarrow has no type for, or a single object over several lines.
                yield _from_json(data)
                return
            bigger = paj.ReadOptions(block_size=len(data) + 1)
            yield paj.read_json(io.BytesIO(data), read_options=bigger)


def _from_json(data: bytes) -> Any:
    import json

    try:
        found = json.loads(data)
        rows = found if isinstance(found, list) else [found]
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    return block.from_rows(rows)


@dataclass
class Text(Format):
    """Lines."""

    encoding: str = "utf-8"
    drop_empty: bool = True

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield the lines of a file, in pieces."""
        with (
            filesystem.open_input_stream(path, **self.open_args) as stream,
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

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield one row."""
        yield pa.table({"bytes": pa.array([self._bytes(filesystem, path)], pa.binary())})


@dataclass
class Numpy(Format):
    """``.npy`` files: the column "data"."""

    allow_pickle: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield the rows of a file."""
        data = io.BytesIO(self._bytes(filesystem, path))
        array = np.load(data, allow_pickle=self.allow_pickle, **self.options)
        yield pa.table({block.DATA: tensors.from_numpy(np.atleast_1d(array))})


@dataclass
class Images(Format):
    """Pictures as arrays: the column "image". ``size`` is (height, width)."""

    size: tuple[int, int] | None = None
    mode: str | None = None

    def read(self, filesystem: Any, path: str) -> Iterator[Any]:
        """Yield one row."""
        from PIL import Image, UnidentifiedImageError

        try:
            image: Any = Image.open(io.BytesIO(self._bytes(filesystem, path)))
            if self.size is not None:
                height, width = self.size
                image = image.resize((width, height), Image.Resampling.BILINEAR)
            if self.mode is not None:
                image = image.convert(self.mode)
            array = np.array(image)
        except UnidentifiedImageError as error:
            raise ValueError(f"PIL couldn't load image file at path '{path}'.") from error
        yield pa.table({"image": tensors.from_numpy(array[None])})
