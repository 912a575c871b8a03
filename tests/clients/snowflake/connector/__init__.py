"""A stand-in for ``snowflake-connector-python``: SQLite answers, with functions of Snowflake's."""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

import client_state


class Cursor(sqlite3.Cursor):
    def execute(self, sql: str, params: Any = ()) -> Cursor:
        client_state.counted("snowflake")
        super().execute(sql.replace("%s", "?"), params)
        return self

    def executemany(self, sql: str, params: Any) -> Cursor:
        if client_state.fails("snowflake-write"):
            raise sqlite3.OperationalError("connection is closed")
        super().executemany(sql.replace("%s", "?"), params)
        return self


class Connection(sqlite3.Connection):
    def cursor(self, *_: Any) -> Any:
        return super().cursor(Cursor)


def connect(*, user: str, account: str, has_functions: bool = True) -> Connection:
    made = sqlite3.connect(
        client_state.root() / f"{account}.db",
        timeout=60,
        factory=Connection,
        isolation_level="IMMEDIATE",
    )
    if has_functions:
        made.create_function("MOD", 2, lambda a, b: None if a is None else a % b)
        made.create_function(
            "hash", 1, lambda value: None if value is None else zlib.crc32(str(value).encode())
        )
        made.create_function("CONCAT", 2, lambda a, b: f"{a}{b}")
    return made
