"""Rows of a query to a database: Python's interface of databases, and Snowflake's."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import block
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    from heliostat.data.aliases import Value
    from heliostat.data.context import DataContext


logger = logging.getLogger("heliostat.data")


class Cursor(Protocol):
    """A cursor of Python's database interface (PEP 249), as far as it is used."""

    description: Any  # of the columns of the last query: sequences that begin with a name

    def execute(self, operation: str, parameters: Any = ..., /) -> object:
        """Run a statement."""

    def executemany(self, operation: str, parameters: Any, /) -> object:
        """Run a statement for each of some parameters."""

    def fetchone(self) -> Value:
        """Return the next row; ``None``: there is none."""

    def fetchmany(self, size: int = ..., /) -> list[Value]:
        """Return some rows."""

    def close(self) -> None:
        """Close the cursor."""


class Connection(Protocol):
    """A connection of Python's database interface (PEP 249), as far as it is used."""

    def cursor(self) -> Cursor:
        """Return a cursor."""

    def commit(self) -> None:
        """Commit the transaction."""

    def rollback(self) -> None:
        """Undo the transaction."""

    def close(self) -> None:
        """Close the connection."""


ROWS_PER_TASK_MIN = 50
_OF_CURSORS = ("close", "execute", "executemany", "fetchone", "fetchmany", "fetchall")


@spelled
@shows(OF_TASKS)
def read_sql(
    sql: str,
    connection_factory: Callable[[], Connection],
    *,
    sql_params: object = None,
    shard_keys: list[str] | None = None,
    shard_hash_fn: str = "MD5",
    **options: object,
) -> Dataset:
    """Return a dataset of the rows of a query.

    They are read in one task, unless there are ``shard_keys`` and the database has the functions ``MOD``,
    ``ABS``, ``CONCAT`` and ``shard_hash_fn``: then each task asks for the rows of some hashes.

    Args:
        sql: The query.
        connection_factory: Makes a connection of Python's database interface, in each task.
        sql_params: Parameters of the query.
        shard_keys: Columns by which the rows are shared among tasks.
        shard_hash_fn: The database's function that makes a number of their values.
        **options: Those of :func:`read_datasource`.

    Raises:
        ValueError: While executing: the connection is not of that interface.

    Examples:
        >>> import ray
        >>> import pathlib, sqlite3, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "shop.db")
        ...     with sqlite3.connect(path) as connection:
        ...         _ = connection.execute("CREATE TABLE orders (item TEXT, cents INT)")
        ...         _ = connection.execute("INSERT INTO orders VALUES ('tea', 300)")
        ...     connection.close()
        ...     ray.data.read_sql("SELECT * FROM orders", lambda: sqlite3.connect(path)).take_all()
        [{'item': 'tea', 'cents': 300}]
    """
    source = _Sql(sql, connection_factory, sql_params, list(shard_keys or ()), shard_hash_fn)
    return dataset_of(source, "read_sql", options, _SQL)


_SQL = ("sql", "connection_factory", "sql_params", "shard_keys", "shard_hash_fn")


