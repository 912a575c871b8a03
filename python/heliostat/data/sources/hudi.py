"""Tables of Apache Hudi, by the package ``hudi``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from heliostat.core.platform.extras import required
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import hudi

    from heliostat.data.context import DataContext


WHO = "Tables of Hudi"
KINDS = ("snapshot", "incremental")
COMMITTED = "_hoodie_commit_time"  # a column
# Names of options as releases before 0.5 had them, and programs of Ray's have.
_RENAMED = {
    f"hoodie.read.file_group.{end}_timestamp": f"hoodie.read.{end}.timestamp"
    for end in ("start", "end")
}


@spelled
@shows(OF_TASKS)
def read_hudi(
    table_uri: str,
    *,
    query_type: str = "snapshot",
    filters: list[tuple[str, str, str]] | None = None,
    hudi_options: dict[str, str] | None = None,
    storage_options: dict[str, str] | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of a table of Hudi, with what lies in logs beside its files.

    Args:
        table_uri: The table's folder or URI.
        query_type: "snapshot": as the table is. "incremental": the rows that were changed after
            "hoodie.read.start.timestamp" of ``hudi_options``, up to "hoodie.read.end.timestamp".
        filters: Conditions on columns that the table is partitioned by, such as ``("city", "=", "here")``.
        hudi_options: Options of Hudi, such as "hoodie.read.use.read_optimized.mode": "true", which leaves
            logs out.
        storage_options: What the storage needs (credentials, region), as the package takes it.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: hudi is not installed.
        ValueError: There is no such ``query_type``.
        Exception: While executing: the package's own, where there is no such table.

    Examples:
        >>> import ray
        >>> def trips():
        ...     return ray.data.read_hudi("s3://lake/trips", filters=[("city", "=", "Oslo")])
    """
    required("hudi", WHO)
    if query_type.lower() not in KINDS:
        raise ValueError(f"Unsupported query type: {query_type!r}. Supported types are: {KINDS}.")
    source = _Hudi(
        table_uri,
        query_type.lower(),
        list(filters or ()),
        {_RENAMED.get(name, name): value for name, value in (hudi_options or {}).items()},
        dict(storage_options or {}),
    )
    known = ("table_uri", "query_type", "filters", "hudi_options", "storage_options")
    return dataset_of(source, "read_hudi", options, known)


@dataclass(frozen=True)
class _Hudi(Datasource):
    uri: str
    kind: str
    filters: list[tuple[str, str, str]]
    options: dict[str, str]
    storage: dict[str, str]

    def get_name(self) -> str:
        return "Hudi"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        package = required("hudi", WHO)
        table = (
            package.HudiTableBuilder.from_base_uri(self.uri)
            .with_hudi_options(self.options)
            .with_storage_options(self.storage)
            .build()
        )
        is_whole = self.kind == "snapshot"
        kind = package.HudiQueryType.Snapshot if is_whole else package.HudiQueryType.Incremental
        asked = package.HudiReadOptions(self.filters, None, self.options).with_query_type(kind)
        files = table.get_file_slices(asked)
        schema = table.get_schema_with_meta_fields()
        given = {**table.storage_options(), **table.hudi_options()}
        tasks = []
        cuts = spans(len(files), max(1, min(parallelism, len(files))))
        for begin, end in list(cuts) or [(0, 0)]:
            part = files[begin:end]
            paths = [(f.base_file_relative_path(), f.log_files_relative_paths()) for f in part]
            about = BlockMetadata(
                None,
                sum(f.total_size_bytes() for f in part),
                None,
                [os.path.join(self.uri, path) for path, _ in paths],
            )
            read = _Files(self.uri, self.kind, paths, given, asked.hudi_options, schema)
            tasks.append(ReadTask(read, about, None, per_task_row_limit))
        return tasks


@dataclass(frozen=True)
class _Files:
    """Reads some files in a task, with their logs."""

    uri: str
    kind: str
    paths: list[tuple[str, list[str]]]
    table: dict[str, str]
    options: dict[str, str]
    schema: pa.Schema

    def __call__(self) -> Iterator[pa.Table]:
        if not self.paths:
            yield self.schema.empty_table()
            return
        package = required("hudi", WHO)
        reader = package.HudiFileGroupReader(self.uri, self.table)
        asked = package.HudiReadOptions(None, None, self.options)
        for path, logs in self.paths:
            for batch in reader.read_file_slice_from_paths_stream(path, logs, asked):
                yield self._changed(pa.Table.from_batches([pa.record_batch(batch)]), asked)

    def _changed(self, table: pa.Table, asked: hudi.HudiReadOptions) -> pa.Table:
        """The rows that an incremental query asks for: of a file that was written anew, not all are."""
        if self.kind == "snapshot" or COMMITTED not in table.column_names:
            return table
        when = table.column(COMMITTED)
        if asked.start_timestamp() is not None:
            table = table.filter(pc.greater(when, asked.start_timestamp()))
            when = table.column(COMMITTED)
        if asked.end_timestamp() is not None:
            table = table.filter(pc.less_equal(when, asked.end_timestamp()))
        return table
