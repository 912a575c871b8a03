"""Formats of records that are read with packages of their own: Avro, TFRecord, WebDataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.data import block, tfrecords, webdataset
from heliostat.data.sources.formats import Format

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Row


@dataclass
class Avro(Format):
    """Records with a schema in the file."""

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the tables of a file, in pieces."""
        fastavro = required("fastavro", "Avro files")
        with self._stream(filesystem, path) as stream:
            try:
                found = fastavro.reader(stream)
            except OSError:
                raise
            except Exception as error:  # of several classes, by where the header breaks off
                raise ValueError(f"{path} cannot be read as an Avro file: {error}") from error
            yield from block.tables_of(found)


@dataclass
class TfRecords(Format):
    """Records that are each a ``tf.train.Example``."""

    kinds: dict[str, str] | None = None

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the tables of a file, in pieces."""
        with self._stream(filesystem, path) as stream:
            found = tfrecords.records(stream, path)
            while some := list(itertools.islice(found, block.ROWS_AT_ONCE)):
                yield tfrecords.to_table(some, self.kinds, path)


@dataclass
class WebDataset(Format):
    """Archives of files, of which those with the same name are a row."""

    decoder: object = True
    fileselect: webdataset.Patterns | None = None
    filerename: webdataset.Rename = None
    suffixes: webdataset.Patterns | None = None
    expand_json: bool = False

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the tables of an archive, in pieces."""
        with self._stream(filesystem, path) as stream:
            yield from block.tables_of(self._rows(stream, path))

    def _rows(self, stream: object, path: str) -> Iterator[Row]:
        chosen = (self.fileselect, self.filerename, self.suffixes)
        for sample in webdataset.samples(stream, path, *chosen):
            row = webdataset.applied(self.decoder, sample, webdataset.decoded)
            if self.expand_json:
                row = {**_object(row["json"]), **row}
            yield {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in row.items()}


def _object(value: Row | str | bytes) -> Row:
    import json

    found: Row = value if isinstance(value, dict) else json.loads(value)
    return found
