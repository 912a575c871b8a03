"""Results of queries to Databricks, and tables of its catalog."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heliostat.data.block import BlockMetadata
from heliostat.data.catalog import Answer, DatabricksUnityCatalog, ReaderFormat
from heliostat.data.databricks import (
    DatabricksCredentialProvider,
    EnvironmentCredentialProvider,
    Workspace,
)
from heliostat.data.dataset import Dataset
from heliostat.data.http import HttpError, request
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    from heliostat.data.context import DataContext


logger = logging.getLogger("heliostat.data")

STATEMENTS = "/api/2.0/sql/statements"
ASKED_S = (0.1, 5.0)  # between questions for a query's state: first, and at most


@spelled
@shows(OF_TASKS)
def read_databricks_tables(
    *,
    warehouse_id: str,
    table: str | None = None,
    query: str | None = None,
    catalog: str | None = None,
    schema: str | None = None,
    credential_provider: DatabricksCredentialProvider | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of a table or a query's result, by a SQL warehouse of Databricks.

    The query runs when the dataset is executed; its result is read in tasks, by the pieces that the warehouse
    makes of it.

    Args:
        warehouse_id: Of the warehouse.
        table: The table's name.
        query: A query, instead.
        catalog: The catalog of names that say none. Default: the warehouse's.
        schema: The schema of names that say none. Default: the warehouse's.
        credential_provider: What knows the token and the host. Default: ``DATABRICKS_TOKEN`` and
            ``DATABRICKS_HOST`` of the environment.
        **options: Those of :func:`read_datasource`.

    Raises:
        ValueError: There is both or neither of ``table`` and ``query``, or no token or host.
        RuntimeError: While executing: the query fails.
        heliostat.data.http.HttpError: While executing: Databricks refuses.

    Examples:
        >>> import ray
        >>> def trips():  # with DATABRICKS_HOST and DATABRICKS_TOKEN
        ...     return ray.data.read_databricks_tables(
        ...         warehouse_id="a885ad08b64951ad",
        ...         catalog="samples",
        ...         schema="nyctaxi",
        ...         query="SELECT * FROM trips WHERE trip_distance > 10",
        ...     )
    """
    if query is not None and table is not None:
        raise ValueError("Only one of 'query' and 'table' arguments can be set.")
    if query is None and not table:
        raise ValueError("One of 'query' and 'table' arguments should be set.")
    workspace = Workspace(credential_provider or EnvironmentCredentialProvider())
    statement: dict[str, object] = {
        "statement": query if query is not None else f"select * from {table}",
        "warehouse_id": warehouse_id,
        "wait_timeout": "0s",
        "disposition": "EXTERNAL_LINKS",
        "format": "ARROW_STREAM",
        **({"catalog": catalog} if catalog else {}),
        **({"schema": schema} if schema else {}),
    }
    known = ("warehouse_id", "table", "query", "catalog", "schema", "credential_provider")
    return dataset_of(_Statement(workspace, statement), "read_databricks_tables", options, known)


@spelled
def read_unity_catalog(
    table: str,
    url: str | None = None,
    token: str | None = None,
    *,
    credential_provider: DatabricksCredentialProvider | None = None,
    data_format: str | None = None,
    region: str | None = None,
    reader_kwargs: dict[str, object] | None = None,
) -> Dataset:
    """Deprecated: pass ``catalog=ray.data.DatabricksUnityCatalog(...)`` to a reader.

    Args:
        table: Its name, as "catalog.schema.table".
        url: The workspace's address.
        token: A token of its.
        credential_provider: What knows both, instead.
        data_format: "delta", "parquet" or "iceberg". Default: what the catalog says.
        region: Where a bucket of S3 is.
        reader_kwargs: Further arguments of the reader.

    Returns:
        The dataset.

    Raises:
        ValueError: There is no such table or format, or the catalog does not say which it is.

    Examples:
        >>> import ray
        >>> def trips(token):
        ...     return ray.data.read_unity_catalog(
        ...         "main.taxi.trips",
        ...         url="https://dbc-1234.cloud.databricks.com",
        ...         token=token,
        ...         data_format="delta",
        ...         region="us-west-2",
        ...     )
    """
    warnings.warn(
        "read_unity_catalog is deprecated: pass catalog=ray.data.DatabricksUnityCatalog(...) to "
        "read_delta, read_parquet or read_iceberg.",
        DeprecationWarning,
        stacklevel=3,
    )
    from heliostat import data

    catalog = DatabricksUnityCatalog(
        url=url, token=token, credential_provider=credential_provider, region=region
    )
    form = ReaderFormat(data_format.lower()) if data_format else catalog.infer_format(table)
    given: dict[str, Any] = {"catalog": catalog, **(reader_kwargs or {})}
    if form is None:
        raise ValueError(
            f"Could not infer the data format for table {table!r}: pass data_format, one of "
            f"{', '.join(one.value for one in ReaderFormat)}."
        )
    if form is ReaderFormat.DELTA:
        return data.read_delta(table, **given)
    if form is ReaderFormat.PARQUET:
        return data.read_parquet(table, **given)
    return data.read_iceberg(table_identifier=table, **given)


