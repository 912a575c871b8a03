"""Reading of a Parquet file by a task: the columns and row groups that are needed, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import block
from heliostat.data.expressions.expr import Expr
from heliostat.data.plan import statistics, task
from heliostat.data.plan.statistics import Range
from heliostat.data.sources import parquet_polars
from heliostat.data.sources.evolution import conformed
from heliostat.data.sources.formats import Format
from heliostat.data.sources.parquet_texts import Texts

ROWS_MAX = 131_072  # of a table, where a row group is large
GROUP_BYTES_MAX = 32 << 20  # of a row group's columns that are read at once
LOCAL_BUFFER_BYTES = 128 << 10


@dataclass(frozen=True)
class Piece:
    """A part of a file: some row groups (None: all), of them some rows (None: all) from ``start`` on."""

    path: str
    row_groups: tuple[int, ...] | None = None
    rows: int | None = None
    start: int = 0


class Ranges(Mapping[str, Range]):
    """The statistics of a row group's columns."""

    def __init__(self, rows: int, found: dict[str, Range]) -> None:
        self.rows, self._found = rows, found

    def __getitem__(self, name: str) -> Range:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@dataclass
class Parquet(Format):
    """Row groups, with columns and rows chosen while reading."""

    columns: list[str] | None = None
    filter: pc.Expression = None  # a `pyarrow.dataset` expression of the user's
    options: dict[str, object] = field(default_factory=dict)  # of pyarrow's scanner
    needed: frozenset[str] | None = None  # the columns that the plan needs; None: all
    conditions: tuple[Expr, ...] = ()  # that the plan wants rows to meet, one after the other
    merged: pa.Schema | None = None  # the schema of all files, where theirs differ
    # Columns of the files that their folders' names give, too, with their types: the folders' count.
    in_folders: dict[str, pa.DataType] = field(default_factory=dict)
    # Whether the tables go to a function of rows only, which reads dictionaries faster.
    for_rows: bool = False

    @property
    def chooses_rows(self) -> bool:
        """Whether it leaves out rows."""
        return self.filter is not None or bool(self.conditions)

    def keeps(self, name: str) -> bool:
        """Whether the plan needs a column."""
        return self.needed is None or name in self.needed

    def chosen(self, schema: pa.Schema) -> pa.Schema:
        """The part of a file's schema that the dataset has of the file."""
        names = schema.names if self.columns is None else self.columns
        taken = [c for c in names if c in schema.names and c not in self.in_folders]
        if taken == schema.names:
            return schema
        return pa.schema([schema.field(c) for c in taken])

    def of_folder(self, name: str, value: object) -> pa.Scalar:
        """The value that a folder's name gives to a column, of the type that the files have."""
        kind = self.in_folders.get(name)
        return pa.scalar(value) if kind is None else pa.scalar(value).cast(kind)

    def may_meet(self, ranges: Ranges) -> bool:
        """Whether rows may meet the conditions."""
        return all(statistics.may_hold(c, ranges) for c in self.conditions)

    def surely_meet(self, ranges: Ranges) -> bool:
        """Whether all rows meet the conditions."""
        return all(statistics.surely_holds(c, ranges) for c in self.conditions)

    # --- reading ---

    def read(self, filesystem: pa.fs.FileSystem, path: str | Piece) -> Iterator[pa.Table]:
        """Yield the tables of a file, or of a `Piece` of it."""
        piece = path if isinstance(path, Piece) else Piece(path)
        read = self._scanned if self.filter is not None or self.options else self._read
        made = read if self.merged is None else partial(self._conformed, read)
        if piece.rows is None:
            yield from made(filesystem, piece)
            return
        skip, left = piece.start, piece.rows
        for table in made(filesystem, piece):
            part = table.slice(min(skip, table.num_rows), left)
            skip -= min(skip, table.num_rows)
            left -= part.num_rows
            if part.num_rows or not piece.rows:
                yield part
            if not left:
                return

    def _conformed(
        self,
        read: Callable[[pa.fs.FileSystem, Piece], Iterator[pa.Table]],
        filesystem: pa.fs.FileSystem,
        piece: Piece,
    ) -> Iterator[pa.Table]:
        """The tables with the columns of all files, in their order."""
        assert self.merged is not None
        names = [n for n in self.merged.names if self.keeps(n)]
        for table in read(filesystem, piece):
            yield conformed(table, self.merged, names).select(names or table.column_names)

    def _scanned(self, filesystem: pa.fs.FileSystem, piece: Piece) -> Iterator[pa.Table]:
        """The tables as pyarrow's scanner gives them, with the options and the filter that it takes."""
        import pyarrow.dataset as pads

        fragment = pads.ParquetFileFormat().make_fragment(piece.path, filesystem)
        if (
            piece.row_groups is not None
        ):  # make_fragment takes them as a set, and reads in its order
            fragment = fragment.subset(row_group_ids=list(piece.row_groups))
        schema = self.chosen(fragment.physical_schema)
        names = self._names(schema)
        read = self._with_conditions(names)
        options = {"batch_size": ROWS_MAX, "use_threads": False, **self.options}
        some = False
        for batch in fragment.to_batches(columns=read, filter=self.filter, **options):
            some = True
            yield self._met(pa.Table.from_batches([batch])).select(names)
        if not some:
            yield schema.empty_table().select(names)

    def _names(self, schema: pa.Schema) -> list[str]:
        """The columns to give: those that are needed, or one, as a table of none loses its rows."""
        names = [n for n in schema.names if self.keeps(n)]
        task.leave_out(n for n in schema.names if not self.keeps(n))
        asked = self._asked()
        return names or [n for n in schema.names if n in asked][:1] or schema.names[:1]

    def _with_conditions(self, names: list[str]) -> list[str]:
        return [*names, *sorted(self._asked() - set(names))]

    def _met(self, table: pa.Table) -> pa.Table:
        """The rows that meet the conditions."""
        if self.merged is not None:
            table = conformed(table, self.merged, self._asked())
        for condition in self.conditions:
            mask = condition.mask(table)
            if not pc.all(mask).as_py():
                table = table.filter(mask)
        return table

    def _asked(self) -> set[str]:
        """The columns of the conditions."""
        return {n for c in self.conditions for n in c.columns() or ()}

    def _read(self, filesystem: pa.fs.FileSystem, piece: Piece) -> Iterator[pa.Table]:
        """The tables of each row group, those of the conditions' columns first."""
        import pyarrow.fs as pafs
        import pyarrow.parquet as pq

        is_local = isinstance(filesystem, pafs.LocalFileSystem)
        with filesystem.open_input_file(piece.path) as stream:
            # A piece at a time stays in the processor's cache from the kernel's copy to the decoder's.
            buffered = LOCAL_BUFFER_BYTES if is_local else 0
            file = pq.ParquetFile(stream, pre_buffer=not is_local, buffer_size=buffered)
            schema = self.chosen(file.schema_arrow)
            names = self._names(schema)
            texts = Texts(file, stream, buffered)
            some = False
            for group, found in ranges(file.metadata, self.conditions):
                if piece.row_groups is not None and group not in piece.row_groups:
                    continue
                if not found.rows or not self.may_meet(found):
                    continue
                is_sure = self.conditions and self.surely_meet(found)
                form = replace(self, conditions=()) if is_sure else self
                for table in form._group(file, texts, group, names, piece):
                    some = True
                    yield table
            if not some:
                yield schema.empty_table().select(names)

    def _group(
        self,
        file: pa.parquet.ParquetFile,
        texts: Texts,
        group: int,
        names: list[str],
        piece: Piece,
    ) -> Iterator[pa.Table]:
        about = file.metadata.row_group(group)
        read = self._with_conditions(names)
        most = ROWS_MAX
        if piece.rows is not None and piece.start + piece.rows < about.num_rows:
            most = min(most, max(1, piece.start + piece.rows))
        if not read:
            yield block.no_columns(about.num_rows)
        elif (
            most < ROWS_MAX
            or columns_bytes(about, leaves_of(file.metadata, read)) > GROUP_BYTES_MAX
        ):
            batches = file.iter_batches(most, [group], read, use_threads=False)
            for batch in batches:
                yield self._met(pa.Table.from_batches([batch])).select(names)
        elif not self.conditions:
            yield texts.read(group, names, as_dictionaries=self.for_rows).select(names)
        else:
            path = piece.path if texts.is_local else ""
            yield from self._late(path, file, texts, group, names)

    def _late(
        self, path: str, file: pa.parquet.ParquetFile, texts: Texts, group: int, names: list[str]
    ) -> Iterator[pa.Table]:
        """A row group: first the columns of the conditions, then the others if some row meets them."""
        read = self._with_conditions(names)
        if path and self.merged is None:
            made = parquet_polars.met(path, file, group, read, self.conditions)
            if made is not None:
                table = self._met(made).select(names)
                if table.num_rows:
                    yield table
                return
        there = set(file.schema_arrow.names)  # of what lacks, the condition tells
        asked_of_all = self._asked()
        asked = sorted(asked_of_all & there)
        first = texts.read(group, asked).select(asked)
        table = first if self.merged is None else conformed(first, self.merged, asked_of_all)
        rows: pa.Array | None = None  # the numbers of those that are left
        for condition in self.conditions:
            mask = condition.mask(table if rows is None else table.take(rows))
            met = pa.array(np.flatnonzero(np.asarray(mask)))
            rows = met if rows is None else rows.take(met)
        if rows is None or not len(rows):
            return
        if len(rows) == table.num_rows:
            rows = None
        rest = [n for n in names if n not in asked]
        others = texts.read(group, rest, rows=rows) if rest else None
        if others is None:
            yield table.select(names) if rows is None else table.select(names).take(rows)
            return
        for name in (n for n in names if n in asked):
            column = table.column(name) if rows is None else table.column(name).take(rows)
            others = others.append_column(table.schema.field(name), column)
        yield others.select(names)


