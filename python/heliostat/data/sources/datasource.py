"""Sources of the user's own: derive from ``Datasource``, then ``read_datasource``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from heliostat.data import block
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.plan.operators import Read, ReadPart
from heliostat.data.sources.memory import read_count


class ReadTask:
    """A part of a source.

    Args:
        read_fn: Called in a task; gives the blocks: tables, DataFrames or dicts of arrays.
        metadata: ``num_rows``, ``size_bytes`` and ``input_files`` of them, None where unknown.
        schema: Their Arrow schema, if it is known.
        per_task_row_limit: Rows to read at most.
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Any]],
        metadata: BlockMetadata,
        schema: Any = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self.read_fn, self.metadata = read_fn, metadata
        self.schema, self.per_task_row_limit = schema, per_task_row_limit

    def __call__(self) -> Iterator[Any]:
        left = self.per_task_row_limit
        for made in self.read_fn():
            table = block.from_batch(made, "the read task")
            if left is not None:
                table = table.slice(0, left)
                left -= table.num_rows
            yield table
            if left == 0:
                return

    def part(self) -> ReadPart:
        """The task as plans know it."""
        about = self.metadata
        size = -1 if about.size_bytes is None else about.size_bytes
        rows = -1 if about.num_rows is None else about.num_rows
        return ReadPart(self, rows, size, list(about.input_files or ()))


class Datasource:
    """Base class of sources."""

    def get_name(self) -> str:
        """Return what plans call it."""
        return type(self).__name__.removesuffix("Datasource")

    def estimate_inmemory_data_size(self) -> int | None:
        """Return its size in memory, None if it is not known."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return about ``parallelism`` tasks that together read everything."""
        raise NotImplementedError


def read_datasource(
    datasource: Datasource,
    *,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: dict[str, Any] | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    **_: Any,
) -> Dataset:
    """Return a dataset of a source of the program's own."""
    given = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory}
    remote = {**(ray_remote_args or {}), **{k: v for k, v in given.items() if v is not None}}
    wanted = override_num_blocks or (parallelism if parallelism > 0 else None)

    def tasks() -> list[ReadPart]:
        size = datasource.estimate_inmemory_data_size() or 0
        return [t.part() for t in datasource.get_read_tasks(read_count(1, size, wanted))]

    return Dataset(Read(datasource.get_name(), tasks, remote_args=remote, concurrency=concurrency))


def read_sql(
    sql: str, connection_factory: Callable[[], Any], *, sql_params: Any = None, **options: Any
) -> Dataset:
    """Return a dataset of the rows of a query, read in one task.

    Args:
        sql: The query.
        connection_factory: Makes a connection of Python's database interface, in the task.
        sql_params: Parameters of the query.
        **options: Those of :func:`read_datasource`.
    """

    def read() -> Iterator[Any]:
        connection = connection_factory()
        try:
            cursor = connection.cursor()
            cursor.execute(sql, sql_params) if sql_params is not None else cursor.execute(sql)
            names = [column[0] for column in cursor.description]
            while True:
                rows = cursor.fetchmany(ROWS_AT_ONCE)
                if not rows:
                    return
                yield block.from_rows([dict(zip(names, row, strict=True)) for row in rows])
        finally:
            connection.close()

    return read_datasource(_Sql(read), **options)


ROWS_AT_ONCE = 10_000


class _Sql(Datasource):
    def __init__(self, read: Callable[[], Iterator[Any]]) -> None:
        self._read = read

    def get_name(self) -> str:
        return "SQL"

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        return [ReadTask(self._read, BlockMetadata(None, None))]