@spelled
@shows(OF_TASKS)
def read_snowflake(
    sql: str,
    connection_parameters: dict[str, object],
    *,
    shard_keys: list[str] | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of the rows of a query to Snowflake.

    Args:
        sql: The query.
        connection_parameters: Arguments of ``snowflake.connector.connect``.
        shard_keys: Columns by which the rows are shared among tasks. Default: one task reads all.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: snowflake-connector-python is not installed.

    Examples:
        >>> import ray
        >>> def customers():
        ...     return ray.data.read_snowflake(
        ...         "SELECT id, name FROM customers",
        ...         {"user": "me", "account": "ab12345", "database": "SHOP", "schema": "PUBLIC"},
        ...     )
    """
    connect = Snowflake(connection_parameters)
    required("snowflake.connector", "Tables of Snowflake")
    source = _Sql(sql, connect, None, list(shard_keys or ()), "hash", "Snowflake")
    return dataset_of(
        source, "read_snowflake", options, ("sql", "connection_parameters", "shard_keys")
    )


@dataclass(frozen=True)
class Snowflake:
    """Connects to Snowflake. Its text leaves out what it connects with."""

    parameters: dict[str, object]

    def __call__(self) -> Connection:
        """A connection."""
        package = required("snowflake.connector", "Tables of Snowflake")
        made: Connection = package.connect(**self.parameters)
        return made

    def __repr__(self) -> str:
        return "Snowflake()"


@contextlib.contextmanager
def cursor_of(connect: Callable[[], Connection]) -> Iterator[Cursor]:
    """A cursor, in a transaction: committed at the end, undone after an error where that is possible.

    Raises:
        ValueError: It is not of Python's database interface.
    """
    with contextlib.closing(connect()) as connection:
        cursor = connection.cursor()
        lacks = [name for name in _OF_CURSORS if not hasattr(cursor, name)]
        if lacks:
            raise ValueError(
                "`connection_factory` has to make connections of Python's database interface (PEP 249); "
                f"a cursor of {type(connection).__module__}.{type(connection).__qualname__} has no "
                f"{', '.join(lacks)}."
            )
        try:
            yield cursor
        except Exception:
            with contextlib.suppress(Exception):  # not all can: what failed is told
                connection.rollback()
            raise
        connection.commit()


@dataclass(frozen=True)
class _Sql(Datasource):
    sql: str
    connect: Callable[[], Connection]
    params: object
    keys: list[str]
    hash_fn: str
    name: str = "SQL"

    def get_name(self) -> str:
        return self.name

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        rows = self._rows() if parallelism > 1 and self._can_share() else None
        about = BlockMetadata(None, None)
        if not rows:
            return [ReadTask(_Query(self, self.sql), about, None, per_task_row_limit)]
        count = min(parallelism, math.ceil(rows / ROWS_PER_TASK_MIN))
        return [
            ReadTask(
                _Query(self, f"SELECT * FROM ({self.sql}) as T WHERE {self._share(number, count)}"),
                about,
                None,
                per_task_row_limit,
            )
            for number in range(count)
        ]

    def _share(self, number: int, count: int) -> str:
        keys = self.keys[0] if len(self.keys) == 1 else f"CONCAT({','.join(self.keys)})"
        share = f"MOD(ABS({self.hash_fn}({keys})), {count})"
        return f"COALESCE({share}, 0) = {number}"  # rows without keys are somebody's, too

    def _can_share(self) -> bool:
        """Whether the database has the functions that it takes."""
        if not self.keys:
            return False
        try:
            self._value(f"SELECT COUNT(1) FROM ({self.sql}) as T WHERE {self._share(0, 2)}")
        except Exception as error:
            logger.warning(
                "One task reads all: the database cannot share the rows by shard_keys=%s: %s",
                self.keys,
                error,
            )
            return False
        return True

    def _rows(self) -> int:
        return int(self._value(f"SELECT COUNT(*) FROM ({self.sql}) as T"))

    def _value(self, sql: str) -> Value:
        with cursor_of(self.connect) as cursor:
            self.run(cursor, sql)
            return cursor.fetchone()[0]

    def run(self, cursor: Cursor, sql: str) -> None:
        """Send a query, with the parameters."""
        cursor.execute(sql, *(() if self.params is None else (self.params,)))


@dataclass(frozen=True)
class _Query:
    """Reads the rows of a query in a task."""

    source: _Sql
    sql: str

    def __call__(self) -> Iterator[pa.Table]:
        with cursor_of(self.source.connect) as cursor:
            self.source.run(cursor, self.sql)
            names = [column[0] for column in cursor.description]
            some = False
            while rows := cursor.fetchmany(block.ROWS_AT_ONCE):
                some = True
                yield block.from_rows([dict(zip(names, row, strict=True)) for row in rows])
            if not some:
                yield pa.table({name: pa.nulls(0) for name in names})
