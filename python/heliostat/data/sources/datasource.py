"""Sources of the user's own: derive from ``Datasource``, then ``read_datasource``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from heliostat.data import block
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.expressions.expr import Expr
from heliostat.data.plan.operators import Pushable, Read, ReadPart
from heliostat.data.sources import options
from heliostat.data.sources.memory import read_count

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Batch, RemoteArgs
    from heliostat.data.context import DataContext


class ReadTask:
    """A part of a source.

    Args:
        read_fn: Called in a task; gives the blocks: tables, DataFrames or dicts of arrays.
        metadata: ``num_rows``, ``size_bytes`` and ``input_files`` of them, None where unknown.
        schema: Their Arrow schema, if it is known.
        per_task_row_limit: Rows to read at most.

    Examples:
        >>> import pyarrow as pa
        >>> from ray.data import ReadTask
        >>> from ray.data.block import BlockMetadata
        >>> part = ReadTask(
        ...     lambda: [pa.table({"id": [1, 2]})], BlockMetadata(num_rows=2, size_bytes=16)
        ... )
        >>> [table.num_rows for table in part()]
        [2]
    """

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Batch]],
        metadata: BlockMetadata,
        schema: pa.Schema | None = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self.read_fn, self.metadata = read_fn, metadata
        self.schema, self.per_task_row_limit = schema, per_task_row_limit

    def __call__(self) -> Iterator[pa.Table]:
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
    """Base class of sources: derive from it, implement :meth:`get_read_tasks` and
    :meth:`estimate_inmemory_data_size`, and pass an instance to ``ray.data.read_datasource``.

    Examples:
        >>> import pyarrow as pa
        >>> import ray
        >>> from ray.data import Datasource, ReadTask
        >>> from ray.data.block import BlockMetadata
        >>> class Squares(Datasource):
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def estimate_inmemory_data_size(self):
        ...         return 8 * self.n
        ...     def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        ...         def read(start, stop):
        ...             yield pa.table({"square": [i * i for i in range(start, stop)]})
        ...         half = self.n // 2
        ...         return [
        ...             ReadTask(
        ...                 lambda a=a, b=b: read(a, b), BlockMetadata(num_rows=b - a, size_bytes=8 * (b - a))
        ...             )
        ...             for a, b in ((0, half), (half, self.n))
        ...         ]
        >>> ray.data.read_datasource(Squares(4)).take_all()
        [{'square': 0}, {'square': 1}, {'square': 4}, {'square': 9}]
    """

    def get_name(self) -> str:
        """Return what plans call it."""
        return type(self).__name__.removesuffix("Datasource")

    def estimate_inmemory_data_size(self) -> int | None:
        """Return its size in memory in bytes, None if it is not known."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return about so many tasks that together read everything. To be implemented.

        Args:
            parallelism: How many.
            per_task_row_limit: Rows that a task needs to read at most; ``None``: all.
            data_context: The settings of the dataset.
        """
        raise NotImplementedError

    # --- what the plan tells it ---

    _projection_map: dict[str, str] | None = None
    _predicate_expr: Expr | None = None

    def supports_projection_pushdown(self) -> bool:
        """Return whether its tasks leave out the columns that :meth:`get_projection_map` does not have."""
        return False

    def get_projection_map(self) -> dict[str, str] | None:
        """Return the columns that are needed, each name to itself; None: all of them."""
        return self._projection_map

    def apply_projection(self, projection_map: dict[str, str] | None) -> Datasource:
        """Return a copy that reads only some columns, of those that it read before.

        Args:
            projection_map: The columns, by the name that they get; ``None``: all.
        """
        made = copy.copy(self)
        if projection_map is not None:
            names = projection_map if self._projection_map is None else self._projection_map
            made._projection_map = {name: name for name in names if name in projection_map}
        return made

    def supports_predicate_pushdown(self) -> bool:
        """Return whether its tasks leave out the rows that do not meet :meth:`get_current_predicate`."""
        return False

    def get_current_predicate(self) -> Expr | None:
        """Return the condition that rows must meet; None: there is none.

        ``to_pyarrow()`` of it is what filters of pyarrow's datasets take.
        """
        return self._predicate_expr

    def apply_predicate(self, predicate_expr: Expr) -> Datasource:
        """Return a copy that reads only the rows that meet this condition, and those before it.

        Args:
            predicate_expr: The condition.
        """
        made = copy.copy(self)
        before = self._predicate_expr
        made._predicate_expr = predicate_expr if before is None else before & predicate_expr
        return made

    # --- the older way ---

    def prepare_read(self, parallelism: int, **read_args: object) -> list[ReadTask]:
        """Return the tasks. Deprecated: implement :meth:`get_read_tasks`. Used where that is not implemented.

        Args:
            parallelism: How many, about.
            **read_args: Arguments of ``read_datasource`` that this does not know.

        Raises:
            NotImplementedError: It is not implemented, and ``get_read_tasks`` neither.
        """
        raise NotImplementedError

    def create_reader(self, **read_args: object) -> Reader:
        """Return a reader. Deprecated: implement :meth:`get_read_tasks`. Used where that is not implemented.

        Args:
            **read_args: Arguments of ``read_datasource`` that this does not know.
        """
        return _PreparedReader(self, read_args)

    @property
    def should_create_reader(self) -> bool:
        """Whether it is of the older kind, which :meth:`create_reader` reads."""
        return type(self).get_read_tasks is Datasource.get_read_tasks

    @property
    def supports_distributed_reads(self) -> bool:
        """Whether tasks on any node can read it."""
        return True


class Reader:
    """Deprecated: what ``Datasource.create_reader`` gives.

    Examples:
        >>> from ray.data.datasource import Datasource, Reader
        >>> class Nothing(Datasource):
        ...     def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
        ...         return []
        >>> isinstance(Nothing().create_reader(), Reader)
        True
    """

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the size in memory in bytes, ``None`` if it is not known. To be implemented."""
        raise NotImplementedError

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        """Return about so many tasks that together read everything. To be implemented.

        Args:
            parallelism: How many.
        """
        raise NotImplementedError


