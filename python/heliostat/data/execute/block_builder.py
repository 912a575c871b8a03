"""Blocks of a good size, built from the output of a stage, with each array in one piece.

A function of small batches makes small tables. Copied behind each other while they are in the cache,
they cost little; left apart, the whole block would be copied again by everyone who reads it, since
arrays of batches are views only of columns in one piece. The builder lets each small table's memory be used
for the next one, too. Large tables, such as row groups of files, stay apart: copying them takes as long as
decoding them, and iterating goes from piece to piece.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from heliostat.data import block, tensors

FULL = 0.75  # part of the wanted size from which on a block is full
ROWS_MIN = 1024  # that a column of small tables has room for at first
APART_BYTES = 4 << 20  # a table of so many is not copied behind others
ROOM_BYTES_MAX = 256 << 20  # of which the unused part is address space only


class BlockBuilder:
    """Makes blocks of what one stage puts out, task after task in the same process."""

    def __init__(self, target: int | None) -> None:
        self._target = target
        self._rows = ROWS_MIN  # of the last block that was put together

    def blocks(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """The same rows in tables of about the target's bytes; at least one, which may be empty."""
        pile = _Pile(self._rows)
        some = False
        empty = None
        for table in tables:
            if not table.num_rows:
                empty = table if empty is None or not empty.num_columns else empty
                continue
            for piece in cut(table, self._target):
                pile.add(piece)
                if self._target is not None and pile.size >= self._target * FULL:
                    yield self._taken(pile)
                    pile, some = _Pile(self._rows), True
            del table, piece  # its memory is for the next one
        if pile.size or pile.rows:
            yield self._taken(pile)
        elif not some:
            yield pa.table({}) if empty is None else empty

    def _taken(self, pile: _Pile) -> pa.Table:
        if pile.is_joined:
            self._rows = max(ROWS_MIN, pile.rows)
        return pile.table()


def cut(table: pa.Table, target: int | None) -> Iterator[pa.Table]:
    """The table in pieces of about ``target`` bytes; None: as it is."""
    if target is None or table.nbytes <= target * 1.5:
        yield table
        return
    pieces = -(-table.nbytes // target)
    rows = max(1, -(-table.num_rows // pieces))
    for at in range(0, table.num_rows, rows):
        yield table.slice(at, rows)


class _Pile:
    """Tables that become one block. A single one stays as it is."""

    def __init__(self, capacity: int) -> None:
        self.size = 0  # bytes
        self.rows = 0
        self._capacity = capacity
        self._done: list[pa.Table] = []  # tables, the last of which is not in `_columns` yet
        self._columns: list[_Column] | None = None
        self._schema: pa.Schema | None = None  # of the tables in `_columns`
        self._is_apart = False  # the last table in `_done` stays as it is

    @property
    def is_joined(self) -> bool:
        """Whether columns of several tables were put together."""
        return self._columns is not None

    def add(self, table: pa.Table) -> None:
        """Put one more table behind the others."""
        size = table.nbytes
        self.size += size
        self.rows += table.num_rows
        if size >= APART_BYTES:
            self._flush()
            self._done.append(table)
            self._is_apart = True
            return
        if self._columns is not None and not table.schema.equals(self._schema):
            self._flush()
        if self._columns is None:
            is_first = self._is_apart or not self._done
            if is_first or not table.schema.equals(self._done[-1].schema):
                self._done.append(table)
                self._is_apart = False
                return
            first = self._done.pop()
            self._schema = table.schema
            self._columns = [_Column(f.type, self._capacity) for f in table.schema]
            self._append(first)
        self._append(table)

    def _append(self, table: pa.Table) -> None:
        assert self._columns is not None
        for made, column in zip(self._columns, table.columns, strict=True):
            made.add(column)

    def _flush(self) -> None:
        if self._columns is not None:
            columns = [column.made() for column in self._columns]
            self._done.append(pa.Table.from_arrays(columns, schema=self._schema))
            self._columns, self._is_apart = None, True

    def table(self) -> pa.Table:
        """All of them as one."""
        self._flush()
        return block.concat(self._done)


class _Column:
    """Pieces of a column: numbers are copied into one array, others only listed."""

    def __init__(self, kind: pa.DataType, capacity: int) -> None:
        self._kind, self._capacity = kind, capacity
        self._is_array = tensors.is_array(kind)
        self._pieces: list[pa.Array] = []
        self._array: np.ndarray = None  # until the first numbers come
        self._used = 0

    def add(self, column: pa.ChunkedArray) -> None:
        if not self._is_array or column.null_count:
            self._flush()
            self._pieces.extend(column.chunks)
            return
        for chunk in column.chunks:
            self._copy(tensors.to_numpy(chunk))

    def _copy(self, values: np.ndarray) -> None:
        wanted = self._used + len(values)
        if self._array is None or wanted > len(self._array):
            row_bytes = max(1, values.nbytes // max(1, len(values)))
            guess = min(self._capacity, ROOM_BYTES_MAX // row_bytes)
            room = max(guess, 2 * wanted if self._used else wanted)
            larger = np.empty((room, *values.shape[1:]), values.dtype)
            if self._used:
                larger[: self._used] = self._array[: self._used]
            self._array = larger
        self._array[self._used : wanted] = values
        self._used = wanted

    def _flush(self) -> None:
        if self._used:
            made = tensors.from_numpy(self._array[: self._used])
            if isinstance(self._kind, pa.BaseExtensionType):
                made = pa.ExtensionArray.from_storage(self._kind, made.storage)
            self._pieces.append(made)
            self._array, self._used = None, 0

    def made(self) -> pa.Array:
        """The column."""
        self._flush()
        return pa.chunked_array(self._pieces, self._kind)
