"""Rows into namespaces of Turbopuffer, each once: what is written has an id."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from heliostat.core.platform.extras import required
from heliostat.data import block, frames, missing, retries
from heliostat.data.sinks.datasink import Datasink, TaskContext

if TYPE_CHECKING:
    from heliostat.data.aliases import Value


WHO = "Namespaces of Turbopuffer"
API_KEY = "TURBOPUFFER_API_KEY"


@dataclass
class TurbopufferDatasink(Datasink[None]):
    """Upserts the rows of tasks into a namespace of Turbopuffer, in batches.

    Args:
        namespace: The namespace of all rows.
        namespace_column: The column that says which is whose, instead; it is not written.
        region: Turbopuffer's region.
        base_url: The address of the service, instead.
        api_key: The key. Default: that of the environment variable ``TURBOPUFFER_API_KEY``.
        schema: Turbopuffer's schema of the namespace. Default: it is found out there.
        id_column: The column of ids; rows without one are left out.
        vector_column: The column of vectors.
        batch_size: Rows of a request at most.
        distance_metric: "cosine_distance" or "euclidean_squared".
        concurrency: Has no effect: say it to ``write_datasink``.

    Raises:
        ImportError: turbopuffer is not installed.
        ValueError: There are both or neither of the namespaces or of the places, or there is no key.

    Examples:
        >>> from ray.data.datasource import TurbopufferDatasink
        >>> def write(dataset):  # with TURBOPUFFER_API_KEY
        ...     sink = TurbopufferDatasink("articles", region="gcp-us-central1", vector_column="embedding")
        ...     dataset.write_datasink(sink, concurrency=4)
    """

    namespace: str | None = None
    _: KW_ONLY
    namespace_column: str | None = None
    region: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    schema: dict[str, object] | None = None
    id_column: str = "id"
    vector_column: str = "vector"
    batch_size: int = 10_000
    distance_metric: str = "cosine_distance"
    concurrency: int | None = None

    def __post_init__(self) -> None:
        required("turbopuffer", WHO)
        for one, other in (("namespace", "namespace_column"), ("region", "base_url")):
            given = [name for name in (one, other) if getattr(self, name)]
            if len(given) != 1:
                what = "not both" if given else "neither is given"
                raise ValueError(f"Specify exactly one of {one!r} or {other!r}: {what}.")
        columns = [self.id_column, self.vector_column, self.namespace_column]
        if len(set(columns)) < len(columns):
            raise ValueError(
                "id_column, vector_column and namespace_column have to be different columns; they are "
                f"{columns}."
            )
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: it has to be 1 or more.")
        self.api_key = self.api_key or os.environ.get(API_KEY)
        if not self.api_key:
            raise ValueError(f"API key is required: pass api_key, or set {API_KEY}.")

    def get_name(self) -> str:
        """Return what plans call it."""
        return "Turbopuffer"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        """Upsert the rows of a task."""
        package = required("turbopuffer", WHO)
        where = {"region": self.region} if self.region else {"base_url": self.base_url}
        client = package.Turbopuffer(api_key=self.api_key, **where)
        passing = tuple(
            getattr(package, name)
            for name in ("APIConnectionError", "RateLimitError", "InternalServerError")
            if hasattr(package, name)
        )
        for table in blocks:
            for name, rows in self._by_namespace(frames.without_marks(table)):
                made = self._named(rows)
                for at in range(0, made.num_rows, self.batch_size):
                    write = partial(
                        client.namespace(name).write,
                        upsert_columns=_columns(made.slice(at, self.batch_size)),
                        distance_metric=self.distance_metric,
                        **({} if self.schema is None else {"schema": self.schema}),
                    )
                    retries.retried(write, f"a write to the namespace {name!r}", passing)

    def _by_namespace(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """(a namespace, its rows)."""
        name = self.namespace_column
        if name is None:
            assert self.namespace is not None
            yield self.namespace, table
            return
        missing.require([name], table.schema, "write_turbopuffer")
        column = table.column(name)
        if column.null_count:
            raise ValueError(
                f"Namespace column {name!r} has rows without a value: fill or drop them first."
            )
        for value in pc.unique(column):
            yield str(value.as_py()), table.filter(pc.equal(column, value)).drop_columns([name])

    def _named(self, table: pa.Table) -> pa.Table:
        """The table with Turbopuffer's names of its columns, without rows that have no id."""
        names = {self.id_column: "id", self.vector_column: "vector"}
        missing.require(names, table.schema, "write_turbopuffer")
        for ours, theirs in names.items():
            if ours != theirs and theirs in table.column_names:
                raise ValueError(
                    f"write_turbopuffer: the table has a column {theirs!r} besides {ours!r}, which is to "
                    "be called so: rename or drop it."
                )
        made = table.rename_columns([names.get(name, name) for name in table.column_names])
        return made.filter(pc.is_valid(made.column("id")))


def _columns(table: pa.Table) -> dict[str, list[Value]]:
    """Plain values by column; ids of 16 bytes are UUIDs."""
    found: dict[str, list[Value]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type
        rows = [row[name] for row in block.rows(table.select([name]))]
        if name == "id" and pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
            rows = [str(uuid.UUID(bytes=value)) for value in rows]
        found[name] = [value.tolist() if hasattr(value, "tolist") else value for value in rows]
    return found
