"""Sinks of files in a format of the user's own: a file for each row, or for each task."""

from __future__ import annotations

import functools
import logging
import posixpath
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from heliostat.data import block as blocks
from heliostat.data.accessor import BlockAccessor
from heliostat.data.retries import retried
from heliostat.data.sinks import files
from heliostat.data.sinks.datasink import WRITE_ID, Datasink, TaskContext
from heliostat.data.sinks.files import FilenameProvider, SaveMode
from heliostat.data.sources.files import resolve

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Row


logger = logging.getLogger("heliostat.data")


class _FileDatasink(Datasink[None]):
    """A folder that tasks write files into.

    Args:
        path: The folder, as a path or URI.
        filesystem: Of pyarrow or fsspec. Default: by the path.
        try_create_dir: Make the folder if it is not there.
        open_stream_args: Those of ``FileSystem.open_output_stream``.
        filename_provider: Names the files. Default: by the write and the task.
        dataset_uuid: What the names begin with.
        file_format: What the names end with, without the dot.
        mode: What to do when the folder is there, a ``SaveMode``. Default: add files.
    """

    def __init__(
        self,
        path: str,
        *,
        filesystem: pa.fs.FileSystem | None = None,
        try_create_dir: bool = True,
        open_stream_args: dict[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str | None = None,
        mode: SaveMode = SaveMode.APPEND,
    ) -> None:
        self.unresolved_path, self.try_create_dir, self.mode = path, try_create_dir, mode
        self.path, self.filesystem = resolve(path, filesystem)
        self.open_stream_args = dict(open_stream_args or {})
        self.filename_provider = filename_provider or FilenameProvider(dataset_uuid, file_format)
        self.dataset_uuid, self.file_format = dataset_uuid, file_format
        self._skips = False

    def open_output_stream(self, path: str) -> pa.NativeFile:
        """Return what a file is written to.

        Args:
            path: The file's path.
        """
        return self.filesystem.open_output_stream(path, **self.open_stream_args)

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Make the folder ready as the mode says.

        Args:
            schema: The schema of what is written, if it is known.

        Raises:
            ValueError: It is there, and the mode forbids that.
        """
        place = files.prepare(self.path, self.filesystem, self.mode, self.try_create_dir)
        self._skips = place is None
        if self._skips:
            logger.warning("[SaveMode=%s] Skipping %s", SaveMode.IGNORE, self.unresolved_path)

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        """Write the rows of a task.

        Args:
            blocks: The task's blocks.
            ctx: The task.
        """
        if self._skips:
            return
        block = BlockAccessor.for_block(_joined(blocks))
        if block.num_rows():
            self.write_block(block, 0, ctx)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        """Write a block to its file or files."""
        raise NotImplementedError

    def _task_name(self, ctx: TaskContext) -> str:
        return self.filename_provider.get_filename_for_task(ctx.kwargs[WRITE_ID], ctx.task_idx)


def _joined(several: Iterable[pa.Table]) -> pa.Table:
    return blocks.concat(list(several))


class RowBasedFileDatasink(_FileDatasink):
    """Writes each row to a file: implement :meth:`write_row_to_file`.

    Examples:
        >>> import os, tempfile
        >>> import ray
        >>> from ray.data.datasource import RowBasedFileDatasink
        >>> class Texts(RowBasedFileDatasink):
        ...     def write_row_to_file(self, row, file):
        ...         file.write(row["text"].encode())
        >>> folder = tempfile.mkdtemp()
        >>> ds = ray.data.from_items([{"text": "a"}, {"text": "b"}])
        >>> ds.write_datasink(Texts(folder, file_format="txt"))
        >>> len(os.listdir(folder))
        2
    """

    def write_row_to_file(self, row: Row, file: pa.NativeFile) -> None:
        """Write a row to an open file. To be implemented.

        Args:
            row: The row.
            file: The file.
        """
        raise NotImplementedError

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        """Write each row of a block.

        Args:
            block: The block.
            block_index: Its number among those of the task.
            ctx: The task.
        """
        name = self._task_name(ctx)
        for index, row in enumerate(block.iter_rows(public_row_format=False)):
            path = posixpath.join(self.path, files.numbered(name, block_index, index))
            retried(functools.partial(self._write_row, row, path), "a write")

    def _write_row(self, row: Row, path: str) -> None:
        with self.open_output_stream(path) as file:
            self.write_row_to_file(row, file)


class BlockBasedFileDatasink(_FileDatasink):
    """Writes the rows of a task to a file: implement :meth:`write_block_to_file`.

    Args:
        path: The folder, as a path or URI.
        min_rows_per_file: Join blocks until a file has so many rows. Default: a file for each block.
        **file_datasink_kwargs: ``filesystem``, ``try_create_dir``, ``open_stream_args``,
            ``filename_provider``, ``dataset_uuid``, ``file_format`` and ``mode``.

    Examples:
        >>> import os, tempfile
        >>> import ray
        >>> from ray.data.block import BlockAccessor
        >>> from ray.data.datasource import BlockBasedFileDatasink
        >>> class Csv(BlockBasedFileDatasink):
        ...     def write_block_to_file(self, block, file):
        ...         file.write(block.to_pandas().to_csv(index=False).encode())
        >>> folder = tempfile.mkdtemp()
        >>> ray.data.range(4).write_datasink(Csv(folder, file_format="csv", min_rows_per_file=4))
        >>> ray.data.read_csv(folder).count()
        4
    """

    def __init__(
        self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any
    ) -> None:
        super().__init__(path, **file_datasink_kwargs)
        self._min_rows_per_file = min_rows_per_file

    def write_block_to_file(self, block: BlockAccessor, file: pa.NativeFile) -> None:
        """Write a block to an open file. To be implemented.

        Args:
            block: The block.
            file: The file.
        """
        raise NotImplementedError

    def write_block(self, block: BlockAccessor, block_index: int, ctx: TaskContext) -> None:
        """Write a block to the task's file.

        Args:
            block: The block.
            block_index: Its number among those of the task.
            ctx: The task.
        """
        path = posixpath.join(self.path, self._task_name(ctx))

        def write() -> None:
            with self.open_output_stream(path) as file:
                self.write_block_to_file(block, file)

        retried(write, "a write")

    @property
    def min_rows_per_write(self) -> int | None:
        """Rows that each file gets at least."""
        return self._min_rows_per_file