class _PreparedReader(Reader):
    def __init__(self, datasource: Datasource, read_args: dict[str, object]) -> None:
        self._datasource, self._read_args = datasource, read_args

    def estimate_inmemory_data_size(self) -> int | None:
        return self._datasource.estimate_inmemory_data_size()

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        return self._datasource.prepare_read(parallelism, **self._read_args)


@options.shows(options.OF_TASKS, "read_args", compute=None)
def read_datasource(
    datasource: Datasource,
    *,
    parallelism: int = -1,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    memory: float | None = None,
    ray_remote_args: RemoteArgs | None = None,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    **read_args: Any,
) -> Dataset:
    """Return a dataset of a source of the program's own.

    Args:
        datasource: The source.
        parallelism: Deprecated name of ``override_num_blocks``.
        num_cpus: CPUs of each task. Default 1.
        num_gpus: GPUs of each task. Default 0.
        memory: Heap bytes of each task, for scheduling.
        ray_remote_args: Further options of the tasks.
        concurrency: Tasks at a time.
        override_num_blocks: Tasks to ask the source for. Default: by its size and the cluster's CPUs.
        **read_args: Further options of the tasks, such as ``resources`` and ``label_selector``; others are
            passed to ``create_reader`` of a source of the older kind.

    Raises:
        TypeError: There are others, and the source is not of that kind; or it is not a source.

    Examples:
        >>> import ray
        >>> from ray.data.datasource import RandomIntRowDatasource
        >>> ray.data.read_datasource(RandomIntRowDatasource(n=100, num_columns=2)).columns()
        ['c_0', 'c_1']
    """
    if not isinstance(datasource, Datasource):
        raise TypeError(
            "read_datasource takes a ray.data.Datasource, such as an object of a class that derives from "
            f"it; got {datasource!r}."
        )
    given = {"num_cpus": num_cpus, "num_gpus": num_gpus, "memory": memory}
    more = {name: read_args.pop(name) for name in options.REMOTE if name in read_args}
    remote = options.of_tasks({"ray_remote_args": ray_remote_args, **given, **more})
    wanted = options.blocks(
        {"parallelism": parallelism, "override_num_blocks": override_num_blocks}, stacklevel=3
    )
    given_source: Datasource | Reader = datasource
    if datasource.should_create_reader:
        given_source = datasource.create_reader(**read_args)
    else:
        options.refuse("read_datasource", read_args, ("datasource",))
    reads = _DatasourceReads(given_source, wanted)
    return Dataset(Read(datasource.get_name(), reads, remote_args=remote, concurrency=concurrency))


def dataset_of(
    datasource: Datasource, reader: str, given: dict[str, Any], known: tuple[str, ...] = ()
) -> Dataset:
    """Return a dataset of one of the sources that are built in.

    Args:
        datasource: The source.
        reader: The function that was called, for errors.
        given: Its options that are not the source's own: those of the tasks.
        known: The names of the others, for errors.

    Raises:
        TypeError: There are other options.
    """
    given = dict(given)
    wanted = options.blocks(given, stacklevel=5)
    remote, concurrency = options.of_tasks(given), given.pop("concurrency", None)
    options.refuse(reader, given, known)
    reads = _DatasourceReads(datasource, wanted)
    return Dataset(Read(datasource.get_name(), reads, remote_args=remote, concurrency=concurrency))


@dataclass(frozen=True)
class _DatasourceReads(Pushable):
    """The tasks of a source, asked for when it is executed."""

    datasource: Datasource | Reader
    wanted: int | None

    def __call__(self) -> list[ReadPart]:
        size = self.datasource.estimate_inmemory_data_size() or 0
        count = read_count(1, size, self.wanted)
        return [task.part() for task in self.datasource.get_read_tasks(count)]

    def with_filter(self, condition: Expr) -> _DatasourceReads | None:
        """Without the rows that do not meet a condition, where the source can leave them out."""
        source = self.datasource
        if isinstance(source, Reader) or not source.supports_predicate_pushdown():
            return None
        return replace(self, datasource=source.apply_predicate(condition))

    def with_columns(self, needed: frozenset[str]) -> _DatasourceReads | None:
        """Only these columns, where the source can leave others out."""
        source = self.datasource
        if isinstance(source, Reader) or not source.supports_projection_pushdown():
            return None
        names = {name: name for name in sorted(needed)}
        return replace(self, datasource=source.apply_projection(names))

    def with_limit(self, rows: int) -> None:
        """Do nothing: it is not known where the rows end."""
        return

    def counted(self) -> tuple[int, _DatasourceReads]:
        """No rows are certain."""
        return 0, self

    def pushed(self) -> str:
        """Return the pushed-down parts, in words."""
        if isinstance(self.datasource, Reader):
            return ""
        columns = self.datasource.get_projection_map()
        condition = self.datasource.get_current_predicate()
        said = [] if columns is None else [f"columns=[{', '.join(columns)}]"]
        said += [] if condition is None else [f"filter={condition.text()}"]
        return f"[{', '.join(said)}]" if said else ""
