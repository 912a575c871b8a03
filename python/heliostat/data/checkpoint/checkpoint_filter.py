"""The filter that leaves out the rows of a checkpoint: a program may replace it by its own."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

import heliostat as ray

if TYPE_CHECKING:
    from heliostat import ObjectRef
    from heliostat.data.checkpoint.interfaces import CheckpointConfig
    from heliostat.data.context import DataContext

__all__ = [
    "CheckpointFilter",
    "CheckpointManager",
    "IdColumnCheckpointManager",
    "NumpyArrayBasedCheckpointFilter",
]

WRITTEN = ".parquet"  # the ids of a task whose rows are written
BEGUN = ".pending"  # a task whose rows may be written in part


class CheckpointManager:
    """Reads a checkpoint, in the driver, before the write begins.

    Args:
        checkpoint_config: Where the checkpoint is.
        data_context: The settings of the dataset.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> from ray.data.checkpoint import CheckpointConfig, CheckpointManager
        >>> config = CheckpointConfig(id_column="id", checkpoint_path=tempfile.mkdtemp())
        >>> manager = CheckpointManager(config, ray.data.DataContext.get_current())
        >>> ids, size = manager.load_checkpoint()
        >>> len(ray.get(ids)), size  # nothing was written yet
        (0, 0)
    """

    def __init__(self, checkpoint_config: CheckpointConfig, data_context: DataContext) -> None:
        self.checkpoint_config, self.data_context = checkpoint_config, data_context

    def load_checkpoint(
        self, data_file_dir: str | None = None, data_file_filesystem: pa.fs.FileSystem | None = None
    ) -> tuple[ObjectRef, int]:
        """Return a reference to the ids of written rows, a numpy array, and its size in bytes.

        Files of tasks that had begun and not ended are deleted first: their rows are written again.

        Args:
            data_file_dir: The folder that rows are written to, where they are written as files.
            data_file_filesystem: Its ``pyarrow.fs.FileSystem``.
        """
        config = self.checkpoint_config
        found = files(config)
        ended = {name.removesuffix(WRITTEN) for name in found if name.endswith(WRITTEN)}
        begun = [name.removesuffix(BEGUN) for name in found if name.endswith(BEGUN)]
        _undo([task for task in begun if task not in ended], data_file_dir, data_file_filesystem)
        for task in begun:
            config.filesystem.delete_file(f"{config._folder}/{task}{BEGUN}")
        paths = [f"{config._folder}/{task}{WRITTEN}" for task in sorted(ended)]
        if config.checkpoint_path_partition_filter is not None:
            paths = config.checkpoint_path_partition_filter(paths)
        tables = [self._ids(path) for path in paths]
        ids = np.concatenate(tables) if tables else np.array([])
        return ray.put(ids), ids.nbytes

    def _ids(self, path: str) -> np.ndarray:
        config = self.checkpoint_config
        with config.filesystem.open_input_file(path) as file:
            table = pq.read_table(file)
        if config.id_column not in table.column_names:
            from heliostat.data.checkpoint.interfaces import InvalidCheckpointingConfig

            raise InvalidCheckpointingConfig(
                f"The checkpoint in {config.checkpoint_path} is by the column "
                f"{table.column_names[0]!r}, not by {config.id_column!r}: take that column, another "
                "`checkpoint_path`, or delete the folder to write all rows again."
            )
        return table.column(config.id_column).to_numpy()


class IdColumnCheckpointManager(CheckpointManager):
    """Reads the ids of an ordinary column: the default.

    Examples:
        >>> import tempfile
        >>> import ray
        >>> from ray.data.checkpoint import CheckpointConfig, IdColumnCheckpointManager
        >>> config = CheckpointConfig(
        ...     id_column="id", checkpoint_path=tempfile.mkdtemp(), delete_checkpoint_on_success=False
        ... )
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.checkpoint_config = config
        >>> with ray.data.DataContext.current(context):
        ...     ray.data.range(10).write_parquet(tempfile.mkdtemp())
        >>> ids, _ = IdColumnCheckpointManager(config, context).load_checkpoint()
        >>> len(ray.get(ids))
        10
    """


class CheckpointFilter(abc.ABC):
    """Leaves written rows out of a block, in the tasks that read.

    Args:
        config: The checkpoint.
        checkpoint_ref: What the manager's ``load_checkpoint`` gave.

    Examples:
        >>> import tempfile
        >>> from ray.data.checkpoint import CheckpointConfig, CheckpointFilter
        >>> class Every(CheckpointFilter):  # writes all rows again
        ...     def filter_rows_for_block(self, block):
        ...         return block
        >>> config = CheckpointConfig(
        ...     id_column="id", checkpoint_path=tempfile.mkdtemp(), checkpoint_filter_cls=Every
        ... )
    """

    def __init__(self, config: CheckpointConfig, checkpoint_ref: ObjectRef | None = None) -> None:
        self.config, self.checkpoint_ref = config, checkpoint_ref
        self.id_column = config.id_column

    @abc.abstractmethod
    def filter_rows_for_block(self, block: pa.Table) -> pa.Table:
        """Return the block, a ``pyarrow.Table``, without its written rows.

        Args:
            block: The block.
        """


class NumpyArrayBasedCheckpointFilter(CheckpointFilter):
    """Leaves out the rows whose ids are in an array: the default.

    Args:
        checkpoint_config: Where the checkpoint is.
        checkpoint_ref: A reference to the ids of written rows.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> import pyarrow as pa
        >>> import ray
        >>> from ray.data.checkpoint import CheckpointConfig, NumpyArrayBasedCheckpointFilter
        >>> config = CheckpointConfig(id_column="id", checkpoint_path=tempfile.mkdtemp())
        >>> written = ray.put(np.array([1, 3]))
        >>> rows = NumpyArrayBasedCheckpointFilter(config, written)
        >>> rows.filter_rows_for_block(pa.table({"id": [1, 2, 3, 4]}))["id"].to_pylist()
        [2, 4]
    """

    def __init__(self, checkpoint_config: CheckpointConfig, checkpoint_ref: ObjectRef) -> None:
        super().__init__(checkpoint_config, checkpoint_ref)
        self._ids: np.ndarray | None = None

    def filter_rows_for_block(self, block: pa.Table) -> pa.Table:
        """Return the block without the rows whose ids were written.

        Args:
            block: The block.
        """
        if self._ids is None:
            self._ids = pa.array(ray.get(self.checkpoint_ref))
        column = block.column(self.id_column)
        if not len(self._ids):
            return block
        ids = self._ids if self._ids.type == column.type else self._ids.cast(column.type)
        return block.filter(pc.invert(pc.is_in(column, value_set=ids)))


def files(config: CheckpointConfig) -> list[str]:
    """The names of the checkpoint's files."""
    selector = pafs.FileSelector(config._folder, allow_not_found=True)
    return sorted(info.base_name for info in config.filesystem.get_file_info(selector))


def _undo(tasks: list[str], folder: str | None, filesystem: pa.fs.FileSystem) -> None:
    """Delete what tasks have written that did not end; files are known by the task in their names."""
    if not tasks or folder is None:
        return
    selector = pafs.FileSelector(folder, allow_not_found=True, recursive=True)
    for info in filesystem.get_file_info(selector):
        if info.type == pafs.FileType.File and any(task in info.base_name for task in tasks):
            filesystem.delete_file(info.path)
