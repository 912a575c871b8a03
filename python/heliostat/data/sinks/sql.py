"""Rows into a database."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from heliostat.data import block
from heliostat.data.sinks.datasink import Datasink, TaskContext

ROWS_AT_ONCE = 128


class SqlSink(Datasink[None]):
    """Runs a statement for each row, in one transaction a task."""

    def __init__(self, sql: str, connect: Callable[[], Any]) -> None:
        self._sql, self._connect = sql, connect

    def get_name(self) -> str:
        """Return what plans call it."""
        return "SQL"

    def write(self, blocks: Iterable[Any], ctx: TaskContext) -> None:
        """Write the rows of a task."""
        rows = (tuple(row.values()) for table in blocks for row in block.rows(table))
        with contextlib.closing(self._connect()) as connection:
            cursor = connection.cursor()
            while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
                cursor.executemany(self._sql, some)
            connection.commit()
