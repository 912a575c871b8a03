"""Parquet files: what their footers say, and tasks that read some row groups of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from heliostat.data.dataset import Dataset
from heliostat.data.missing import no_columns
from heliostat.data.plan.operators import Read, ReadPart
from heliostat.data.sources import files as listing
from heliostat.data.sources import formats
from heliostat.data.sources.file_reads import GROWTH, FileReads, ReadFiles, Source
from heliostat.data.sources.memory import read_count

FOOTERS_MAX = 64  # files whose footers the driver reads, one after the other


@dataclass
class ParquetReads(FileReads):
    """Tasks of files or, where there are fewer files than tasks, of row groups."""

    footers: dict[str, Any] = field(default_factory=dict)  # by path; read where they are needed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "footers": {}}

    def footer(self, path: str) -> Any:
        """A file's ``FileMetaData``."""
        import pyarrow.parquet as pq

        if path not in self.footers:
            with self.filesystem.open_input_file(path) as file:
                self.footers[path] = pq.read_metadata(file)
        return self.footers[path]

    def __call__(self) -> list[ReadPart]:
        """The tasks."""
        ordered = listing.in_order(self.found, self.source.shuffle)
        if not ordered:
            return []
        count = read_count(len(ordered), self.size / len(ordered), self.source.blocks)
        if count <= len(ordered):
            groups: list[list[Any]] = [[f.path for f in g] for g in listing.grouped(ordered, count)]
        else:
            groups = [[piece] for piece in self._row_groups(ordered, count)]
        sizes = {f.path: f.size for f in ordered}
        return [self._share(group, len(groups), sizes) for group in groups]

    def _share(self, group: list[Any], groups: int, sizes: dict[str, int]) -> ReadPart:
        paths = [p[0] if isinstance(p, tuple) else p for p in group]
        share = sum(sizes[p] for p in paths) * self.growth * groups
        read = ReadFiles(self.source, self.form, self.filesystem, group)
        return ReadPart(read, -1, int(min(self.size / groups, share)), paths)

    def _row_groups(
        self, files: list[listing.File], count: int
    ) -> Iterator[tuple[str, list[int] | None]]:
        """Files cut at row groups, into about ``count`` pieces."""
        total = sum(max(1, f.size) for f in files)
        for file in files:
            pieces = max(1, round(count * max(1, file.size) / total))
            groups = self.footer(file.path).num_row_groups if pieces > 1 else 1
            pieces = min(pieces, groups)
            if pieces == 1:
                yield file.path, None
                continue
            for i in range(pieces):
                yield file.path, list(range(i * groups // pieces, (i + 1) * groups // pieces))


def parquet(
    source: Source, form: formats.Parquet, remote_args: dict[str, Any], concurrency: int | None
) -> Dataset:
    """A dataset of Parquet files.

    Raises:
        ValueError: No file has one of the columns.
    """
    found, filesystem = source.files()
    reads = ParquetReads(source, form, filesystem, found, GROWTH["Parquet"])
    rows = _checked_rows(reads, form) if len(found) <= FOOTERS_MAX else None
    schema = _schema(reads, form) if found else None
    return Dataset(
        Read(
            "Parquet",
            reads,
            rows,
            schema,
            remote_args=remote_args,
            concurrency=concurrency,
            files=reads.paths,
        )
    )


def _partitions(reads: ParquetReads) -> dict[str, Any]:
    partitions = reads.source.partitions
    return partitions(reads.found[0].path) if partitions and reads.found else {}


def _schema(reads: ParquetReads, form: formats.Parquet) -> Any:
    """The schema, as far as the first file says it."""
    chosen = form.chosen(reads.footer(reads.found[0].path).schema.to_arrow_schema())
    for name, value in _partitions(reads).items():
        if name not in chosen.names:
            chosen = chosen.append(pa.field(name, pa.scalar(value).type))
    return chosen.append(pa.field("path", pa.string())) if reads.source.include_paths else chosen


def _checked_rows(reads: ParquetReads, form: formats.Parquet) -> int | None:
    """The number of rows, None if a filter decides; refuses columns that no file has."""
    footers = [reads.footer(f.path) for f in reads.found]
    there = {name for f in footers for name in f.schema.to_arrow_schema().names}
    there |= set(_partitions(reads))
    missing = [c for c in form.columns or () if c not in there]
    if missing and footers:
        raise ValueError(f"read_parquet: {no_columns(missing, sorted(there))}")
    return None if form.filter is not None else sum(f.num_rows for f in footers)
