"""A stand-in for ``google-cloud-bigquery-storage``: a stream is what one job loaded."""

from __future__ import annotations

from typing import Any

import client_state
import pyarrow as pa


class types:  # the package's name
    class DataFormat:
        ARROW = "ARROW"

    class ReadSession:
        def __init__(self, table: str, data_format: str) -> None:
            self.table = table


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


class Session:
    def __init__(self, streams: list[Named]) -> None:
        self.streams = streams


class Page:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.RecordBatch:
        return self._table.combine_chunks().to_batches()[0]


class Rows:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def pages(self) -> Any:
        return (Page(self._table.slice(at, 2)) for at in range(0, self._table.num_rows, 2))

    def to_arrow(self) -> pa.Table:
        return self._table


class Reader:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def rows(self) -> Rows:
        return Rows(self._table)


class BigQueryReadClient:
    def create_read_session(
        self, parent: str, read_session: types.ReadSession, max_stream_count: int
    ) -> Session:
        _, _, _, dataset, _, table = read_session.table.split("/")
        loaded = client_state.load("bigquery", {})["tables"][f"{dataset}.{table}"]
        return Session([Named(f"{dataset}.{table}/{number}") for number in range(len(loaded))])

    def read_rows(self, name: str) -> Reader:
        table, _, number = name.partition("/")
        return Reader(client_state.load("bigquery", {})["tables"][table][int(number)])
