"""Settings of the data library: how much memory and how many CPUs an execution may use, and more."""

from __future__ import annotations

import contextlib
import copy
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heliostat.core.platform import settings
from heliostat.data.amounts import ExecutionResources
from heliostat.data.unused_settings import (
    MIB,
    TRANSIENT_S3_ERRORS,
    AutoscalingConfig,
    DeltaConfig,
    IcebergConfig,
    LanceConfig,
    ShuffleStrategy,
    UnusedSettings,
)

if TYPE_CHECKING:
    from heliostat.data.checkpoint.interfaces import CheckpointConfig

__all__ = [
    "AutoscalingConfig",
    "DataContext",
    "DatasetContext",
    "DeltaConfig",
    "ExecutionOptions",
    "ExecutionResources",
    "IcebergConfig",
    "LanceConfig",
    "ShuffleStrategy",
]


@dataclass
class ExecutionOptions:
    """Options of the execution of a dataset.

    Args:
        resource_limits: What the execution may use at most. Default: what the cluster has free.
        exclude_resources: What it leaves for others.
        preserve_order: Kept for compatibility: blocks always come in the order of their inputs.
        actor_locality_enabled: Prefer actors on the node of a block.
        verbose_progress: Show each operator.
        label_selector: Labels that nodes of all tasks must have.

    Examples:
        >>> import ray
        >>> from ray.data import ExecutionOptions, ExecutionResources
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.execution_options = ExecutionOptions(
        ...     resource_limits=ExecutionResources(cpu=1, object_store_memory=10**9)
        ... )
        >>> with ray.data.DataContext.current(context):
        ...     ray.data.range(4).count()
        4
    """

    resource_limits: ExecutionResources = field(default_factory=ExecutionResources.for_limits)
    exclude_resources: ExecutionResources = field(default_factory=ExecutionResources.zero)
    preserve_order: bool = False
    actor_locality_enabled: bool = True
    verbose_progress: bool = True
    label_selector: dict[str, str] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "resource_limits":
            value = ExecutionResources.for_limits() if value is None else value.as_limits()
        elif name == "exclude_resources" and value is None:
            value = ExecutionResources.zero()
        super().__setattr__(name, value)

    def validate(self) -> None:
        """Refuse limits that contradict each other.

        Raises:
            ValueError: A resource has a limit and is excluded in part.
        """
        for name in ("cpu", "gpu", "object_store_memory"):
            is_limited = getattr(self.resource_limits, name) != math.inf
            if getattr(self.exclude_resources, name) and is_limited:
                raise ValueError(
                    f"resource_limits and exclude_resources cannot both be set for {name}."
                )


_PLAIN = frozenset((bool, int, float, str, type(None)))


def _min_parallelism() -> int:
    return settings.whole("DATA_DEFAULT_MIN_PARALLELISM")


def _whole(seconds: float) -> float:
    """An int where there is no fraction, as Ray has it."""
    return int(seconds) if seconds.is_integer() else seconds


def _checkpoint_config(value: object) -> CheckpointConfig:
    from heliostat.data.checkpoint.interfaces import CheckpointBackend, CheckpointConfig

    if isinstance(value, dict):
        backend = value.get("override_backend")
        if isinstance(backend, str):
            value = {**value, "override_backend": CheckpointBackend[backend]}
        return CheckpointConfig(**value)
    if not isinstance(value, CheckpointConfig):
        raise TypeError(
            "`checkpoint_config` takes a CheckpointConfig, a dict of its arguments, or None; got "
            f"{value!r}."
        )
    return value


