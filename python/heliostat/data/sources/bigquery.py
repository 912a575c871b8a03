"""Rows of a table of BigQuery or of a query to it, by the packages of Google's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa

    from heliostat.data.context import DataContext


WHO = "Tables of BigQuery"
EXTRA = "bigquery"


@spelled
@shows(OF_TASKS)
def read_bigquery(
    project_id: str, dataset: str | None = None, query: str | None = None, **options: object
) -> Dataset:
    """Return a dataset of the rows of a table of BigQuery, or of a query's result.

    They come in the streams that BigQuery makes of a table, each read in a task; a stream that breaks off
    goes on where it was.

    Args:
        project_id: The project that is billed, and that the table is of.
        dataset: The table, as "dataset.table".
        query: A query, instead of a table.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: google-cloud-bigquery or google-cloud-bigquery-storage is not installed.
        ValueError: There is both or neither of ``dataset`` and ``query``. While executing: there is no such
            table.

    Examples:
        >>> import ray
        >>> def names():
        ...     return ray.data.read_bigquery(
        ...         "my-project", query="SELECT name, number FROM names.usa WHERE number > 100"
        ...     )
    """
    if query is not None and dataset is not None:
        raise ValueError(
            "Query and dataset kwargs cannot both be provided (must be mutually exclusive)."
        )
    if query is None and (dataset is None or dataset.count(".") != 1):
        raise ValueError(
            f"read_bigquery needs dataset='dataset.table' or a query; dataset is {dataset!r}."
        )
    package("bigquery")
    package("bigquery_storage")
    source = _BigQuery(project_id, dataset, query)
    return dataset_of(source, "read_bigquery", options, ("project_id", "dataset", "query"))


def package(name: str) -> ModuleType:
    """Import a package of Google's."""
    return required(f"google.cloud.{name}", WHO, EXTRA)


def exceptions() -> ModuleType:
    """The errors of Google's packages."""
    return required("google.api_core.exceptions", WHO, EXTRA)


@dataclass(frozen=True)
class _BigQuery(Datasource):
    project: str
    dataset: str | None
    query: str | None

    def get_name(self) -> str:
        return "BigQuery"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        storage = package("bigquery_storage")
        session = storage.BigQueryReadClient().create_read_session(
            parent=f"projects/{self.project}",
            read_session=storage.types.ReadSession(
                table=self._table(), data_format=storage.types.DataFormat.ARROW
            ),
            max_stream_count=parallelism,
        )
        about = BlockMetadata(None, None)
        return [
            ReadTask(_Stream(stream.name), about, None, per_task_row_limit)
            for stream in session.streams
        ]

    def _table(self) -> str:
        """The resource to read: of a query, the table that BigQuery put its result in.

        Raises:
            ValueError: There is no such table.
        """
        client = package("bigquery").Client(project=self.project)
        if self.query is not None:
            job = client.query(self.query)
            job.result()
            made = job.destination
            return f"projects/{made.project}/datasets/{made.dataset_id}/tables/{made.table_id}"
        assert self.dataset is not None
        name, _, table = self.dataset.partition(".")
        not_found = exceptions().NotFound
        for what, one, get in (
            ("Dataset", name, client.get_dataset),
            ("Table", self.dataset, client.get_table),
        ):
            try:
                get(one)
            except not_found as error:
                raise ValueError(
                    f"{what} {one} is not found in the project {self.project}. Please ensure that it exists."
                ) from error
        return f"projects/{self.project}/datasets/{name}/tables/{table}"


@dataclass(frozen=True)
class _Stream:
    """Reads a stream in a task, page by page."""

    name: str

    def __call__(self) -> Iterator[pa.Table]:
        rows = package("bigquery_storage").BigQueryReadClient().read_rows(self.name).rows()
        some = False
        for page in rows.pages:
            some = True
            yield _table(page.to_arrow())
        if not some:
            yield _table(rows.to_arrow())


def _table(made: object) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches([made]) if isinstance(made, pa.RecordBatch) else made