@dataclass(frozen=True)
class _Statement(Datasource):
    workspace: Workspace
    statement: dict[str, object]

    def get_name(self) -> str:
        return "DatabricksUC"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        done = self._run()
        manifest = done["manifest"]
        if manifest.get("truncated"):
            logger.warning(
                "Databricks cut the result of %r, which is too large; read a table in parts.",
                self.statement["statement"],
            )
        chunks = sorted(manifest.get("chunks") or (), key=lambda chunk: chunk["chunk_index"])
        name = done["statement_id"]
        if not chunks:
            columns = (manifest.get("schema") or {}).get("columns") or ()
            return [ReadTask(_Nothing([one["name"] for one in columns]), BlockMetadata(0, 0))]
        tasks = []
        for begin, end in spans(len(chunks), min(parallelism, len(chunks))):
            part = chunks[begin:end]
            about = BlockMetadata(
                sum(one["row_count"] for one in part), sum(one["byte_count"] for one in part)
            )
            read = _Chunks(self.workspace, name, [one["chunk_index"] for one in part])
            tasks.append(ReadTask(read, about, None, per_task_row_limit))
        return tasks

    def _run(self) -> Answer:
        """Run the query and return Databricks' answer.

        Raises:
            RuntimeError: It failed.
        """
        ask = self.workspace.ask
        said: Answer = ask("POST", STATEMENTS, self.statement)
        place = f"{STATEMENTS}/{said['statement_id']}"
        pause = ASKED_S[0]
        try:
            while said["status"]["state"] in ("PENDING", "RUNNING"):
                time.sleep(pause)
                pause = min(pause * 1.5, ASKED_S[1])
                said = ask("GET", place)
        except BaseException:  # nobody waits for it any more, Ctrl-C included
            ask("POST", f"{place}/cancel")
            raise
        status = said["status"]
        if status["state"] != "SUCCEEDED":
            why = (status.get("error") or {}).get("message") or status
            raise RuntimeError(
                f"Query {self.statement['statement']!r} execution failed ({status['state']}): {why}"
            )
        return said


@dataclass(frozen=True)
class _Nothing:
    """Reads a result without rows."""

    names: list[str]

    def __call__(self) -> Iterator[pa.Table]:
        yield pa.table({name: pa.nulls(0) for name in self.names})


@dataclass(frozen=True)
class _Chunks:
    """Reads some pieces of a result in a task."""

    workspace: Workspace
    name: str
    numbers: list[int]

    def __call__(self) -> Iterator[pa.Table]:
        for number in self.numbers:
            with pa.ipc.open_stream(self._bytes(number)) as stream:
                yield stream.read_all()

    def _bytes(self, number: int) -> bytes:
        """A piece. Its address holds for some minutes, so that it is asked for just before."""
        place = f"{STATEMENTS}/{self.name}/result/chunks/{number}"
        for is_last in (False, True):
            links = self.workspace.ask("GET", place)["external_links"]
            try:
                # The address is signed: who we are is not told to the storage.
                return request("GET", links[0]["external_link"])
            except HttpError as error:
                if error.status != 403 or is_last:
                    raise
        raise AssertionError