@dataclass
class DataContext(UnusedSettings):
    """Settings that a dataset takes with it when it is made. Sizes in bytes.

    The other names are Ray's and change nothing: see ``UnusedSettings``. A name of the program's own
    may be set, too, and is kept.

    Args:
        execution_options: Limits of resources, order of results, and further ``ExecutionOptions``.
        target_max_block_size: Outputs of tasks are cut into blocks of about this size. Smaller where
            the object store is small, so that several fit. None: never cut.
        target_min_block_size: Reads are not split into less than this.
        read_op_min_num_blocks: Blocks that a large read is split into at least.
        min_parallelism: Its older name.
        execution_no_progress_timeout_s: An execution in which no block has moved and no task has begun
            or ended for so long raises ``ExecutionTimeoutError``, in seconds; 0 or less: never.
        wait_for_min_actors_s: Start the initial actors of each pool before anything else runs, and raise
            ``GetTimeoutError`` if they are not ready after so long, in seconds; 0 or less: start them
            beside the other tasks.
        enable_progress_bars: Show progress of executions that take more than a moment.
        enable_rich_progress_bars: Show it as a table that is drawn again, on a terminal.
        enable_stats_summary_collection: Keep the figures of finished executions for ``list_stats_summaries``.
        checkpoint_config: Remember in a folder which rows a write has written, so that the same program, run
            again, goes on there: a ``CheckpointConfig`` of ``heliostat.data.checkpoint``, or its arguments
            as a dict.
        enable_arrow_backed_pandas_conversion: DataFrames made of blocks have columns of Arrow types
            ("int64[pyarrow]"), which hold missing values; False: numpy's types, where integers with
            missing values become floats. Columns of ``from_pandas`` keep their own types.
        actor_task_retry_on_errors: Errors of a callable class after which its task is begun again, as
            often as after a death: a list of classes, or True for all.
        retried_io_errors: Parts of classes and messages of errors, or patterns of them, after which a read
            goes on where it was and the write of a file is begun again.
        max_errored_blocks: Blocks that may fail before an execution does; -1: any number.
        scheduling_strategy: Where tasks go in a cluster of several nodes.
        store_fraction: Part of the object store that one execution keeps full at most.
        max_task_retries_on_death: How often a task is begun again whose process died.

    Raises:
        ValueError: While setting, ``shuffle_strategy`` is none of ``ShuffleStrategy``.
        TypeError: While setting, ``checkpoint_config`` is of another type.

    Examples:
        >>> import ray
        >>> context = ray.data.DataContext.get_current()
        >>> context.target_max_block_size // 2**20  # MiB
        128
        >>> smaller = context.copy()
        >>> smaller.target_max_block_size = 32 * 2**20
        >>> with ray.data.DataContext.current(smaller):
        ...     ds = ray.data.range(10)  # takes these settings with it
    """

    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    target_max_block_size: int | None = 128 * MIB
    target_min_block_size: int = 1 * MIB
    read_op_min_num_blocks: int = field(default_factory=_min_parallelism)
    min_parallelism: int = field(default_factory=_min_parallelism)
    execution_no_progress_timeout_s: float = field(
        default_factory=lambda: _whole(settings.number("DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S"))
    )
    wait_for_min_actors_s: float = field(
        default_factory=lambda: settings.number("DATA_DEFAULT_WAIT_FOR_MIN_ACTORS_S")
    )
    enable_progress_bars: bool = field(
        default_factory=lambda: not settings.flag("DATA_DISABLE_PROGRESS_BARS")
    )
    enable_rich_progress_bars: bool = True
    enable_stats_summary_collection: bool = False
    checkpoint_config: CheckpointConfig | None = None
    enable_arrow_backed_pandas_conversion: bool = True
    actor_task_retry_on_errors: bool | list[type[BaseException]] = False
    retried_io_errors: list[str] = field(
        default_factory=lambda: [*TRANSIENT_S3_ERRORS, "AWS Error SERVICE_UNAVAILABLE"]
    )
    max_errored_blocks: int = 0
    scheduling_strategy: str = "SPREAD"
    store_fraction: float = 0.25
    max_task_retries_on_death: int = 10
    _executions: int = field(default=0, init=False, repr=False, compare=False)
    # Whether plans are optimised; false only where a test compares both.
    _optimizes: bool = field(default=True, init=False, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "shuffle_strategy":
            value = ShuffleStrategy(value)
        elif name == "checkpoint_config" and value is not None:
            value = _checkpoint_config(value)
        elif name == "min_parallelism" and value != _min_parallelism():  # its older name, too
            self.read_op_min_num_blocks = value
        elif name == "use_push_based_shuffle" and value:  # the older name of a strategy
            self.shuffle_strategy = ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED
        super().__setattr__(name, value)

    @staticmethod
    def get_current() -> DataContext:
        """The settings that datasets made from here on will have; change them in place.

        Examples:
            >>> import ray
            >>> ray.data.DataContext.get_current().target_max_block_size
            134217728
        """
        global _current
        with _lock:
            if _current is None:
                _current = DataContext()
            return _current

    @staticmethod
    def _set_current(context: DataContext) -> None:
        global _current
        _current = context

    @staticmethod
    @contextlib.contextmanager
    def current(context: DataContext) -> Iterator[None]:
        """Make a context the one of datasets that are made within the ``with``.

        Args:
            context: The settings.

        Yields:
            Nothing.
        """
        before = DataContext.get_current()
        DataContext._set_current(context)
        try:
            yield
        finally:
            DataContext._set_current(before)

    def set_dataset_logger_id(self, dataset_id: str) -> None:
        """Keep the id that logs of a dataset would have.

        Args:
            dataset_id: The id.
        """
        self.dataset_logger_id = dataset_id

    def copy(self) -> DataContext:
        """An independent copy."""
        made = object.__new__(type(self))
        for name, value in vars(self).items():  # most are numbers: `deepcopy` asks each for its way
            vars(made)[name] = value if type(value) in _PLAIN else copy.deepcopy(value)
        return made

    def _next_execution(self, number: int | None = None) -> int:
        """The number of an execution with these settings, from 0; those after ``number`` follow it."""
        self._executions = (self._executions if number is None else number) + 1
        return self._executions - 1

    def get_config(self, key: str, default: object = None) -> Any:
        """Return a value set by :meth:`set_config`.

        Args:
            key: Its name.
            default: What is returned where there is none. Default ``None``.
        """
        return self.__dict__.get("_configs", {}).get(key, default)

    def set_config(self, key: str, value: object) -> None:
        """Keep a value of the program's own.

        Args:
            key: Its name.
            value: The value; it is sent to the tasks of datasets made from here on.
        """
        self.__dict__.setdefault("_configs", {})[key] = value

    def remove_config(self, key: str) -> None:
        """Forget a value set by :meth:`set_config`.

        Args:
            key: Its name; nothing happens where there is none.
        """
        self.__dict__.get("_configs", {}).pop(key, None)


_current: DataContext | None = None
_lock = threading.Lock()

DatasetContext = DataContext  # its older name
