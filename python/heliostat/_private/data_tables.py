"""``ray.data._internal.arrow_block`` and ``arrow_ops.transform_pyarrow``: tables in sources of programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from heliostat.data import block as blocks

__all__ = ["ArrowRow", "combine_chunks", "concat", "take_table", "unify_schemas"]


class ArrowRow(Mapping[str, Any]):
    """A row of a table, as a mapping: a value by the name of its column, a list of them by several names."""

    def __init__(self, row: Any, row_idx: int = 0) -> None:
        """Take a row of a table.

        Args:
            row: The table.
            row_idx: The row's place in it, from 0.
        """
        self._row = row.slice(row_idx, 1)

    def __getitem__(self, key: str | list[str]) -> Any:
        if isinstance(key, list):
            return tuple(self[name] for name in key)
        if key not in self._row.column_names:
            raise KeyError(key)
        return next(blocks.rows(self._row.select([key])))[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row.column_names)

    def __len__(self) -> int:
        return int(self._row.num_columns)

    def as_pydict(self) -> dict[str, Any]:
        """Return the row as a dict."""
        return next(blocks.rows(self._row))

    def __repr__(self) -> str:
        return repr(self.as_pydict())


def concat(tables: list[Any], *, promote_types: bool = False, **_: Any) -> Any:
    """Return one table of several: columns that a table lacks are null, types are widened."""
    return blocks.concat(list(tables))


def unify_schemas(schemas: Any, *, promote_types: bool = False) -> Any:
    """Return the schema that a concatenation of tables of these schemas has."""
    return blocks.unify(list(schemas))


def take_table(table: Any, indices: Any) -> Any:
    """Return the rows at these places, in that order; a null in ``indices`` is refused."""
    return blocks.take(table, np.asarray(indices, dtype=np.int64))


def combine_chunks(table: Any, copy: bool = False) -> Any:
    """Return the table with one chunk a column; with ``copy`` in memory of its own."""
    joined = blocks.joined(table)
    return blocks.compact(joined) if copy else joined
