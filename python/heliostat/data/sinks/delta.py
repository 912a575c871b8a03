"""Delta tables, written by the package ``deltalake``.

Tasks write data files, which nobody sees; one commit at the end makes them rows of the table. So a task that
is tried again, and a write that fails in the middle, leave no row twice and none by halves. Files that were
not committed stay until the table's ``vacuum``.
"""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs

from heliostat.core.platform.extras import required
from heliostat.data import block, frames, missing
from heliostat.data.sinks.datasink import Datasink, TaskContext, WriteResult
from heliostat.data.sinks.files import SaveMode

if TYPE_CHECKING:
    from types import ModuleType

    import deltalake


NULL = "__HIVE_DEFAULT_PARTITION__"  # a missing value in the name of a folder


Written = tuple[pa.Schema, list[tuple[str, int, int]]]  # with each file's path, bytes and rows


class DeltaSink(Datasink[Written]):
    """Writes files into the table's folder, and commits them to its log at the end."""

    is_transaction = True  # nothing is written before all of it is

    def __init__(
        self,
        path: str,
        mode: SaveMode,
        partition_by: list[str] | None,
        storage_options: dict[str, str] | None,
        schema_mode: str,
        name: str | None,
        description: str | None,
    ) -> None:
        self._path, self._mode, self._schema_mode = path, mode, schema_mode
        self._partition_by, self._storage_options = list(partition_by or []), storage_options
        self._name, self._description = name, description

    def get_name(self) -> str:
        """Return what plans call it."""
        return "Delta"

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Written:
        """Write the files of a task; what a commit needs to know of each."""
        package = required("deltalake.fs", "Delta tables")
        if "://" not in self._path:
            os.makedirs(self._path, exist_ok=True)
        handler = package.DeltaStorageHandler(self._path, self._storage_options)
        table = _storable(block.concat(list(blocks)))
        files: list[tuple[str, int, int]] = []
        keys = pa.schema([_field(table.schema, name) for name in self._partition_by])
        pds.write_dataset(
            table,
            "",
            filesystem=pa.fs.PyFileSystem(handler),
            format="parquet",
            basename_template=f"part-{ctx.task_idx:05d}-{uuid.uuid4()}-{{i}}.parquet",
            partitioning=pds.partitioning(keys, flavor="hive") if self._partition_by else None,
            existing_data_behavior="overwrite_or_ignore",  # names are never taken twice
            file_visitor=lambda file: files.append((file.path, file.size, file.metadata.num_rows)),
        )
        return table.schema, files

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Commit."""
        deltalake = required("deltalake", "Delta tables")
        transaction = required("deltalake.transaction", "Delta tables")
        returned = write_result.write_returns
        actions = [_action(transaction, *file) for _, files in returned for file in files]
        given = [schema for schema, _ in returned]
        exists = deltalake.DeltaTable.is_deltatable(self._path, self._storage_options)
        if not given and not (exists and self._mode is SaveMode.OVERWRITE):
            return  # no row: nothing is known of the columns
        if not exists:
            transaction.create_table_with_add_actions(
                self._path,
                _delta_schema(deltalake, pa.unify_schemas(given, promote_options="permissive")),
                actions,
                mode="error",
                partition_by=self._partition_by,
                name=self._name,
                description=self._description,
                storage_options=self._storage_options,
            )
            return
        table = deltalake.DeltaTable(self._path, storage_options=self._storage_options)
        schema = self._widened(deltalake, table, given)
        partitions = list(table.metadata().partition_columns)
        mode = "overwrite" if self._mode is SaveMode.OVERWRITE else "append"
        table.create_write_transaction(actions, mode, schema, partitions)

    def check(self) -> bool:
        """Return whether there is anything to do, before any task runs.

        Raises:
            ValueError: There is a table already, or one of other partitions.
        """
        deltalake = required("deltalake", "Delta tables")
        if not deltalake.DeltaTable.is_deltatable(self._path, self._storage_options):
            return True
        if self._mode is SaveMode.IGNORE:
            return False
        if self._mode in (SaveMode.ERROR, SaveMode.CREATE):
            raise ValueError(
                f"there is a Delta table at {self._path} already; mode='append' adds rows, "
                "mode='overwrite' replaces them."
            )
        table = deltalake.DeltaTable(self._path, storage_options=self._storage_options)
        there = list(table.metadata().partition_columns)
        if self._partition_by and self._partition_by != there:
            raise ValueError(f"the table is partitioned by {there}, not by {self._partition_by}.")
        self._partition_by = there
        return True

    def _widened(
        self, package: ModuleType, table: deltalake.DeltaTable, given: list[object]
    ) -> deltalake.Schema:
        """The table's schema, with the columns that the rows have besides."""
        if not given:
            return table.schema()
        schema = _delta_schema(package, pa.unify_schemas(given, promote_options="permissive"))
        there = {field.name for field in table.schema().fields}
        more = [field for field in schema.fields if field.name not in there]
        if more and self._schema_mode != "merge":
            raise ValueError(
                f"the table has no columns {[field.name for field in more]}: schema_mode='merge' adds "
                "them. Nothing was committed."
            )
        if more:
            table.alter.add_columns(more)
        return table.schema()


def _field(schema: pa.Schema, name: str) -> pa.Field:
    if name not in schema.names:
        raise ValueError(f"write_delta: {missing.no_columns([name], schema.names)}")
    return schema.field(name)


def _storable(table: pa.Table) -> pa.Table:
    """The table in types that Delta tables have."""
    fields = []
    for field in frames.without_marks(table).schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        elif pa.types.is_timestamp(kind) and kind.unit != "us":
            kind = pa.timestamp("us", kind.tz)
        if isinstance(kind, pa.BaseExtensionType) or pa.types.is_null(kind):
            raise ValueError(
                f"Delta tables have no type for column {field.name!r}, which is {kind}: make lists or "
                "bytes of it, give it a type, or drop it."
            )
        fields.append(pa.field(field.name, kind))
    return table.cast(pa.schema(fields))


def _delta_schema(package: ModuleType, schema: pa.Schema) -> deltalake.Schema:
    return package.Schema.from_arrow(schema)


def _action(
    transaction: ModuleType, path: str, size: int, rows: int
) -> deltalake.transaction.AddAction:
    """Return the log's entry for a file: its partition is in the names of its folders."""
    folders = [part.partition("=") for part in path.lstrip("/").split("/")[:-1]]
    values = {
        urllib.parse.unquote(name): None if value == NULL else urllib.parse.unquote(value)
        for name, _, value in folders
    }
    now = int(time.time() * 1000)
    stats = json.dumps({"numRecords": rows})
    return transaction.AddAction(path.lstrip("/"), size, values, now, True, stats)
