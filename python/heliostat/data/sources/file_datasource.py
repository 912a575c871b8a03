"""Sources of files in a format of the user's own: derive from ``FileBasedDatasource``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from heliostat.data import block
from heliostat.data.block import BlockMetadata
from heliostat.data.sources import files as listing
from heliostat.data.sources import formats
from heliostat.data.sources.datasource import Datasource, ReadTask
from heliostat.data.sources.file_reads import ReadFiles, Source
from heliostat.data.sources.partitioning import Partitioning, PathPartitionParser
from heliostat.data.sources.streams import opened

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Batch
    from heliostat.data.context import DataContext
    from heliostat.data.sources.files import FileShuffleConfig


class FileBasedDatasource(Datasource):
    r"""Base class of sources of files: implement :meth:`_read_stream`.

    Args:
        paths: A path or URI of a file or folder, or a list of them.
        filesystem: Of pyarrow or fsspec. Default: by the path.
        schema: Of the blocks, if it is known.
        open_stream_args: Those of ``FileSystem.open_input_stream``.
        meta_provider: Without effect: kept for compatibility.
        partition_filter: Reads only files that pass, see ``PathPartitionFilter``.
        partitioning: Columns that the names of folders give. Default: none.
        ignore_missing_paths: Leave out paths that do not exist.
        shuffle: "files" or a ``FileShuffleConfig``: read files in random order.
        include_paths: Add the column "path".
        file_extensions: Read only files that end so.

    Raises:
        FileNotFoundError: A path does not exist.
        ValueError: There is no file.

    Examples:
        >>> import pathlib, tempfile
        >>> import pyarrow as pa
        >>> import ray
        >>> from ray.data.datasource import FileBasedDatasource
        >>> class Lines(FileBasedDatasource):
        ...     def _read_stream(self, f, path):
        ...         yield pa.table({"line": f.readall().decode().splitlines()})
        >>> folder = tempfile.mkdtemp()
        >>> pathlib.Path(folder, "a.log").write_text("one\ntwo\n")
        8
        >>> ray.data.read_datasource(Lines(folder, file_extensions=["log"])).take_all()
        [{'line': 'one'}, {'line': 'two'}]
    """

    _FILE_EXTENSIONS: str | list[str] | None = None

    def __init__(
        self,
        paths: str | list[str],
        *,
        filesystem: pa.fs.FileSystem | None = None,
        schema: pa.Schema | None = None,
        open_stream_args: dict[str, object] | None = None,
        meta_provider: object = None,
        partition_filter: Callable[[list[str]], list[str]] | None = None,
        partitioning: Partitioning | None = None,
        ignore_missing_paths: bool = False,
        shuffle: Literal["files"] | FileShuffleConfig | None = None,
        include_paths: bool = False,
        file_extensions: list[str] | None = None,
    ) -> None:
        listing.in_order([], shuffle)
        self._schema = schema
        self._open_stream_args = dict(open_stream_args or {})
        self._source = Source(
            paths,
            filesystem,
            file_extensions,
            ignore_missing_paths,
            PathPartitionParser(partitioning) if partitioning is not None else None,
            partition_filter,
            include_paths,
            shuffle,
        )
        self._found, self._filesystem = self._source.files()

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterator[Batch]:
        """Yield the blocks of a file, given a stream of its contents.

        A block is a ``pyarrow.Table``, a ``pandas.DataFrame`` or a dict of arrays.
        """
        raise NotImplementedError(
            "Subclasses of FileBasedDatasource must implement _read_stream()."
        )

    def _open_input_source(
        self, filesystem: pa.fs.FileSystem, path: str, **open_args: object
    ) -> pa.NativeFile:
        """Return the stream of a file that :meth:`_read_stream` gets."""
        return opened(filesystem, path, open_args)

    def _rows_per_file(self) -> int | None:
        """Return the number of rows of each file, None if it is not known."""
        return None

    def _paths(self) -> list[str]:
        """Return the files."""
        return [f.path for f in self._found]

    def _file_sizes(self) -> list[int]:
        """Return the sizes of the files in bytes."""
        return [f.size for f in self._found]

    def estimate_inmemory_data_size(self) -> int | None:
        """Return its size in memory, by default that of the files."""
        return sum(self._file_sizes())

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Return the tasks, each of some files.

        Args:
            parallelism: How many, about.
            per_task_row_limit: Rows that a task needs to read at most; ``None``: all.
            data_context: The settings of the dataset.
        """
        ordered = listing.in_order(self._found, self._source.shuffle)
        if not ordered:
            return []
        groups = listing.grouped(ordered, max(1, min(parallelism, len(ordered))))
        return [self._task(group, per_task_row_limit) for group in groups]

    def _task(self, group: list[listing.File], row_limit: int | None) -> ReadTask:
        reader = copy.copy(self)
        reader._found = []  # a task needs to know of its own files only
        paths = [f.path for f in group]
        read = ReadFiles(self._source, _OfStreams({}, reader), self._filesystem, paths)
        each = self._rows_per_file()
        about = BlockMetadata(
            None if each is None else each * len(group), sum(f.size for f in group), None, paths
        )
        return ReadTask(read, about, self._schema, row_limit)


@dataclass
class _OfStreams(formats.Format):
    """The file format of a ``FileBasedDatasource``."""

    datasource: FileBasedDatasource | None = None

    def read(self, filesystem: pa.fs.FileSystem, path: str) -> Iterator[pa.Table]:
        """Yield the blocks of a file as tables."""
        assert self.datasource is not None
        args = dict(self.datasource._open_stream_args)
        with self.datasource._open_input_source(filesystem, path, **args) as stream:
            for made in self.datasource._read_stream(stream, path):
                yield block.from_batch(made, f"{type(self.datasource).__name__}._read_stream")
