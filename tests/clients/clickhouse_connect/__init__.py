"""A stand-in for ``clickhouse-connect``: SQLite answers, without what only ClickHouse understands."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import client_state
import pyarrow as pa
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError, StreamFailureError


class Result:
    def __init__(self, rows: list[Any]) -> None:
        self.result_rows = rows


class Client:
    def __init__(self) -> None:
        self._db = sqlite3.connect(client_state.root() / "clickhouse.db", timeout=60)
        self._db.create_function("byteSize", 0, lambda: 8)

    def close(self) -> None:
        self._db.close()

    def _run(self, query: str) -> Any:
        client_state.counted("clickhouse")
        try:
            return self._db.execute(query)
        except sqlite3.Error as error:
            raise DatabaseError(f"Code: 60. DB::Exception: {error}") from error

    def query(self, query: str) -> Result:
        exists = re.fullmatch(r"EXISTS TABLE (\w+)", query)
        if exists:
            names = self._db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", exists.groups())
            return Result([(len(names.fetchall()),)])
        return Result(self._run(query).fetchall())

    def command(self, query: str) -> Any:
        shown = re.fullmatch(r"SHOW CREATE TABLE (\w+)", query)
        if shown:
            return client_state.load("statements", {}).get(shown.group(1), "")
        made = re.match(r"CREATE TABLE IF NOT EXISTS (\w+)", query)
        if made:
            with client_state.changed("statements", {}) as held:
                # As ClickHouse says it again: with line breaks that are escaped.
                held[made.group(1)] = query.replace(" ENGINE", "\\nENGINE").replace(
                    " ORDER", "\\nORDER"
                )
            query = query.partition(" ENGINE")[0]
        self._run(query)
        self._db.commit()
        return None

    def query_arrow(self, query: str) -> pa.Table:
        cursor = self._run(query)
        return pa.table({column[0]: pa.nulls(0) for column in cursor.description})

    @contextlib.contextmanager
    def query_arrow_stream(self, query: str) -> Iterator[Iterator[pa.RecordBatch]]:
        if client_state.fails("clickhouse-read"):
            raise OperationalError("connection refused")
        cursor = self._run(query)
        names = [column[0] for column in cursor.description]

        def batches() -> Iterator[pa.RecordBatch]:
            while rows := cursor.fetchmany(20):
                yield pa.RecordBatch.from_pylist([dict(zip(names, r, strict=True)) for r in rows])
                if client_state.fails("clickhouse-stream"):
                    raise StreamFailureError("the stream ended early")

        yield batches()

    def insert_arrow(self, table: str, rows: pa.Table, settings: dict[str, Any]) -> None:
        if client_state.fails("clickhouse-write"):
            raise OperationalError("connection refused")
        with client_state.changed("insertions", []) as held:
            held.append((settings["insert_deduplication_token"], rows.num_rows))
        names = ", ".join(f"`{name}`" for name in rows.column_names)
        places = ", ".join("?" * rows.num_columns)
        with self._db:
            self._db.executemany(
                f"INSERT INTO {table} ({names}) VALUES ({places})",
                [tuple(row.values()) for row in rows.to_pylist()],
            )


def get_client(*, dsn: str, settings: dict[str, Any], **options: Any) -> Client:
    assert dsn.startswith("clickhouse+http://"), dsn
    return Client()
