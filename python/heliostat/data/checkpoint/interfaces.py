"""The configuration of a checkpoint, and the errors about it."""

from __future__ import annotations

import enum
import inspect
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow.fs as pafs

from heliostat.data.sources.files import resolve

if TYPE_CHECKING:
    from heliostat.data.checkpoint.checkpoint_filter import CheckpointFilter, CheckpointManager

__all__ = [
    "CheckpointBackend",
    "CheckpointConfig",
    "InvalidCheckpointingConfig",
    "InvalidCheckpointingOperators",
]


class InvalidCheckpointingConfig(Exception):
    """A checkpoint cannot be kept as it was asked for.

    Examples:
        >>> from ray.data.checkpoint import CheckpointConfig
        >>> from ray.data.checkpoint.interfaces import InvalidCheckpointingConfig
        >>> try:
        ...     CheckpointConfig(id_column="", checkpoint_path="/shared/checkpoint")
        ... except InvalidCheckpointingConfig:
        ...     print("name the column of ids")
        name the column of ids
    """


class InvalidCheckpointingOperators(Exception):
    """The rows of a dataset cannot be told apart by their ids after what it does with them.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> from ray.data.checkpoint import CheckpointConfig
        >>> from ray.data.checkpoint.interfaces import InvalidCheckpointingOperators
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.checkpoint_config = CheckpointConfig(
        ...     id_column="id", checkpoint_path=tempfile.mkdtemp()
        ... )
        >>> with ray.data.DataContext.current(context):
        ...     try:
        ...         ray.data.range(4).groupby("id").count().write_parquet(tempfile.mkdtemp())
        ...     except InvalidCheckpointingOperators:
        ...         print("a group has no id of a row")
        a group has no id of a row
    """


class CheckpointBackend(enum.Enum):
    """The kind of storage for the ids of written rows: files of a file system, or objects of a store.

    Examples:
        >>> import tempfile
        >>> from ray.data.checkpoint import CheckpointBackend, CheckpointConfig
        >>> config = CheckpointConfig(id_column="id", checkpoint_path=tempfile.mkdtemp())
        >>> config.backend is CheckpointBackend.FILE_STORAGE
        True
    """

    CLOUD_OBJECT_STORAGE = "CLOUD_OBJECT_STORAGE"
    FILE_STORAGE = "FILE_STORAGE"


class CheckpointConfig:
    """The place and the column by which a write remembers the rows that it has written.

    Args:
        id_column: A column with another value in each row of the source, which is still there when the
            rows are written.
        checkpoint_path: A folder that every node reaches, as a path or URI. Default:
            ``$RAY_DATA_CHECKPOINT_PATH_BUCKET/ray_data_checkpoint``.
        delete_checkpoint_on_success: Delete it when the write is complete.
        override_filesystem: The ``pyarrow.fs.FileSystem`` of the folder.
        override_backend: Deprecated; found by the file system.
        write_num_threads: Kept for programs that set it: ids are written by the tasks that write rows.
        checkpoint_path_partition_filter: A ``PathPartitionFilter`` of the files of ids that count.
        checkpoint_filter_cls: A ``CheckpointFilter`` of the program's own.
        checkpoint_manager_cls: A ``CheckpointManager`` of the program's own.

    Raises:
        InvalidCheckpointingConfig: There is no column's name, no path, no such file system, or a class
            is not one of those that it must derive from.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> from ray.data.checkpoint import CheckpointConfig
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.checkpoint_config = CheckpointConfig(
        ...     id_column="id", checkpoint_path=tempfile.mkdtemp()
        ... )
        >>> out = tempfile.mkdtemp()
        >>> with ray.data.DataContext.current(context):
        ...     ray.data.range(10).write_parquet(out)  # run again after a failure, it goes on
        >>> ray.data.read_parquet(out).count()
        10
    """

    DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR = "RAY_DATA_CHECKPOINT_PATH_BUCKET"
    DEFAULT_CHECKPOINT_PATH_DIR = "ray_data_checkpoint"

    def __init__(
        self,
        id_column: str | None = None,
        checkpoint_path: str | None = None,
        *,
        delete_checkpoint_on_success: bool = True,
        override_filesystem: pafs.FileSystem | None = None,
        override_backend: CheckpointBackend | None = None,
        write_num_threads: int = 3,
        checkpoint_path_partition_filter: Callable[[list[str]], list[str]] | None = None,
        checkpoint_filter_cls: type[CheckpointFilter] | None = None,
        checkpoint_manager_cls: type[CheckpointManager] | None = None,
    ) -> None:
        from heliostat.data.checkpoint import checkpoint_filter as bases

        if not isinstance(id_column, str) or not id_column:
            raise InvalidCheckpointingConfig(
                f"`id_column` must name a column whose values differ in each row, got {id_column!r}."
            )
        _check(checkpoint_filter_cls, bases.CheckpointFilter, "checkpoint_filter_cls")
        _check(checkpoint_manager_cls, bases.CheckpointManager, "checkpoint_manager_cls")
        if override_backend is not None:
            warnings.warn(
                "`override_backend` is deprecated: the kind of storage is found by its file system.",
                FutureWarning,
                stacklevel=2,
            )
        self.id_column = id_column
        self.checkpoint_path = os.fspath(checkpoint_path) if checkpoint_path else self._default()
        try:
            self._folder, self.filesystem = resolve(self.checkpoint_path, override_filesystem)
        except ValueError as error:
            raise InvalidCheckpointingConfig(f"`checkpoint_path`: {error}") from error
        is_local = isinstance(self.filesystem, pafs.LocalFileSystem)
        found = CheckpointBackend.FILE_STORAGE if is_local else None
        self.backend = override_backend or found or CheckpointBackend.CLOUD_OBJECT_STORAGE
        self.delete_checkpoint_on_success = delete_checkpoint_on_success
        self.write_num_threads = write_num_threads
        self.checkpoint_path_partition_filter = checkpoint_path_partition_filter
        self.checkpoint_filter_cls = checkpoint_filter_cls
        self.checkpoint_manager_cls = checkpoint_manager_cls

    def _default(self) -> str:
        bucket = os.environ.get(self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR)
        if not bucket:
            raise InvalidCheckpointingConfig(
                "There is no folder for the checkpoint: give `checkpoint_path`, or set "
                f"{self.DEFAULT_CHECKPOINT_PATH_BUCKET_ENV_VAR}."
            )
        return f"{bucket}/{self.DEFAULT_CHECKPOINT_PATH_DIR}"


def _check(kind: object, base: type, name: str) -> None:
    if kind is None:
        return
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise InvalidCheckpointingConfig(
            f"`{name}` must be a subclass of {base.__name__}, got {kind!r}."
        )
    if inspect.isabstract(kind):
        raise InvalidCheckpointingConfig(
            f"`{name}` must implement all abstract methods of {base.__name__}; {kind.__name__} does not."
        )
