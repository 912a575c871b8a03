"""A plan that writes, as one that leaves out what was written and remembers what it writes."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from heliostat.data.checkpoint.checkpoint_filter import (
    BEGUN,
    WRITTEN,
    CheckpointFilter,
    IdColumnCheckpointManager,
    NumpyArrayBasedCheckpointFilter,
    files,
)
from heliostat.data.checkpoint.interfaces import (
    CheckpointConfig,
    InvalidCheckpointingConfig,
    InvalidCheckpointingOperators,
)
from heliostat.data.plan import task
from heliostat.data.plan.operators import InputBlocks, Map, Operator, Read
from heliostat.data.plan.transforms import Names, Tables, Transform, joined_names

if TYPE_CHECKING:
    from heliostat.data.aliases import Value
    from heliostat.data.context import DataContext
    from heliostat.data.sinks.datasink import Datasink


Stream = Callable[[Tables], Tables]


def is_begun(config: CheckpointConfig | None) -> bool:
    """Whether an earlier program has begun to write these rows."""
    return config is not None and bool(files(config))


def check_sink(sink: Datasink[Value]) -> None:
    """Refuse a checkpoint of what is written whole or not at all.

    Raises:
        InvalidCheckpointingConfig: The sink commits once, after all tasks.
    """
    if getattr(sink, "is_transaction", False):
        raise InvalidCheckpointingConfig(
            f"A write to {sink.get_name()} is one transaction: what an interrupted one wrote is not in "
            "the table, so there is nothing to go on from. Write it without `checkpoint_config`."
        )


@dataclass
class Resumed:
    """A write with a checkpoint.

    Args:
        config: The checkpoint.
        context: The dataset's settings.
        write_id: What the names of this write's files have in them, before the task's number.
    """

    config: CheckpointConfig
    context: DataContext
    write_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def source(
        self, plan: Operator, folder: str | None = None, filesystem: pa.fs.FileSystem | None = None
    ) -> Operator:
        """The plan without the rows that were written, to files in ``folder`` if to files.

        Raises:
            InvalidCheckpointingOperators: The plan does more than to change each row.
        """
        config = self.config
        config.filesystem.create_dir(config._folder, recursive=True)
        manager = (config.checkpoint_manager_cls or IdColumnCheckpointManager)(
            checkpoint_config=config, data_context=self.context
        )
        there, _ = manager.load_checkpoint(folder, filesystem)
        kind = config.checkpoint_filter_cls or NumpyArrayBasedCheckpointFilter
        return _without(plan, _Unwritten(kind(config, there), config.id_column))

    def stream(self, write: Stream) -> Stream:
        """The step that writes a task's rows, as one that remembers their ids then."""
        return _Remembered(write, self.config, self.write_id)

    def complete(self) -> None:
        """All rows are written."""
        if self.config.delete_checkpoint_on_success:
            self.config.filesystem.delete_dir(self.config._folder)


def _without(plan: Operator, step: Transform) -> Operator:
    if isinstance(plan, Read | InputBlocks):
        return Map(plan, step)
    if isinstance(plan, Map):
        return dataclasses.replace(plan, source=_without(plan.source, step))
    raise InvalidCheckpointingOperators(
        f"A write with a checkpoint goes on row by row, which {plan.name} does not. Write its result "
        "without `checkpoint_config`, or write what is before it first and read that."
    )


@dataclass
class _Unwritten(Transform):
    """The rows that were not written yet."""

    left_out: CheckpointFilter
    id_column: str
    name: str = "LeaveOutWritten"

    def reads(self, needed: Names) -> Names:
        """The ids, too; those of a program's own class may need any column."""
        if type(self.left_out) is not NumpyArrayBasedCheckpointFilter:
            return None
        return joined_names(needed, frozenset([self.id_column]))

    def apply(self, tables: Tables, fn: object) -> Tables:
        """Leave them out, block by block."""
        for table in tables:
            if not table.num_columns:
                yield table
                continue
            _check(self.id_column, table, "The rows that are read have")
            yield self.left_out.filter_rows_for_block(table)


@dataclass
class _Remembered:
    """Writes, and then writes down the ids of what was written.

    A file that says that the task has begun is there in between, so that what is written in part is
    found: files of rows have the same words in their names.
    """

    write: Stream
    config: CheckpointConfig
    write_id: str

    def __call__(self, tables: Tables) -> Tables:
        """Write all tables of a task."""
        name = f"{self.write_id}_{task.index():06}"
        ids: list[pa.Table] = []
        begun = posixpath.join(self.config._folder, name + BEGUN)
        with self.config.filesystem.open_output_stream(begun):
            pass
        written = list(self.write(self._seen(tables, ids)))
        if ids:
            self._keep(name, pa.concat_tables(ids, promote_options="default"))
        with contextlib.suppress(FileNotFoundError):  # an attempt before this one was faster
            self.config.filesystem.delete_file(begun)
        yield from written

    def _seen(self, tables: Tables, ids: list[object]) -> Iterator[pa.Table]:
        for table in tables:
            if table.num_rows:
                _check(self.config.id_column, table, "The rows that are written have")
                ids.append(table.select([self.config.id_column]))
            yield table

    def _keep(self, name: str, ids: object) -> None:
        made = pa.BufferOutputStream()
        pq.write_table(ids, made)
        final = posixpath.join(self.config._folder, name + WRITTEN)
        # A file of a file system has its name when it is whole; an object of a store is whole or not there.
        is_local = isinstance(self.config.filesystem, pafs.LocalFileSystem)
        path = f"{final}.{uuid.uuid4().hex}" if is_local else final
        with self.config.filesystem.open_output_stream(path) as file:
            file.write(made.getvalue())
        if is_local:
            self.config.filesystem.move(path, final)


def _check(name: str, table: pa.Table, whose: str) -> None:
    if name not in table.column_names:
        raise InvalidCheckpointingConfig(
            f"{whose} no column {name!r}, by which the checkpoint knows them; they have "
            f"{table.column_names}. Keep the column up to the write."
        )
