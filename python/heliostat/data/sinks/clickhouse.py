"""Rows into a table of ClickHouse."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import frames, missing
from heliostat.data.clickhouse import WHO, Server, value
from heliostat.data.sinks.datasink import WRITE_ID, Datasink, TaskContext


class SinkMode(enum.IntEnum):
    """The treatment of a table that is there: CREATE refuses it, APPEND adds rows, OVERWRITE
    replaces it.

    Examples:
        >>> from ray.data import SinkMode
        >>> def replace(dataset, dsn):
        ...     dataset.write_clickhouse("logs.lines", dsn, mode=SinkMode.OVERWRITE)
        >>> [mode.name for mode in SinkMode]
        ['CREATE', 'APPEND', 'OVERWRITE']
    """

    CREATE = 1
    APPEND = 2
    OVERWRITE = 3


@dataclass
class ClickHouseTableSettings:
    """Options of a table that is made.

    Args:
        engine: Its engine, with arguments.
        order_by: Its ORDER BY. Default: of the table that is replaced; else the first column of times, else
            the first that is not text, else the first.
        partition_by: Its PARTITION BY. Default: none.
        primary_key: Its PRIMARY KEY, without brackets. Default: none.
        settings: Its SETTINGS. Default: none.

    Examples:
        >>> from ray.data import ClickHouseTableSettings
        >>> settings = ClickHouseTableSettings(
        ...     engine="ReplacingMergeTree(at)", order_by="(user, at)", partition_by="toYYYYMM(at)"
        ... )
        >>> def write(dataset, dsn):
        ...     dataset.write_clickhouse("logs.lines", dsn, table_settings=settings)
    """

    engine: str = "MergeTree()"
    order_by: str | None = None
    partition_by: str | None = None
    primary_key: str | None = None
    settings: str | None = None


class ClickHouseSink(Datasink[int]):
    """Inserts the blocks of tasks.

    Each insertion has a token that is the same when its task is tried again, by which a table that looks for
    such (``non_replicated_deduplication_window``, or a replicated engine) takes it once. Nothing is sent
    again after an error: other tables would have its rows twice.
    """

    def __init__(
        self,
        table: str,
        server: Server,
        mode: SinkMode,
        schema: pa.Schema,
        settings: ClickHouseTableSettings | None,
        rows_at_once: int | None,
    ) -> None:
        required("clickhouse_connect", WHO)
        if rows_at_once is not None and rows_at_once < 1:
            raise ValueError(f"max_insert_block_rows is {rows_at_once}: it has to be 1 or more.")
        self._table, self._server, self._mode = table, server, SinkMode(mode)
        self._schema, self._rows_at_once = schema, rows_at_once
        self._settings = settings or ClickHouseTableSettings()

    def get_name(self) -> str:
        """Return what plans call it."""
        return "ClickHouse"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Make the table, where that is asked for.

        Raises:
            ValueError: The mode does not go with what is there, or there is no schema to make a table of.
        """
        table, mode = self._table, self._mode
        with self._server.client() as client:
            is_there = bool(value(client, f"EXISTS TABLE {table}"))
            if is_there and mode is SinkMode.CREATE:
                raise ValueError(
                    f"Table {table} already exists in mode='CREATE'. SinkMode.APPEND adds rows, "
                    "SinkMode.OVERWRITE replaces it."
                )
            order_by = self._settings.order_by
            if is_there:
                held = _order_of(str(client.command(f"SHOW CREATE TABLE {table}")))
                if mode is SinkMode.APPEND:
                    if order_by and held and _bare(held) != _bare(order_by):
                        raise ValueError(
                            f"Conflict with order_by: the table {table} has ORDER BY {held}, not {order_by}. "
                            "Leave it out, or overwrite the table."
                        )
                    return
                order_by = order_by or held
            if self._schema is None:
                raise ValueError(
                    f"Table {table} has to be made in mode={mode.name!r}: pass its pyarrow.Schema as schema=."
                )
            made = self._statement(order_by)
            if is_there:
                client.command(f"DROP TABLE IF EXISTS {table}")
            client.command(made)

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> int:
        """Insert the blocks of a task; return how many rows."""
        inserted = 0
        with self._server.client() as client:
            for table in blocks:
                made = self._typed(frames.without_marks(table))
                step = self._rows_at_once or max(made.num_rows, 1)
                for at in range(0, made.num_rows, step):
                    part = made.slice(at, step)
                    token = f"{ctx.kwargs.get(WRITE_ID)}-{ctx.task_idx}-{inserted}"
                    client.insert_arrow(
                        self._table, part, settings={"insert_deduplication_token": token}
                    )
                    inserted += part.num_rows
        return inserted

    def _typed(self, table: pa.Table) -> pa.Table:
        if self._schema is None:
            return table
        lacks = [name for name in self._schema.names if name not in table.column_names]
        if lacks:
            raise ValueError(f"write_clickhouse: {missing.no_columns(lacks, table.column_names)}")
        return table.select(self._schema.names).cast(self._schema)

    def _statement(self, order_by: str | None) -> str:
        """The statement that makes the table."""
        about, schema = self._settings, self._schema
        columns = ", ".join(f"`{field.name}` {_type(field.type)}" for field in schema)
        parts = [
            f"CREATE TABLE IF NOT EXISTS {self._table} ({columns})",
            f"ENGINE = {about.engine}",
            f"ORDER BY {order_by or _order(schema)}",
            f"PARTITION BY {about.partition_by}" if about.partition_by else "",
            f"PRIMARY KEY ({about.primary_key})" if about.primary_key else "",
            f"SETTINGS {about.settings}" if about.settings else "",
        ]
        return " ".join(part for part in parts if part)


def _bare(clause: str) -> str:
    return re.sub(r"[\s`()]", "", clause)


def _order_of(statement: str) -> str | None:
    """The ORDER BY of a table, of the statement that makes it."""
    found = re.search(
        r"\bORDER\s+BY\s+(.+?)(?=\s+(?:PARTITION\s+BY|PRIMARY\s+KEY|SAMPLE\s+BY|TTL|SETTINGS|COMMENT)\b|$)",
        statement.replace("\\n", "\n"),
        re.IGNORECASE | re.DOTALL,
    )
    return found.group(1).strip() if found else None


def _order(schema: pa.Schema) -> str:
    """Return the order of a new table, if none is given."""
    fields = list(schema)
    if not fields:
        return "tuple()"
    times = [field for field in fields if pa.types.is_timestamp(field.type)]
    others = [
        field
        for field in fields
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type))
    ]
    return f"`{(times or others or fields)[0].name}`"


_TYPES = {
    pa.bool_(): "UInt8",
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.float16(): "Float32",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
}


def _type(kind: pa.DataType) -> str:
    """ClickHouse's name of an Arrow type; text for what it has no name for."""
    if pa.types.is_decimal(kind):
        return f"Decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "DateTime64(3)"
    return _TYPES.get(kind, "String")
