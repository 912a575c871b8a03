"""Blocks cut into batches, shuffled within a window if wanted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from heliostat.data import block, checks
from heliostat.data.plan.transforms import rebatched

PIECE_BYTES_MIN = 1 << 20  # on average, of the pieces of a block that are not joined


def check(
    batch_size: int | None, shuffle_buffer: int | None, batch_format: str | None = "default"
) -> None:
    """Raise ``ValueError`` for arguments of an iteration that make no sense."""
    block.check_format(batch_format)
    checks.integers(batch_size=batch_size, local_shuffle_buffer_size=shuffle_buffer)
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"`batch_size` must be a positive integer or None, got {batch_size!r}.")
    if shuffle_buffer is not None and shuffle_buffer < 1:
        raise ValueError(f"`local_shuffle_buffer_size` must be at least 1, got {shuffle_buffer}.")
    if shuffle_buffer is not None and batch_size is None:
        raise ValueError("Specify `batch_size` to use `local_shuffle_buffer_size`.")


def cut(
    tables: Iterator[pa.Table],
    batch_size: int | None,
    drop_last: bool,
    shuffle_buffer: int | None,
    seed: int | None,
) -> Iterator[pa.Table]:
    """Tables of ``batch_size`` rows; None: as the blocks are."""
    full: Iterator[pa.Table] = (table for table in tables if table.num_rows)
    if batch_size is None:
        yield from full
        return
    if shuffle_buffer is not None:
        full = _shuffled(full, max(shuffle_buffer, batch_size), batch_size, seed)
    for batch in rebatched(full, batch_size):
        if batch.num_rows == batch_size or not drop_last:
            yield batch


def arrays(
    tables: Iterator[pa.Table], batch_size: int, drop_last: bool
) -> Iterator[tuple[dict[str, np.ndarray], bool]]:
    """Cut tables into batches of arrays; with each, whether it is a view of a block.

    A table's columns become arrays once and are then cut: that takes a tenth of cutting the table and
    making arrays of each piece. Each column of a table is in one piece.
    """
    rest: list[pa.Table] = []  # fewer rows than a batch
    have = 0
    for table in tables:
        at = 0
        if have:
            at = min(batch_size - have, table.num_rows)
            rest.append(table.slice(0, at))
            have += at
            if have == batch_size:
                yield block.to_numpy(block.joined(block.concat(rest))), False
                rest, have = [], 0
        if at < table.num_rows:
            yield from _cut_arrays(table, at, batch_size)
            left = (table.num_rows - at) % batch_size
            if left:
                rest.append(table.slice(table.num_rows - left))
                have = left
        del table
    if have and not drop_last:
        yield block.to_numpy(block.joined(block.concat(rest))), False


def pieces(table: pa.Table) -> Iterator[pa.Table]:
    """The rows in tables each column of which is in one piece, copied only where its pieces are small."""
    batches = table.to_batches() if table.num_columns else []
    if len(batches) < 2 or table.nbytes < PIECE_BYTES_MIN * len(batches):
        yield block.joined(table)
        return
    for batch in batches:
        yield pa.Table.from_batches([batch])


def _cut_arrays(
    table: pa.Table, begin: int, batch_size: int
) -> Iterator[tuple[dict[str, np.ndarray], bool]]:
    """The whole batches of a table from row ``begin`` on."""
    if not block.has_arrays(table):
        for at in range(begin, table.num_rows - batch_size + 1, batch_size):
            yield block.to_numpy(table.slice(at, batch_size)), False
        return
    columns = block.to_numpy(table)
    for at in range(begin, table.num_rows - batch_size + 1, batch_size):
        yield {name: column[at : at + batch_size] for name, column in columns.items()}, True


def _shuffled(
    tables: Iterator[pa.Table], window: int, batch_size: int, seed: int | None
) -> Iterator[pa.Table]:
    """The rows in random order, each drawn from at least ``window`` rows while there are more.

    The window is refilled when half of what it may hold has been drawn, so that each row is moved
    into it about twice, however small the batches.
    """
    rng = np.random.default_rng(seed)
    rest: pa.Table | None = None
    fresh: list[pa.Table] = []
    count = 0
    for table in tables:
        fresh.append(table)
        count += table.num_rows
        have = count + (rest.num_rows if rest is not None else 0)
        if have < 2 * window:
            continue
        pool = block.concat([rest, *fresh] if rest is not None else fresh)
        order = rng.permutation(pool.num_rows)
        drawn = (pool.num_rows - window) // batch_size * batch_size
        for at in range(0, drawn, batch_size):
            yield block.take(pool, order[at : at + batch_size])
        rest, fresh, count = block.take(pool, order[drawn:]), [], 0
    if rest is not None:
        fresh.insert(0, rest)
    if fresh:
        pool = block.concat(fresh)
        order = rng.permutation(pool.num_rows)
        for at in range(0, pool.num_rows, batch_size):
            yield block.take(pool, order[at : at + batch_size])