def leaves_of(footer: pa.parquet.FileMetaData, names: list[str]) -> list[int]:
    """The numbers of the columns as the file has them: a struct is several."""
    wanted, schema = set(names), footer.schema
    numbers = range(footer.num_columns)
    return [i for i in numbers if schema.column(i).path.split(".", 1)[0] in wanted]


def columns_bytes(group: pa.parquet.RowGroupMetaData, leaves: list[int]) -> int:
    """Bytes of a row group's columns, by their numbers, as their encodings have them."""
    return sum(group.column(i).total_uncompressed_size for i in leaves)


def ranges(
    footer: pa.parquet.FileMetaData, conditions: tuple[Expr, ...]
) -> Iterator[tuple[int, Ranges]]:
    """Each row group's number and the statistics of the columns that the conditions ask for."""
    read = {n for c in conditions for n in c.columns() or ()}
    places = {}
    if read:
        schema = footer.schema
        names = [schema.column(i).path for i in range(len(schema))]
        kinds = schema.to_arrow_schema()
        places = {n: names.index(n) for n in read if n in names and _has_order(kinds.field(n).type)}
    for group in range(footer.num_row_groups):
        about = footer.row_group(group)
        found = {n: _range(about.column(i), about.num_rows) for n, i in places.items()}
        yield group, Ranges(about.num_rows, found)


def _has_order(kind: pa.DataType) -> bool:
    """Whether statistics of the type are in the order in which its values are compared."""
    tests = (pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_string)
    others = (pa.types.is_large_string, pa.types.is_date32, pa.types.is_timestamp)
    return any(test(kind) for test in (*tests, *others)) and kind != pa.float16()


def _range(column: pa.parquet.ColumnChunkMetaData, rows: int) -> Range:
    found = column.statistics if column.is_stats_set else None
    if found is None:
        return Range(rows)
    nulls = found.null_count if found.has_null_count else None
    if not found.has_min_max:
        return Range(rows, nulls)
    return Range(rows, nulls, found.min, found.max)
