"""Tables that are shared by Delta Sharing, by the package ``delta-sharing``."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from heliostat.core.platform.extras import required
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.http import request
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    from heliostat.data.aliases import Row
    from heliostat.data.context import DataContext


WHO = "Tables of Delta Sharing"


@spelled
@shows(OF_TASKS)
def read_delta_sharing_tables(
    url: str,
    *,
    limit: int | None = None,
    version: int | None = None,
    timestamp: str | None = None,
    json_predicate_hints: str | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of a table that somebody shares by the protocol of Delta Sharing.

    Its files are shared among tasks. Their addresses hold for a while (an hour, mostly), beginning with the
    dataset's execution.

    Args:
        url: The file of the profile, and the table: "<profile>#<share>.<schema>.<table>".
        limit: Rows to read at most. Default: all.
        version: Of the table. Default: the last one.
        timestamp: The version as of a time, such as "2024-01-01T00:00:00Z", instead.
        json_predicate_hints: A condition in the protocol's JSON, by which the server may leave out files.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: delta-sharing is not installed.
        ValueError: ``url`` is no such, or ``limit`` is negative.
        requests.HTTPError: While executing: the server refuses, or there is no such table.

    Examples:
        >>> import ray
        >>> def sales():
        ...     return ray.data.read_delta_sharing_tables(
        ...         "/secrets/partner.share#retail.public.sales", limit=1000
        ...     )
    """
    required("delta_sharing", WHO)
    profile, _, name = url.rpartition("#")
    parts = name.split(".")
    if not profile or len(parts) != 3 or not all(parts):
        raise ValueError(f"Invalid 'url': {url}: it is '<profile>#<share>.<schema>.<table>'.")
    if limit is not None and limit < 0:
        raise ValueError(f"'limit' must be a non-negative int, not {limit!r}")
    source = _Shared(profile, parts, limit, version, timestamp, json_predicate_hints)
    known = ("url", "limit", "version", "timestamp", "json_predicate_hints")
    found = dataset_of(source, "read_delta_sharing_tables", options, known)
    return found if limit is None else found.limit(limit)


@dataclass(frozen=True)
class _Shared(Datasource):
    profile: str
    name: list[str]
    limit: int | None
    version: int | None
    timestamp: str | None
    hints: str | None

    def get_name(self) -> str:
        return "DeltaSharing"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        protocol = required("delta_sharing.protocol", WHO)
        client = required("delta_sharing.rest_client", WHO).DataSharingRestClient(
            protocol.DeltaSharingProfile.read_from_file(self.profile)
        )
        share, schema, table = self.name
        said = client.list_files_in_table(
            protocol.Table(name=table, share=share, schema=schema),
            jsonPredicateHints=self.hints,
            limitHint=self.limit,
            version=self.version,
            timestamp=self.timestamp,
        )
        fields = json.loads(said.metadata.schema_string)["fields"]
        files = [
            _File(file.url, dict(file.partition_values or {}), int(file.size))
            for file in said.add_files
        ]
        cuts = list(spans(len(files), max(1, min(parallelism, len(files))))) or [(0, 0)]
        return [
            ReadTask(
                _Files(files[begin:end], fields),
                BlockMetadata(None, sum(file.size for file in files[begin:end])),
                None,
                per_task_row_limit,
            )
            for begin, end in cuts
        ]


@dataclass(frozen=True)
class _File:
    url: str
    values: dict[str, object]  # of the columns that its place gives
    size: int


@dataclass(frozen=True)
class _Files:
    """Reads some files in a task."""

    files: list[_File]
    fields: list[Row]

    def __call__(self) -> Iterator[pa.Table]:
        if not self.files:
            empty = {one["name"]: pa.nulls(0, _type(one["type"])) for one in self.fields}
            yield pa.table(empty)
        for file in self.files:
            place = urlsplit(file.url)
            if place.scheme in ("", "file"):
                table = pq.read_table(place.path, partitioning=None)
            else:
                table = pq.read_table(io.BytesIO(request("GET", file.url)))
            yield self._whole(table, file.values)

    def _whole(self, table: pa.Table, values: dict[str, object]) -> pa.Table:
        """The table with the columns that are not in its file, in the order of the shared one."""
        there = {name.lower(): name for name in table.column_names}
        columns = {}
        for about in self.fields:
            name, kind = about["name"], _type(about["type"])
            if name.lower() in there:
                columns[name] = table.column(there[name.lower()])
                continue
            value = values.get(name)
            made = pa.scalar(value, pa.string()).cast(kind) if value else pa.scalar(None, kind)
            columns[name] = pa.repeat(made, table.num_rows)
        return pa.table(columns)


_TYPES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def _type(said: object) -> pa.DataType:
    """Arrow's type of what Delta's schema says; of nested columns that no file has, it is null."""
    if isinstance(said, str) and said.startswith("decimal("):
        precision, scale = said[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _TYPES.get(said, pa.null()) if isinstance(said, str) else pa.null()
