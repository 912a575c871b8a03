"""Delta tables, read by the package ``deltalake``."""

from __future__ import annotations

import random
import urllib.parse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from heliostat.core.platform.extras import required
from heliostat.data import missing
from heliostat.data.block import BlockMetadata
from heliostat.data.catalog import ReaderFormat, resolved
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import deltalake

    from heliostat.data.catalog import Catalog
    from heliostat.data.context import DataContext


PATH = "path"  # the column of ``include_paths``

Storage = dict[str, str] | None


@spelled
@shows(OF_TASKS, "arrow_parquet_args")
def read_delta(
    path: str | list[str],
    version: int | None = None,
    *,
    storage_options: Storage = None,
    filesystem: pa.fs.FileSystem | None = None,
    catalog: Catalog | None = None,
    columns: list[str] | None = None,
    include_paths: bool = False,
    shuffle: str | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of a Delta table as it is now, or as it was.

    Args:
        path: The table's folder or URI, such as ``s3://bucket/table``; its name, if there is a catalog.
        version: Of the table. Default: the last one when this is called.
        storage_options: What the storage needs (credentials, region), as ``deltalake.DeltaTable`` takes
            it.
        filesystem: A ``pyarrow.fs.FileSystem`` to read the files with. Default: deltalake's own.
        catalog: A :class:`Catalog` that knows where the table is, and has the credentials.
        columns: Which to read. Default: all.
        shuffle: "files": read the files in random order.
        include_paths: Add the column "path", the file that a row comes from.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: deltalake is not installed.
        ValueError: There is no such column, or several paths are given.
        NotImplementedError: The catalog's credentials are such that deltalake does not take.
        deltalake.exceptions.DeltaError: There is no such table or version, or it has deletion vectors
            or another feature that the package cannot read.

    Examples:
        >>> import ray
        >>> def events():
        ...     return ray.data.read_delta("s3://lake/events", version=12, columns=["user", "at"])
    """
    if shuffle not in (None, "files"):
        raise ValueError(f"read_delta: shuffle is {shuffle!r}; there is 'files' only.")
    if catalog is not None:
        found = resolved(catalog, path, ReaderFormat.DELTA)
        path, storage_options = found.path or "", found.storage_options or storage_options
        filesystem = found.filesystem or filesystem
    if not isinstance(path, str):
        if len(path) != 1:
            raise ValueError(f"read_delta reads one table, not {len(path)}.")
        (path,) = path
    table = _table(path, version, storage_options)
    known = _dataset(table, filesystem).schema.names
    wrong = [name for name in columns or () if name not in known]
    if wrong:
        raise ValueError(f"read_delta: {missing.no_columns(wrong, known)}")
    source = _DeltaSource(
        path, table.version(), storage_options, filesystem, columns, include_paths, bool(shuffle)
    )
    known = ("path", "version", "storage_options", "filesystem", "catalog", "columns", "shuffle")
    return dataset_of(source, "read_delta", options, (*known, "include_paths"))


def _table(path: str, version: int | None, storage_options: Storage) -> deltalake.DeltaTable:
    deltalake = required("deltalake", "Delta tables")
    return deltalake.DeltaTable(path, version=version, storage_options=storage_options)


def _dataset(table: deltalake.DeltaTable, filesystem: pa.fs.FileSystem) -> pa.dataset.Dataset:
    return table.to_pyarrow_dataset(filesystem=filesystem)


class _DeltaSource(Datasource):
    """The files of one version of a table."""

    def __init__(
        self,
        path: str,
        version: int,
        storage_options: Storage,
        filesystem: pa.fs.FileSystem,
        columns: list[str] | None,
        include_paths: bool,
        is_shuffled: bool,
    ) -> None:
        self._is_shuffled = is_shuffled
        self._open = partial(_table, path, version, storage_options)
        self._filesystem, self._columns = filesystem, columns
        self._include_paths = include_paths

    def get_name(self) -> str:
        return "Delta"

    def estimate_inmemory_data_size(self) -> int | None:
        return sum(size for _, size, _ in self._files())

    def _files(self) -> list[tuple[str, int, int | None]]:
        """(path, bytes, rows if they are known) of each file."""
        actions = pa.table(self._open().get_add_actions(flatten=True))
        rows = (
            actions["num_records"].to_pylist()
            if "num_records" in actions.column_names
            else [None] * actions.num_rows
        )
        sizes = actions["size_bytes"].to_pylist()
        # The log has paths as URLs do.
        paths = [urllib.parse.unquote(path) for path in actions["path"].to_pylist()]
        return list(zip(paths, sizes, rows, strict=True))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        files = self._files()
        if self._is_shuffled:
            random.shuffle(files)
        count = max(1, min(parallelism, len(files)))
        # A table without files has its columns all the same.
        return [self._task(files[a:b]) for a, b in list(spans(len(files), count)) or [(0, 0)]]

    def _task(self, part: list[tuple[str, int, int | None]]) -> ReadTask:
        paths = [path for path, _, _ in part]
        known = [rows for _, _, rows in part if rows is not None]
        about = BlockMetadata(
            sum(known) if len(known) == len(part) else None,
            sum(size for _, size, _ in part),
            input_files=paths,
        )
        return ReadTask(partial(self._read, frozenset(paths)), about)

    def _read(self, paths: frozenset[str]) -> Iterator[pa.Table]:
        dataset = _dataset(self._open(), self._filesystem)
        if not paths:
            empty = dataset.schema.empty_table()
            yield empty if self._columns is None else empty.select(self._columns)
        for fragment in dataset.get_fragments():
            if fragment.path not in paths:
                continue
            for batch in fragment.to_batches(schema=dataset.schema, columns=self._columns):
                made = pa.Table.from_batches([batch])
                if self._include_paths:
                    made = made.append_column(PATH, pa.array([fragment.path] * made.num_rows))
                yield made
