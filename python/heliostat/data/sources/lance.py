"""Lance datasets, read by the package ``pylance``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.data import missing
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

    from heliostat.data.context import DataContext


@spelled
@shows(OF_TASKS)
def read_lance(
    uri: str | list[str],
    *,
    version: int | str | None = None,
    columns: list[str] | None = None,
    filter: str | None = None,
    storage_options: dict[str, str] | None = None,
    scanner_options: dict[str, object] | None = None,
    **options: Any,
) -> Dataset:
    """Return a dataset of a Lance dataset as it is now, or as it was.

    Args:
        uri: Its folder or URI.
        version: Its number or tag. Default: the last one when this is called.
        columns: Which to read. Default: all.
        filter: An SQL expression; rows for which it holds are read, and no others from the disk.
        storage_options: What the storage needs (credentials, region), as ``lance.dataset`` takes it.
        scanner_options: Further arguments of ``lance.LanceDataset.scanner``.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: pylance is not installed.
        ValueError: There is no such dataset, version or column, or several URIs are given.

    Examples:
        >>> import ray
        >>> def pictures():
        ...     return ray.data.read_lance(
        ...         "s3://lake/pictures.lance", columns=["id", "picture"], filter="width > 512"
        ...     )
    """
    if not isinstance(uri, str):
        if len(uri) != 1:
            raise ValueError(f"read_lance reads one dataset, not {len(uri)}.")
        (uri,) = uri
    found = _dataset(uri, version, storage_options)
    wrong = [name for name in columns or () if name not in found.schema.names]
    if wrong:
        raise ValueError(f"read_lance: {missing.no_columns(wrong, found.schema.names)}")
    scan = {**(scanner_options or {}), "columns": columns, "filter": filter}
    source = _LanceSource(partial(_dataset, uri, found.version, storage_options), scan)
    return dataset_of(source, "read_lance", options)


def _dataset(
    uri: str, version: int | str | None, storage_options: dict[str, str] | None
) -> lance.LanceDataset:
    lance = required("lance", "Lance datasets")
    return lance.dataset(uri, version=version, storage_options=storage_options)


class _LanceSource(Datasource):
    """The fragments of one version."""

    def __init__(
        self, open_dataset: Callable[[], lance.LanceDataset], scan: dict[str, object]
    ) -> None:
        self._open, self._scan = open_dataset, scan

    def get_name(self) -> str:
        return "Lance"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        fragments = self._open().get_fragments()
        tasks = []
        for begin, end in list(spans(len(fragments), parallelism)) or [(0, 0)]:
            part = fragments[begin:end]
            rows = None
            if self._scan["filter"] is None:
                rows = sum(fragment.count_rows() for fragment in part)
            ids = frozenset(fragment.fragment_id for fragment in part)
            files = [file.path for fragment in part for file in fragment.data_files()]
            about = BlockMetadata(rows, None, input_files=files)
            tasks.append(ReadTask(partial(self._read, ids), about))
        return tasks

    def _read(self, ids: frozenset[int]) -> Iterator[pa.Table]:
        dataset = self._open()
        chosen = [one for one in dataset.get_fragments() if one.fragment_id in ids]
        reader = dataset.scanner(**self._scan, fragments=chosen).to_reader()
        yield reader.schema.empty_table()  # its columns are known where there is no row
        yield from reader
