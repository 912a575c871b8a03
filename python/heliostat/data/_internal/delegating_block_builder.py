"""``DelegatingBlockBuilder``: rows and batches, collected into one block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from heliostat.data import block as blocks

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Batch, Value


class DelegatingBlockBuilder:
    """Collects rows and blocks; :meth:`build` gives one block of all of them."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows: list[Mapping[str, Value]] = []

    def add(self, item: Mapping[str, Value]) -> None:
        """Add a row."""
        self._rows.append(item)

    def add_batch(self, batch: Batch) -> None:
        """Add a dict of arrays, a DataFrame or a table."""
        self._flush()
        self._tables.append(blocks.from_batch(batch, "add_batch"))

    def add_block(self, block: pa.Table) -> None:
        """Add a table or a DataFrame."""
        self.add_batch(block)

    def num_rows(self) -> int:
        """Return the number of rows so far."""
        rows: int = len(self._rows) + sum(table.num_rows for table in self._tables)
        return rows

    def get_estimated_memory_usage(self) -> int:
        """Return the size in memory so far."""
        self._flush()
        size: int = sum(table.nbytes for table in self._tables)
        return size

    def build(self) -> pa.Table:
        """Return the block."""
        self._flush()
        return blocks.concat(self._tables)

    def _flush(self) -> None:
        if self._rows:
            self._tables.append(blocks.from_rows(self._rows))
            self._rows = []
