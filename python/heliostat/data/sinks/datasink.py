"""Sinks of the user's own: derive from ``Datasink``, then ``Dataset.write_datasink``."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from heliostat.data import tensors
from heliostat.data.plan import task

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Value


@dataclass
class TaskContext:
    """The task that writes: its number, and options of the program's own."""

    task_idx: int
    op_name: str = "Write"
    kwargs: dict[str, Value] = field(default_factory=dict)


@dataclass
class WriteResult:
    """The sums of what was written, and the results of each task's ``write``.

    Attributes:
        num_rows: Rows.
        size_bytes: Bytes in memory.
        write_returns: What ``write`` returned, one entry a task.

    Examples:
        >>> import ray
        >>> from ray.data import Datasink
        >>> class Telling(Datasink):
        ...     def write(self, blocks, ctx):
        ...         return "done"
        ...     def on_write_complete(self, write_result):
        ...         print(write_result.num_rows, set(write_result.write_returns))
        >>> ray.data.range(10).write_datasink(Telling())
        10 {'done'}
    """

    num_rows: int
    size_bytes: int
    write_returns: list[Value]

    @classmethod
    def combine(cls, *several: WriteResult) -> WriteResult:
        """Return what several writes wrote together.

        Args:
            *several: The results.
        """
        return cls(
            sum(one.num_rows for one in several),
            sum(one.size_bytes for one in several),
            [value for one in several for value in one.write_returns],
        )


T = TypeVar("T")
WriteReturnType = Any
WRITE_ID = "write_uuid"  # among the options of a task: the same in all tasks of a write


class Datasink(Generic[T]):
    """Base class of sinks. Tasks may be tried again: ``write`` must bear that.

    Examples:
        >>> import ray
        >>> from ray.data import Datasink
        >>> from ray.data.block import BlockAccessor
        >>> class Counting(Datasink):
        ...     def write(self, blocks, ctx):
        ...         return sum(BlockAccessor.for_block(block).num_rows() for block in blocks)
        ...     def on_write_complete(self, write_result):
        ...         print(sum(write_result.write_returns), "rows are written")
        >>> ray.data.range(10).write_datasink(Counting())
        10 rows are written
    """

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Called once, where the dataset is written from, before any task.

        Args:
            schema: The ``pyarrow.Schema`` of what is written; ``None``: it is not known.
        """

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> T:
        """Called in each task with its blocks. To be implemented.

        Args:
            blocks: Tables.
            ctx: The task.

        Returns:
            Something for ``on_write_complete``, which can be pickled.
        """
        raise NotImplementedError

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Called once, after all tasks.

        Args:
            write_result: What was written, and what each task returned.
        """

    def on_write_failed(self, error: Exception) -> None:
        """Called once when the execution fails.

        Args:
            error: Why.
        """

    def get_name(self) -> str:
        """Return what plans call it."""
        return type(self).__name__.removesuffix("Datasink")

    @property
    def supports_distributed_writes(self) -> bool:
        """Whether tasks on any node can write to it."""
        return True

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows that each ``write`` gets at least."""
        return None

    @property
    def min_bytes_per_write(self) -> int | None:
        """Bytes in memory that each ``write`` gets at least."""
        return None


class DummyOutputDatasink(Datasink[None]):
    """Writes nothing, and counts what it was given.

    Examples:
        >>> import ray
        >>> from ray.data.datasource import DummyOutputDatasink
        >>> sink = DummyOutputDatasink()
        >>> ray.data.range(10).write_datasink(sink)
        >>> sink.num_ok, sink.rows_written
        (1, 10)
    """

    def __init__(self) -> None:
        self.num_ok = self.num_failed = self.rows_written = 0

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        """Take the blocks."""
        for _ in blocks:
            pass

    def on_write_complete(self, write_result: WriteResult) -> None:
        """Count the rows."""
        self.num_ok += 1
        self.rows_written += write_result.num_rows

    def on_write_failed(self, error: Exception) -> None:
        """Count the failure."""
        self.num_failed += 1


@dataclass
class Writing:
    """Runs a sink over the tables of a task; gives a table with what came of it."""

    sink: Datasink[Value]
    write_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        import pyarrow as pa

        given = [t for t in tables if t.num_rows]
        if not given:
            return
        about = TaskContext(task.index(), self.sink.get_name(), {WRITE_ID: self.write_id})
        returned = self.sink.write(given, about)
        rows, size = sum(t.num_rows for t in given), sum(t.nbytes for t in given)
        yield pa.table(
            {"rows": [rows], "bytes": [size], "returned": tensors.from_objects([returned])}
        )
