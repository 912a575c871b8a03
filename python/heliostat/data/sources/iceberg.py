"""Iceberg tables, read by the package ``pyiceberg``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import missing
from heliostat.data.block import BlockMetadata
from heliostat.data.catalog import ReaderFormat, resolved
from heliostat.data.dataset import Dataset
from heliostat.data.iceberg import iceberg_table
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import pyiceberg

    from heliostat.data.catalog import Catalog
    from heliostat.data.context import DataContext


@spelled
@shows(OF_TASKS)
def read_iceberg(
    *,
    table_identifier: str,
    row_filter: str | pyiceberg.expressions.BooleanExpression | None = None,
    selected_fields: tuple[str, ...] = ("*",),
    snapshot_id: int | None = None,
    scan_kwargs: dict[str, object] | None = None,
    catalog_kwargs: dict[str, object] | None = None,
    catalog: Catalog | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of an Iceberg table as it is when this is called, or as it was.

    Args:
        table_identifier: Its name, such as "namespace.table".
        row_filter: A text ("x > 3") or an expression of pyiceberg: which rows to read. Files that have
            none of them are not read.
        selected_fields: Columns to read. Default: all.
        snapshot_id: Of the table. Default: the last one.
        scan_kwargs: Further arguments of ``pyiceberg.table.Table.scan``.
        catalog_kwargs: Arguments of ``pyiceberg.catalog.load_catalog``.
        catalog: A :class:`Catalog` that gives these arguments, unless there are some.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: pyiceberg is not installed.
        ValueError: There is no such column or snapshot.
        pyiceberg.exceptions.NoSuchTableError: There is no such table.

    Examples:
        >>> import ray
        >>> def events():
        ...     return ray.data.read_iceberg(
        ...         table_identifier="shop.events",
        ...         row_filter="amount > 100",
        ...         selected_fields=("user", "amount"),
        ...         catalog_kwargs={"name": "main", "type": "glue"},
        ...     )
    """
    if catalog is not None and not catalog_kwargs:
        found = resolved(catalog, table_identifier, ReaderFormat.ICEBERG)
        table_identifier = found.table_identifier or table_identifier
        catalog_kwargs = found.catalog_kwargs
    table = iceberg_table(table_identifier, catalog_kwargs)
    names = list(table.schema().column_names)
    wrong = [name for name in selected_fields if name != "*" and name not in names]
    if wrong:
        raise ValueError(f"read_iceberg: {missing.no_columns(wrong, names)}")
    given: dict[str, object] = {"selected_fields": tuple(selected_fields), **(scan_kwargs or {})}
    if row_filter is not None:
        given["row_filter"] = row_filter
    scan = table.scan(snapshot_id=snapshot_id, **given)
    return dataset_of(_IcebergSource(scan), "read_iceberg", options, _NAMES)


_NAMES = (
    "table_identifier",
    "row_filter",
    "selected_fields",
    "snapshot_id",
    "scan_kwargs",
    "catalog_kwargs",
    "catalog",
)


class _IcebergSource(Datasource):
    """The files of a scan."""

    def __init__(self, scan: pyiceberg.table.DataScan) -> None:
        self._files = list(scan.plan_files())
        self._reader = partial(
            _records,
            scan.table_metadata,
            scan.io,
            scan.projection(),
            scan.row_filter,
            scan.case_sensitive,
        )

    def get_name(self) -> str:
        return "Iceberg"

    def estimate_inmemory_data_size(self) -> int | None:
        sizes: list[int] = [file.file.file_size_in_bytes for file in self._files]
        return sum(sizes)

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        count = max(1, min(parallelism, len(self._files)))
        return [
            self._task(self._files[begin:end])
            for begin, end in list(spans(len(self._files), count)) or [(0, 0)]
        ]

    def _task(self, files: list[pyiceberg.table.FileScanTask]) -> ReadTask:
        size = sum(file.file.file_size_in_bytes for file in files)
        paths = [file.file.file_path for file in files]
        # How many rows are left after filters and deletions is known when they are read.
        return ReadTask(partial(self._reader, files), BlockMetadata(None, size, input_files=paths))


def _records(
    metadata: object,
    io: object,
    projection: object,
    row_filter: object,
    case_sensitive: bool,
    files: list[object],
) -> Iterator[pa.Table]:
    arrow = required("pyiceberg.io.pyarrow", "Iceberg tables")
    schema = arrow.schema_to_pyarrow(projection, include_field_ids=False)
    yield schema.empty_table()  # the columns are known where there is no row
    scan = arrow.ArrowScan(metadata, io, projection, row_filter, case_sensitive)
    for batch in scan.to_record_batches(files):
        yield pa.Table.from_batches([batch]).cast(schema)
