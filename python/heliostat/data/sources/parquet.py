"""Parquet files: what their footers say, and tasks that read some row groups of a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.data.dataset import Dataset
from heliostat.data.expressions.expr import Expr
from heliostat.data.missing import no_columns
from heliostat.data.plan.operators import Pushable, Read, ReadPart
from heliostat.data.retries import retried
from heliostat.data.sources import files as listing
from heliostat.data.sources import parquet_files
from heliostat.data.sources.evolution import merged
from heliostat.data.sources.file_errors import unreadable
from heliostat.data.sources.file_reads import GROWTH, FileReads, ReadFiles, Source
from heliostat.data.sources.memory import cpus, read_count
from heliostat.data.sources.parquet_files import Parquet, Piece, columns_bytes, leaves_of

if TYPE_CHECKING:
    from heliostat.data.aliases import Row


ROWS_OF_A_TASK_MIN = 50_000  # where a row group is read in several tasks
PIECE_BYTES_MIN = (
    8 << 20
)  # that a task reads of a file which is cut, unless there are too few tasks
TASK_BYTES = 32 << 20  # of columns that a task reads of several files
TASKS_OF_A_CPU = 2  # so many there are at least, if files are joined
FOOTERS_MAX = 64  # files whose footers the driver reads, one after the other


@dataclass
class ParquetReads(FileReads, Pushable):
    """Tasks of files or, where there are fewer files than tasks, of row groups."""

    form: Parquet
    footers: dict[str, pa.parquet.FileMetaData] = field(
        default_factory=dict
    )  # by path; read where they are needed
    limit: int | None = None  # rows
    left_out: int = 0  # files, as a condition on the names of their folders excludes them
    # By path: bytes of the columns that the program chose, of each row group.
    _sizes: dict[str, list[int]] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "footers": {}, "_sizes": {}}

    def footer(self, path: str) -> pa.parquet.FileMetaData:
        """A file's ``FileMetaData``."""
        import pyarrow.parquet as pq

        def read() -> pa.parquet.FileMetaData:
            with self.filesystem.open_input_file(path) as file:
                return pq.read_metadata(file)

        if path not in self.footers:
            try:
                self.footers[path] = retried(read, "the reading of a footer")
            except Exception as error:
                raise unreadable(error, path) from error
        return self.footers[path]

    @property
    def knows_footers(self) -> bool:
        """Whether the files are few enough for all their footers to be read here."""
        return len(self.found) <= FOOTERS_MAX

    # --- what the plan tells it ---

    def with_filter(self, condition: Expr) -> ParquetReads | None:
        """The same without the rows that do not meet a condition on columns of the files.

        Without whole files, where it is on columns of their folders' names.
        """
        read = condition.columns()
        if not read or not self.found or self.limit is not None:
            return None
        there = set(self._physical())
        if self.knows_footers:  # a column of a file goes before the one of its folder's name
            there.update(*(self.footer(f.path).schema.to_arrow_schema().names for f in self.found))
        there -= set(self.form.in_folders)
        if not read & there and read <= set(_partitions(self)):
            return self._in_folders(condition)
        if not read <= set(self._physical()):
            return None
        return replace(self, form=replace(self.form, conditions=(*self.form.conditions, condition)))

    def _in_folders(self, condition: Expr) -> ParquetReads | None:
        """The files in folders whose names meet the condition; None: there is none, or it fails."""
        partitions = self.source.partitions
        assert partitions is not None

        def is_met(path: str) -> bool:
            values = {
                name: pa.repeat(self.form.of_folder(name, value), 1)
                for name, value in partitions(path).items()
            }
            return bool(condition.mask(pa.table(values))[0].as_py())

        try:
            kept = [file for file in self.found if is_met(file.path)]
        except (pa.ArrowException, KeyError):  # the tasks will say so
            return None
        return (
            replace(self, found=kept, left_out=self.left_out + len(self.found) - len(kept))
            if kept
            else None
        )

    def with_limit(self, rows: int) -> ParquetReads | None:
        """Only the first rows, where the footers say which these are."""
        if not self.knows_footers or self.form.chooses_rows:
            return None
        return replace(self, limit=rows if self.limit is None else min(rows, self.limit))

    def with_columns(self, needed: frozenset[str]) -> ParquetReads:
        """Only these columns of the files, of their folders' names, and "path"."""
        return replace(self, form=replace(self.form, needed=needed))

    def for_rows(self) -> ParquetReads:
        """The same with text as dictionaries, unless columns have to be cast or compared with folders."""
        if self.form.merged is not None or _partitions(self):
            return self
        return replace(self, form=replace(self.form, for_rows=True))

    def pushed(self) -> str:
        """Return the pushed-down parts, in words."""
        form, said = self.form, []
        if self.left_out:
            said.append(f"files={len(self.found)} of {len(self.found) + self.left_out}")
        if form.needed is not None:
            there = _schema(self, form).names if self.found else ()
            said.append(f"columns=[{', '.join(sorted(form.needed & set(there)))}]")
        if form.conditions:
            said.append(f"filter={' & '.join(c.text() for c in form.conditions)}")
        if self.limit is not None:
            said.append(f"limit={self.limit}")
        return f"[{', '.join(said)}]" if said else ""

    def counted(self) -> tuple[int, ParquetReads | None]:
        """The rows whose number is certain by their statistics, and the tasks that count the others."""
        if not self.knows_footers or self.form.filter is not None or self.limit is not None:
            return 0, self
        sure, left = 0, []
        for file in self.found:
            groups = []
            for group, ranges in parquet_files.ranges(self.footer(file.path), self.form.conditions):
                if self.form.surely_meet(ranges):
                    sure += ranges.rows
                elif self.form.may_meet(ranges):
                    groups.append(group)
            if groups:
                left.append(Piece(file.path, tuple(groups)))
        return sure, replace(self, only=tuple(left)) if left else None

    only: tuple[Piece, ...] | None = None  # parts of the files; None: all of them

    # --- the tasks ---

    def __call__(self) -> list[ReadPart]:
        """The tasks."""
        ordered = listing.in_order(self.found, self.source.shuffle, self.execution)
        if not ordered:
            return []
        sizes = {f.path: f.size for f in ordered}
        have = cpus()
        count = read_count(len(ordered), self.size / len(ordered), self.source.blocks, have)
        if self.only is not None:
            groups = [[piece] for piece in self.only]
        elif self.limit is not None:
            groups = [[piece] for piece in _shared_out(list(self._first(ordered)), have)]
        elif count <= len(ordered):
            groups = [[Piece(f.path) for f in g] for g in listing.grouped(ordered, count)]
        else:
            groups = [[piece] for piece in self._row_groups(ordered, count, have)]
        if self.only is None and self.limit is None and not self.source.blocks:
            groups = self._joined(groups, TASKS_OF_A_CPU * have)
        if self.form.conditions and self.knows_footers:
            kept = [[piece for piece in group if self._may_meet(piece)] for group in groups]
            # One that gives no rows gives their types.
            groups = [group for group in kept if group] or [[Piece(ordered[0].path, ())]]
        return [self._share(group, len(groups), sizes) for group in groups]

    def _share(self, group: list[Piece], groups: int, sizes: dict[str, int]) -> ReadPart:
        paths = [piece.path for piece in group]
        share = sum(sizes[p] for p in paths) * self.growth * groups
        read = ReadFiles(self.source, self.form, self.filesystem, group)
        return ReadPart(read, -1, int(min(self.size / groups, share)), paths)

    def _row_groups(self, files: list[listing.File], count: int, cpu_count: int) -> Iterator[Piece]:
        """Files cut at row groups, into about ``count`` pieces; fewer where these would be small."""
        total = sum(max(1, f.size) for f in files)
        least = 0 if self.source.blocks else min(PIECE_BYTES_MIN, self.size // (2 * cpu_count))
        for file in files:
            pieces = max(1, round(count * max(1, file.size) / total))
            if pieces == 1:
                yield Piece(file.path)
                continue
            groups = self.footer(file.path).num_row_groups
            pieces = max(1, min(pieces, groups))
            several = [
                range(i * groups // pieces, (i + 1) * groups // pieces) for i in range(pieces)
            ]
            large = list(self._large(file.path, several, least))
            for some in large:
                yield Piece(file.path, tuple(some) if len(large) > 1 else None)

    def _joined(self, groups: list[list[Piece]], least: int) -> list[list[Piece]]:
        """The parts, with neighbours in one task where there are many of few bytes; ``least`` parts stay.

        A task takes some milliseconds of several processes beside its reading. What counts is the columns
        that the program chose, not those that its plan needs: samples are drawn by the numbers of tasks.
        """
        if len(groups) <= least or not self.knows_footers:
            return groups
        sizes = [sum(map(self._bytes, group)) for group in groups]
        count = max(least, -(-sum(sizes) // TASK_BYTES))
        if count >= len(groups):
            return groups
        joined: list[list[Piece]] = []
        done = 0
        for group, size in zip(groups, sizes, strict=True):
            if not joined or done * count >= len(joined) * sum(sizes):
                joined.append([])
            joined[-1] += group
            done += size
        return joined

    def _bytes(self, piece: Piece) -> int:
        sizes = self._group_sizes(piece.path)
        return sum(sizes if piece.row_groups is None else (sizes[n] for n in piece.row_groups))

    def _group_sizes(self, path: str) -> list[int]:
        """Bytes of each row group of a file, of the columns that the program chose."""
        if path not in self._sizes:
            footer = self.footer(path)
            names = self.form.chosen(footer.schema.to_arrow_schema()).names
            leaves = leaves_of(footer, names)
            groups = (footer.row_group(number) for number in range(footer.num_row_groups))
            self._sizes[path] = [
                max(columns_bytes(group, leaves), 8 * group.num_rows * len(names))
                for group in groups
            ]
        return self._sizes[path]

    def _large(self, path: str, several: list[range], least: int) -> Iterator[range]:
        """Neighbouring ranges of row groups, joined until each has ``least`` bytes of the columns."""
        sizes = self._group_sizes(path)

        def size(groups: range) -> int:
            return sum(sizes[groups.start : groups.stop])

        left = sum(map(size, several))
        begin, have = 0, 0
        for some in several:
            have += size(some)
            left -= size(some)
            if have >= least and (left >= least or not left):
                yield range(begin, some.stop)
                begin, have = some.stop, 0
        if begin < several[-1].stop:
            yield range(begin, several[-1].stop)

    def _first(self, files: list[listing.File]) -> Iterator[Piece]:
        """The row groups that have the first rows."""
        assert self.limit is not None
        left = self.limit
        for i, file in enumerate(files):
            footer = self.footer(file.path)
            for group in range(footer.num_row_groups):
                if left <= 0:
                    return
                rows = min(left, footer.row_group(group).num_rows)
                left -= rows
                yield Piece(file.path, (group,), rows)
            if i == 0 and (not footer.num_row_groups or self.limit == 0):
                yield Piece(file.path, ())  # it gives no rows, but their types

    def _may_meet(self, piece: Piece) -> bool:
        several = parquet_files.ranges(self.footer(piece.path), self.form.conditions)
        wanted = piece.row_groups
        return any(
            self.form.may_meet(found)
            for group, found in several
            if wanted is None or group in wanted
        )

    def _physical(self) -> list[str]:
        """The columns of all files themselves, or of the first one where they are not known."""
        if self.form.merged is not None:
            return list(self.form.merged.names)
        names = self.form.chosen(self.footer(self.found[0].path).schema.to_arrow_schema()).names
        return list(names)


def _shared_out(pieces: list[Piece], count: int) -> Iterator[Piece]:
    """The pieces, cut at rows where they are fewer than ``count`` and have many rows.

    A row group is then decoded in each of its tasks, which costs little beside what follows a limit.
    """
    total = max(1, sum(piece.rows or 0 for piece in pieces))
    for piece in pieces:
        rows = piece.rows or 0
        parts = max(1, min(-(-count * rows // total), rows // ROWS_OF_A_TASK_MIN))
        ends = [rows * (i + 1) // parts for i in range(parts)]
        for begin, end in zip([0, *ends], ends):  # noqa: B905 # one longer
            yield replace(piece, start=begin, rows=end - begin)


def parquet(
    source: Source, form: Parquet, remote_args: dict[str, object], concurrency: int | None
) -> Dataset:
    """A dataset of Parquet files.

    Raises:
        ValueError: No file has one of the columns.
        pyarrow.ArrowTypeError: A column has types in two files that have none in common.
    """
    found, filesystem = source.files()
    reads = ParquetReads(source, form, filesystem, found, GROWTH["Parquet"])
    form = replace(form, in_folders=_in_folders(reads))
    reads = replace(reads, form=form)
    rows = _checked_rows(reads, form) if reads.knows_footers else None
    if reads.knows_footers and found:
        several = (
            (f.path, form.chosen(reads.footer(f.path).schema.to_arrow_schema())) for f in found
        )
        form = replace(form, merged=merged(several))
        reads = replace(reads, form=form)
    schema = _schema(reads, form) if found else None
    made = Dataset(
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
    wanted = form.columns
    if wanted is None or schema is None:
        return made
    if source.include_paths and "path" not in wanted:
        wanted = [*wanted, "path"]
    # The columns of other files' folders are not known from the first file alone.
    is_sure = schema.names == wanted and not _has_folders(reads)
    return made if is_sure else made.select_columns(wanted)


def _in_folders(reads: ParquetReads) -> dict[str, pa.DataType]:
    """The columns of files that their folders' names give, too, with their types in the files."""
    kinds: dict[str, pa.DataType] = {}
    partitions = reads.source.partitions
    if partitions is None:
        return {}
    for file in reads.found if reads.knows_footers else reads.found[:1]:
        names = partitions(file.path)
        if not names:
            continue
        schema = reads.footer(file.path).schema.to_arrow_schema()
        for name in names:
            if name in schema.names:
                kinds.setdefault(name, schema.field(name).type)
    return kinds


def _has_folders(reads: ParquetReads) -> bool:
    """Whether the folders of some file give columns."""
    partitions = reads.source.partitions
    return partitions is not None and any(partitions(file.path) for file in reads.found)


def _partitions(reads: ParquetReads) -> Row:
    partitions = reads.source.partitions
    return partitions(reads.found[0].path) if partitions and reads.found else {}


def _schema(reads: ParquetReads, form: Parquet) -> pa.Schema:
    """The schema of all files, or as far as the first one says it."""
    first = form.chosen(reads.footer(reads.found[0].path).schema.to_arrow_schema())
    chosen = first if form.merged is None else form.merged
    for name, value in _partitions(reads).items():
        if name not in chosen.names:
            chosen = chosen.append(pa.field(name, form.of_folder(name, value).type))
    return chosen.append(pa.field("path", pa.string())) if reads.source.include_paths else chosen


def _checked_rows(reads: ParquetReads, form: Parquet) -> int | None:
    """The number of rows, None if a filter decides; refuses columns that no file has."""
    footers = [reads.footer(f.path) for f in reads.found]
    there = {name for f in footers for name in f.schema.to_arrow_schema().names}
    there |= {*_partitions(reads), *(["path"] if reads.source.include_paths else [])}
    missing = [c for c in form.columns or () if c not in there]
    if missing and footers:
        raise ValueError(f"read_parquet: {no_columns(missing, sorted(there))}")
    return None if form.filter is not None else sum(f.num_rows for f in footers)
