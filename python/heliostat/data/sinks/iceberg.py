"""Iceberg tables, written by the package ``pyiceberg``: tasks write files, one commit makes them rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import block, frames
from heliostat.data.iceberg import iceberg_table
from heliostat.data.sinks.datasink import Datasink, TaskContext, WriteResult
from heliostat.data.sinks.files import SaveMode

if TYPE_CHECKING:
    import pyiceberg


Written = tuple[
    "pa.Table | None", list["pyiceberg.manifest.DataFile"]
]  # with the keys of an upsert


class IcebergSink(Datasink[Written]):
    """Writes data files, and commits them at the end.

    Args:
        rows: The schema of the rows; columns that the table does not have are added to it.
        replaced: For OVERWRITE: the rows that go, as pyiceberg takes it. Default: all.
        keys: For UPSERT: rows of the table with the same values in these columns go.
        options: Further arguments of the deletion, such as ``case_sensitive`` and ``branch``.
    """

    is_transaction = True  # nothing is written before all of it is

    def __init__(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, object] | None,
        rows: pa.Schema,
        mode: SaveMode,
        replaced: str | pyiceberg.expressions.BooleanExpression | None,
        keys: list[str],
        options: dict[str, object],
        snapshot_properties: dict[str, str] | None,
    ) -> None:
        self._identifier, self._catalog_kwargs = table_identifier, catalog_kwargs
        self._rows, self._mode, self._replaced = rows, mode, replaced
        self._keys, self._options = keys, options
        self._properties = dict(snapshot_properties or {})
        self._metadata: pyiceberg.table.metadata.TableMetadata = None
        self._io: pyiceberg.io.FileIO = None

    def get_name(self) -> str:
        """Return what plans call it."""
        return "Iceberg"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Add the columns that the table does not have."""
        table = iceberg_table(self._identifier, self._catalog_kwargs)
        there = set(table.schema().column_names)
        if any(name not in there for name in self._rows.names):
            with table.update_schema() as update:
                update.union_by_name(_plain(self._rows))
        self._metadata, self._io = table.metadata, table.io

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Written:
        """Write the files of a task."""
        arrow = required("pyiceberg.io.pyarrow", "Iceberg tables")
        table = frames.without_marks(block.concat(list(blocks)))
        schema = arrow.schema_to_pyarrow(self._metadata.schema(), include_field_ids=False)
        columns = [
            table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ]
        full = pa.table(columns, schema=schema)
        files = arrow._dataframe_to_data_files(self._metadata, full, self._io, uuid.uuid4())
        return full.select(self._keys) if self._keys else None, list(files)

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Commit."""
        returned = write_result.write_returns
        table = iceberg_table(self._identifier, self._catalog_kwargs)
        about: dict[str, object] = {"snapshot_properties": self._properties}
        branch = {"branch": self._options["branch"]} if "branch" in self._options else {}
        with table.transaction() as transaction:
            gone = self._gone([keys for keys, _ in returned if keys is not None])
            if gone is not None:
                transaction.delete(gone, **about, **self._options)
            if any(files for _, files in returned):
                with transaction.update_snapshot(**about, **branch).fast_append() as appended:
                    for _, files in returned:
                        for file in files:
                            appended.append_data_file(file)

    def _gone(self, keys: list[pa.Table]) -> str | pyiceberg.expressions.BooleanExpression | None:
        """Return the condition on the rows of the table that go; None: none do."""
        if self._mode is SaveMode.OVERWRITE:
            expressions = required("pyiceberg.expressions", "Iceberg tables")
            return expressions.AlwaysTrue() if self._replaced is None else self._replaced
        if self._mode is SaveMode.UPSERT and keys:
            util = required("pyiceberg.table.upsert_util", "Iceberg tables")
            given = pa.concat_tables(keys)
            if util.has_duplicate_rows(given, self._keys):
                raise ValueError(
                    f"write_iceberg: several rows have the same values of {self._keys}, so which of them "
                    "stays is not known. Nothing was committed."
                )
            return util.create_match_filter(given, self._keys)
        return None


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema without what Arrow files say of its columns."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])
