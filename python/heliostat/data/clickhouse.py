"""The client of ClickHouse, which reading and writing share: that of the package
``clickhouse-connect``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

    from heliostat.data.aliases import Value


WHO = "Tables of ClickHouse"


@dataclass(frozen=True)
class Server:
    """The server of a table. Its text leaves out what it connects with."""

    dsn: str = field(repr=False)
    settings: dict[str, object] = field(default_factory=dict)
    options: dict[str, object] = field(default_factory=dict, repr=False)

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """A client, closed at the end."""
        package = required("clickhouse_connect", WHO)
        client = package.get_client(dsn=self.dsn, settings=self.settings, **self.options)
        with contextlib.closing(client):
            yield client


def lost() -> tuple[type[BaseException], ...]:
    """The errors of a connection that broke, after which one tries again."""
    errors = required("clickhouse_connect.driver.exceptions", WHO)
    streamed = getattr(errors, "StreamFailureError", errors.OperationalError)
    return (errors.OperationalError, streamed, ConnectionError)


def value(client: Client, query: str) -> Value:
    """The one value that a query gives, None if it gives no row."""
    rows = client.query(query).result_rows
    return rows[0][0] if rows else None
