"""Lance datasets, written by the package ``pylance``: tasks write fragments, one commit makes them rows."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import block, frames
from heliostat.data.sinks.datasink import Datasink, TaskContext, WriteResult
from heliostat.data.sinks.files import SaveMode

Written = tuple[pa.Schema, list[str]]  # with the fragments, as JSON


class LanceSink(Datasink[Written]):
    """Writes fragments, and commits them at the end."""

    is_transaction = True  # nothing is written before all of it is

    def __init__(
        self,
        uri: str,
        schema: pa.Schema,
        mode: SaveMode,
        rows_per_task: int,
        fragment_options: dict[str, object],
        storage_options: dict[str, str] | None,
    ) -> None:
        self._uri, self._schema, self._mode = uri, schema, mode
        self._rows_per_task, self._fragment_options = rows_per_task, fragment_options
        self._storage_options = storage_options
        self._version: int | None = None  # that is written on; None: there is no dataset yet

    def get_name(self) -> str:
        """Return what plans call it."""
        return "Lance"

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows that each ``write`` gets at least."""
        return self._rows_per_task

    def check(self) -> bool:
        """Return whether there is anything to do, before any task runs.

        Raises:
            ValueError: There is a dataset already.
        """
        lance = required("lance", "Lance datasets")
        try:
            there = lance.dataset(self._uri, storage_options=self._storage_options)
        except (ValueError, FileNotFoundError):
            return True
        if self._mode is SaveMode.IGNORE:
            return False
        if self._mode in (SaveMode.CREATE, SaveMode.ERROR):
            raise ValueError(
                f"there is a Lance dataset at {self._uri} already; mode='append' adds rows, "
                "mode='overwrite' replaces them."
            )
        self._version = there.version
        if self._mode is SaveMode.APPEND and self._schema is None:
            self._schema = there.schema
        return True

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> Written:
        """Write the fragments of a task."""
        lance = required("lance.fragment", "Lance datasets")
        table = frames.without_marks(block.concat(list(blocks)))
        if self._schema is not None:
            table = table.select(self._schema.names).cast(self._schema)
        made = lance.write_fragments(
            table,
            self._uri,
            mode="append" if self._version is not None else "create",
            storage_options=self._storage_options,
            **self._fragment_options,
        )
        return table.schema, [json.dumps(fragment.to_json()) for fragment in made]

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Commit."""
        lance = required("lance", "Lance datasets")
        returned = write_result.write_returns
        if not returned:
            return  # no row: nothing is known of the columns
        fragments = [
            lance.FragmentMetadata.from_json(text) for _, made in returned for text in made
        ]
        if self._version is not None and self._mode is SaveMode.APPEND:
            operation = lance.LanceOperation.Append(fragments)
        else:
            schema = pa.unify_schemas([schema for schema, _ in returned])
            operation = lance.LanceOperation.Overwrite(schema, fragments)
        lance.LanceDataset.commit(
            self._uri,
            operation,
            read_version=self._version,
            storage_options=self._storage_options,
        )
