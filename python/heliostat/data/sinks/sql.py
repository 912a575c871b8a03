"""Rows into a database."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from heliostat.data import block
from heliostat.data.sinks.datasink import Datasink, TaskContext

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.sources.sql import Connection


ROWS_AT_ONCE = 128


class SqlSink(Datasink[None]):
    """Runs a statement for each row, in one transaction a task.

    Args:
        sql: The statement.
        connect: Makes a connection of Python's database interface.
        columns: Which columns of a row are its parameters. Default: all, in order.
        name: What plans call it.
    """

    def __init__(
        self,
        sql: str,
        connect: Callable[[], Connection],
        columns: list[str] | None = None,
        name: str = "SQL",
    ) -> None:
        self._sql, self._connect, self._columns, self._name = sql, connect, columns, name

    def get_name(self) -> str:
        """Return what plans call it."""
        return self._name

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        """Write the rows of a task."""
        names = self._columns
        rows = (
            tuple(row.values()) if names is None else tuple(row.get(name) for name in names)
            for table in blocks
            for row in block.rows(table)
        )
        with contextlib.closing(self._connect()) as connection:
            cursor = connection.cursor()
            while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
                cursor.executemany(self._sql, some)
            connection.commit()
