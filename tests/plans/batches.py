"""Batches of every format as rows, so that they can be compared."""

from __future__ import annotations

from typing import Any

from .check import expect
from .known import Known, Row

# Whose Arrow types are the library's own.
OPAQUE = ("tensor", "ragged", "object")


def rows_of(batch: Any, known: Known | None = None) -> list[Row]:
    """The rows of a dict of arrays, a DataFrame or a table; of a table only ``known``'s columns."""
    if hasattr(batch, "schema"):
        names = batch.column_names if known is None else _plain(batch, known)
        columns = {n: batch.column(n).to_pylist() for n in names}
        count = batch.num_rows
    else:
        columns = {str(n): list(batch[n]) for n in batch}
        count = max((len(c) for c in columns.values()), default=len(batch))
    return [{n: c[i] for n, c in columns.items()} for i in range(count)]


def _plain(table: Any, known: Known) -> list[str]:
    opaque = opaque_names(known)
    return [n for n in table.column_names if n not in opaque]


def opaque_names(known: Known) -> list[str]:
    """Columns whose Arrow type may be the library's own; lists that numpy had become tensors."""
    return [
        n
        for n, c in known.columns.items()
        if c.kind in OPAQUE or (c.kind == "list" and not c.exact)
    ]


def without_opaque(known: Known) -> Known:
    """The answer without the columns that :func:`rows_of` leaves out of a table."""
    opaque = opaque_names(known)
    kept = [n for n in known.columns if n not in opaque]
    rows = [{n: row[n] for n in kept} for row in known.rows]
    return known.derive(rows, {n: known.columns[n] for n in kept})


def size_of(batch: Any) -> int:
    """Rows of a batch."""
    if hasattr(batch, "num_rows"):
        return int(batch.num_rows)
    return max((len(batch[n]) for n in batch), default=0)


def sizes_are(batches: list[Any], size: int | None, total: int, drop_last: bool) -> None:
    """All batches but the last have the size asked for."""
    sizes = [size_of(b) for b in batches]
    if size is None:
        expect(sum(sizes) == total, f"batches of {sizes} rows of {total}")
        return
    full, rest = divmod(total, size)
    wanted = [size] * full + ([rest] if rest and not drop_last else [])
    expect(sizes == wanted, f"batches of {sizes} rows, expected {wanted}")
