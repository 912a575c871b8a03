"""Rows of a table of ClickHouse."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import retries
from heliostat.data.block import BlockMetadata
from heliostat.data.clickhouse import WHO, Server, lost, value
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    from heliostat.data.context import DataContext


ROWS_PER_TASK_MIN = 50


@spelled
@shows(OF_TASKS)
def read_clickhouse(
    *,
    table: str,
    dsn: str,
    columns: list[str] | None = None,
    filter: str | None = None,  # Ray's name
    order_by: tuple[list[str], bool] | None = None,
    client_settings: dict[str, object] | None = None,
    client_kwargs: dict[str, object] | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of the rows of a table or view of ClickHouse.

    They are read in one task, unless there is an ``order_by`` and no ``filter``: then each task reads so
    many rows of that order. The order has to be one of single rows (by a key, say): rows that are equal in
    it may come in another order to each task.

    Args:
        table: Its name, such as "default.numbers".
        dsn: Of the server, such as "clickhouse+http://user:password@host:8123/default".
        columns: Columns to read. Default: all.
        filter: A condition in SQL: rows that do not meet it are not read.
        order_by: Columns to order by, and whether it is descending.
        client_settings: Settings of the server for these requests.
        client_kwargs: Further arguments of ``clickhouse_connect.get_client``.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: clickhouse-connect is not installed.
        ValueError: The filter has a semicolon, or ClickHouse refuses it; ``columns`` or ``order_by`` is
            empty.
        clickhouse_connect.driver.exceptions.DatabaseError: While executing: there is no such table or column.

    Examples:
        >>> import ray
        >>> def errors():
        ...     return ray.data.read_clickhouse(
        ...         table="logs.lines",
        ...         dsn="clickhouse+http://reader:secret@clickhouse:8123/logs",
        ...         columns=["at", "text"],
        ...         filter="level = 'error'",
        ...         order_by=(["at"], False),
        ...     )
    """
    required("clickhouse_connect", WHO)
    if columns is not None and not columns:
        raise ValueError("read_clickhouse: columns is empty; leave it out to read all.")
    if order_by is not None and not order_by[0]:
        raise ValueError(
            "read_clickhouse: order_by is (columns, is_descending), such as (['id'], False)."
        )
    server = Server(dsn, dict(client_settings or {}), dict(client_kwargs or {}))
    if filter:
        _check(server, table, filter)
    query = f"SELECT {', '.join(columns) if columns else '*'} FROM {table}"
    if filter:
        query += f" WHERE {filter}"
    if order_by is not None:
        names, is_descending = order_by
        by = names[0] if len(names) == 1 else f"({', '.join(names)})"
        query += f" ORDER BY {by}{' DESC' if is_descending else ''}"
    source = _ClickHouse(server, query, order_by is not None and not filter)
    return dataset_of(source, "read_clickhouse", options, _NAMES)


_NAMES = ("table", "dsn", "columns", "filter", "order_by", "client_settings", "client_kwargs")


def _check(server: Server, table: str, condition: str) -> None:
    """Raise ``ValueError`` for a condition that is none."""
    if _ends_statement(condition):
        raise ValueError(
            f"Invalid characters outside of string literals in filter: {condition!r} has a semicolon."
        )
    refused = required("clickhouse_connect.driver.exceptions", WHO).DatabaseError
    with server.client() as client:
        try:
            client.query(f"EXPLAIN SELECT 1 FROM {table} WHERE {condition}")
        except refused as error:
            raise ValueError(f"Invalid filter expression: {condition!r}. Error: {error}") from error


def _ends_statement(condition: str) -> bool:
    """Whether there is a semicolon that is not in a text."""
    is_text = is_escaped = False
    for one in condition:
        if is_text:
            is_text = one != "'" or is_escaped
            is_escaped = one == "\\" and not is_escaped
        elif one == ";":
            return True
        else:
            is_text = one == "'"
            is_escaped = False
    return False


@dataclass(frozen=True)
class _ClickHouse(Datasource):
    server: Server
    query: str
    is_shared: bool  # among tasks

    def get_name(self) -> str:
        return "ClickHouse"

    def estimate_inmemory_data_size(self) -> int | None:
        with self.server.client() as client:
            found = value(client, f"SELECT SUM(byteSize(*)) AS estimate FROM ({self.query})")
        return None if found is None else int(found)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        with self.server.client() as client:
            rows = int(value(client, f"SELECT COUNT(*) AS estimate FROM ({self.query})") or 0)
        count = min(parallelism, math.ceil(rows / ROWS_PER_TASK_MIN)) if self.is_shared else 1
        each, more = divmod(rows, max(count, 1))
        tasks, at = [], 0
        for number in range(max(count, 1)):
            size = each + (number < more)
            query = f"{self.query} LIMIT {size} OFFSET {at}" if count > 1 else self.query
            about = BlockMetadata(size, None)
            tasks.append(ReadTask(_Query(self.server, query), about, None, per_task_row_limit))
            at += size
        return tasks


@dataclass(frozen=True)
class _Query:
    """Reads the rows of a query; they are given when all are there, so that it can begin anew."""

    server: Server
    query: str

    def __call__(self) -> Iterator[pa.Table]:
        yield retries.retried(self._read, "a read from ClickHouse", lost())

    def _read(self) -> pa.Table:
        with self.server.client() as client:
            try:
                with client.query_arrow_stream(self.query) as stream:
                    batches = list(stream)
            except pa.ArrowInvalid as error:  # the bytes end in the middle
                raise ConnectionError(f"ClickHouse broke off: {error}") from error
            return pa.Table.from_batches(batches) if batches else client.query_arrow(self.query)
