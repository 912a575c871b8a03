"""The files of a dataset, and the tasks that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from heliostat.data import block
from heliostat.data.dataset import Dataset
from heliostat.data.plan.operators import Ordered, Read, ReadPart
from heliostat.data.sources import files as listing
from heliostat.data.sources import formats
from heliostat.data.sources.file_errors import readable
from heliostat.data.sources.memory import read_count
from heliostat.data.sources.partitioning import PathPartitionParser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from heliostat.data.aliases import RemoteArgs, Value


GROWTH = {"Parquet": 5.0, "Images": 8.0}  # bytes in memory for each byte of a file, about


@dataclass
class Source:
    """The options that all kinds of files share."""

    paths: str | list[str]
    filesystem: pa.fs.FileSystem | None = None
    extensions: list[str] | None = None
    ignore_missing: bool = False
    partitions: PathPartitionParser | None = None
    partition_filter: Callable[[list[str]], list[str]] | None = None
    include_paths: bool = False
    shuffle: Literal["files"] | listing.FileShuffleConfig | None = None
    blocks: int | None = None

    def files(self) -> tuple[list[listing.File], pa.fs.FileSystem]:
        """The files to read, and their filesystem."""
        keep = None
        if self.partition_filter is not None:
            chosen = self.partition_filter

            def keep(path: str) -> bool:
                return bool(chosen([path]))

        return listing.find(self.paths, self.filesystem, self.extensions, self.ignore_missing, keep)


class ReadFiles:
    """Reads some files in a task."""

    def __init__(
        self,
        source: Source,
        form: formats.Format,
        filesystem: pa.fs.FileSystem,
        parts: Sequence[Any],
    ) -> None:
        self._source, self._form, self._filesystem = source, form, filesystem
        self._parts = parts  # paths, or what the format knows of parts of files

    def __call__(self) -> Iterator[pa.Table]:
        small: list[pa.Table] = []
        for part in self._parts:
            path = part if isinstance(part, str) else part.path
            for table in readable(self._form.read(self._filesystem, part), path):
                made = self._with_columns(table, path)
                if made.num_rows > 1:
                    if small:  # rows come in the order of the files
                        yield block.concat(small)
                        small = []
                    yield made
                    continue
                small.append(made)  # files of one row: images, binary files
                if len(small) >= 64:
                    yield block.concat(small)
                    small = []
        if small:
            yield block.concat(small)

    def _with_columns(self, table: pa.Table, path: str) -> pa.Table:
        partitions = self._source.partitions
        keeps = self._form.keeps
        for name, value in (partitions(path) if partitions else {}).items():
            if name in table.column_names:
                table = _agreed(table, name, value, path)
            elif keeps(name):
                column = pa.repeat(self._form.of_folder(name, value), table.num_rows)
                table = table.append_column(name, column)
        if self._source.include_paths and keeps("path"):
            table = table.append_column("path", pa.repeat(pa.scalar(path), table.num_rows))
        return table


def _agreed(table: pa.Table, name: str, value: Value, path: str) -> pa.Table:
    """The table of a file that has a column of its folder's name, too.

    Raises:
        ValueError: They differ.
    """
    column = table.column(name)
    try:
        of_folder = pa.scalar(value).cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        of_folder = None
    if of_folder is None or not all(one == of_folder for one in column.unique()):
        there = column.unique().to_pylist()[:5]
        raise ValueError(
            f"The folder of {path} says {name}={value}, and the file's own column {name!r} has {there}: "
            "remove one of them, or pass partitioning=None."
        )
    return table


@dataclass
class FileReads(Ordered):
    """The tasks that read some files, cut when the dataset is executed."""

    source: Source
    form: formats.Format
    filesystem: pa.fs.FileSystem
    found: list[listing.File]
    growth: float = 1.0
    execution: int = field(default=0, kw_only=True)

    def of_execution(self, number: int) -> FileReads:
        """The tasks of an execution, which may read the files in another order than the one before."""
        shuffle = self.source.shuffle
        return self if not shuffle or shuffle == "files" else replace(self, execution=number)

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        return int(sum(f.size for f in self.found) * self.growth)

    def paths(self) -> list[str]:
        """The files."""
        return [f.path for f in self.found]

    def __call__(self) -> list[ReadPart]:
        """The tasks."""
        ordered = listing.in_order(self.found, self.source.shuffle, self.execution)
        if not ordered:
            return []
        count = read_count(len(ordered), self.size / len(ordered), self.source.blocks)
        return [self._part(group) for group in listing.grouped(ordered, min(count, len(ordered)))]

    def _part(self, group: list[listing.File]) -> ReadPart:
        paths = [f.path for f in group]
        size = int(sum(f.size for f in group) * self.growth)
        return ReadPart(ReadFiles(self.source, self.form, self.filesystem, paths), -1, size, paths)


def dataset(
    label: str,
    source: Source,
    form: formats.Format,
    remote_args: RemoteArgs,
    concurrency: int | None,
) -> Dataset:
    """A dataset of files; they are listed now, so that a missing one is told at once."""
    found, filesystem = source.files()
    reads = FileReads(source, form, filesystem, found, GROWTH.get(label, 1.0))
    return Dataset(
        Read(label, reads, remote_args=remote_args, concurrency=concurrency, files=reads.paths)
    )
