"""Sources that programs make by their class, and read with ``read_datasource``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from heliostat.data.block import BlockMetadata
from heliostat.data.plan.operators import Operator, Read
from heliostat.data.sources.datasource import Datasource, ReadTask
from heliostat.data.sources.memory import spans

if TYPE_CHECKING:
    from heliostat.data.context import DataContext
    from heliostat.data.dataset import Dataset


class _OfReader(Datasource):
    """The source that a function such as ``read_mcap`` reads."""

    def __init__(self, reader: Callable[..., Dataset], *args: object, **options: object) -> None:
        self._reader, self._args, self._options = reader, args, options
        self._of(1)  # wrong arguments are told here

    def _of(self, parallelism: int) -> Read:
        made = self._reader(*self._args, **self._options, override_num_blocks=parallelism)
        plan: Operator = made._plan
        while not isinstance(plan, Read):
            (plan,) = plan.inputs
        return plan

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return about so many tasks that together read everything.

        Args:
            parallelism: How many.
            per_task_row_limit: Rows that a task needs to read at most; ``None``: all.
            data_context: The settings of the dataset.
        """
        read = self._of(parallelism)
        return [
            ReadTask(
                part.read,
                BlockMetadata(
                    None if part.rows < 0 else part.rows,
                    None if part.size < 0 else part.size,
                    input_files=part.files,
                ),
                read.schema,
                per_task_row_limit,
            )
            for part in read.tasks()
        ]


class MCAPDatasource(_OfReader):
    """The messages of MCAP files, as :func:`read_mcap` reads them.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        topics: Which topics to read. Default: all.
        time_range: A ``TimeRange`` of the log's time in ns. Default: all of it.
        message_types: Names of schemas: messages of others are not read. Default: all.
        include_metadata: Add the columns of the channel and the schema. Default True.
        **file_based_datasource_kwargs: Those of all readers of files.

    Raises:
        ImportError: mcap is not installed.

    Examples:
        >>> import ray
        >>> from ray.data.datasource import MCAPDatasource
        >>> def camera(folder):
        ...     return ray.data.read_datasource(MCAPDatasource(folder, topics={"/camera/front"}))
    """

    def __init__(
        self,
        paths: str | list[str],
        topics: Any = None,
        time_range: Any = None,
        message_types: Any = None,
        include_metadata: bool = True,
        **file_based_datasource_kwargs: object,
    ) -> None:
        from heliostat.data.sources.media import read_mcap

        super().__init__(
            read_mcap,
            paths,
            topics=topics,
            time_range=time_range,
            message_types=message_types,
            include_metadata=include_metadata,
            **file_based_datasource_kwargs,
        )


class LeRobotDatasource(_OfReader):
    """The frames of a LeRobot dataset, as :func:`read_lerobot` reads them.

    Args:
        root: Its folder, or several.
        **options: Those of :func:`read_lerobot`: ``episodes``, ``read_granularity``, ``filesystem``,
            ``storage_options``, ``frame_tolerance_s``, ``delta_timestamps``, ``delta_tolerance_s``.

    Raises:
        FileNotFoundError: There is none.

    Examples:
        >>> import ray
        >>> from ray.data.datasource import LeRobotDatasource
        >>> def frames():
        ...     return ray.data.read_datasource(LeRobotDatasource("/data/pusht", episodes=[0, 1]))
    """

    def __init__(self, root: Any, **options: object) -> None:
        from heliostat.data.sources.lerobot import read_lerobot

        super().__init__(read_lerobot, root, **options)

    def _of(self, parallelism: int) -> Read:
        made = self._reader(*self._args, **self._options)  # it knows its number of tasks
        plan = made._plan
        assert isinstance(plan, Read)
        return plan


class DeltaSharingDatasource(_OfReader):
    """A table that somebody shares, as :func:`read_delta_sharing_tables` reads it.

    Args:
        url: The file of the profile, and the table: "<profile>#<share>.<schema>.<table>".
        json_predicate_hints: A condition in the protocol's JSON, by which the server may leave out files.
        limit: Rows that are needed, by which the server may leave out files. Default: all.
        version: Of the table. Default: the last one.
        timestamp: The version as of a time instead.

    Raises:
        ImportError: delta-sharing is not installed.
        ValueError: ``url`` is no such.

    Examples:
        >>> import ray
        >>> from ray.data.datasource import DeltaSharingDatasource
        >>> def sales():
        ...     source = DeltaSharingDatasource("/secrets/partner.share#retail.public.sales", limit=1000)
        ...     return ray.data.read_datasource(source)
    """

    def __init__(
        self,
        url: str,
        json_predicate_hints: str | None = None,
        limit: int | None = None,
        version: int | None = None,
        timestamp: str | None = None,
    ) -> None:
        from heliostat.data.sources.sharing import read_delta_sharing_tables

        super().__init__(
            read_delta_sharing_tables,
            url,
            json_predicate_hints=json_predicate_hints,
            limit=limit,
            version=version,
            timestamp=timestamp,
        )


class RandomIntRowDatasource(Datasource):
    """Rows of random integers, for trying things out.

    Args:
        n: Rows.
        num_columns: Columns, ``c_0`` and so on, of integers below 2**63.

    Examples:
        >>> import ray
        >>> from ray.data.datasource import RandomIntRowDatasource
        >>> ds = ray.data.read_datasource(RandomIntRowDatasource(n=100, num_columns=2))
        >>> ds.count()
        100
    """

    def __init__(self, n: int, num_columns: int) -> None:
        self._rows, self._columns = n, num_columns

    def get_name(self) -> str:
        """Return what plans call it."""
        return "RandomInt"

    def estimate_inmemory_data_size(self) -> int | None:
        """Return its size in memory in bytes."""
        return self._rows * self._columns * 8

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return about so many tasks that together make all rows.

        Args:
            parallelism: How many.
            per_task_row_limit: Rows that a task needs to make at most; ``None``: all.
            data_context: The settings of the dataset.
        """
        cuts = list(spans(self._rows, max(1, min(parallelism, self._rows)))) or [(0, 0)]
        return [
            ReadTask(
                _RandomInts(end - begin, self._columns),
                BlockMetadata(end - begin, (end - begin) * self._columns * 8),
                pa.schema([(f"c_{i}", pa.int64()) for i in range(self._columns)]),
                per_task_row_limit,
            )
            for begin, end in cuts
        ]


@dataclass(frozen=True)
class _RandomInts:
    rows: int
    columns: int

    def __call__(self) -> list[pa.Table]:
        drawn = np.random.default_rng().integers(0, 1 << 63, (self.columns, self.rows), np.int64)
        return [pa.table({f"c_{i}": column for i, column in enumerate(drawn)})]
