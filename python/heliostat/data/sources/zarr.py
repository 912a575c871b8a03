"""Zarr stores, read by the package ``zarr``: a row for each chunk, or for each step along axis 0."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from heliostat.core.platform.extras import required
from heliostat.data import tensors
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources import files as listing
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.memory import spans
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import fsspec
    import zarr

    from heliostat.data.aliases import Value
    from heliostat.data.context import DataContext


WHO = "Zarr stores"
_KNOWN = (
    "path",
    "filesystem",
    "chunk_shapes",
    "array_paths",
    "allow_full_metadata_scan",
    "align_axis_0",
    "overlap",
)

Slices = tuple[tuple[int, int], ...]  # begin and end of a chunk along each axis


@spelled
@shows(OF_TASKS)
def read_zarr(
    path: str,
    *,
    filesystem: pa.fs.FileSystem | None = None,
    chunk_shapes: Mapping[str, Sequence[int]] | Sequence[int] | None = None,
    array_paths: list[str] | None = None,
    allow_full_metadata_scan: bool = False,
    align_axis_0: bool = False,
    overlap: int = 0,
    **options: object,
) -> Dataset:
    """Return a dataset of the arrays of a Zarr store.

    A row is a chunk: "array" is the array's path, "chunk_index" the chunk's place in the grid of chunks,
    "chunk_slices" its begin and end along each axis, and "chunk" its values. With ``align_axis_0`` a row
    is a span of axis 0 in all arrays: "t_start", "t_stop", and a column for each array.

    Args:
        path: The store's folder or URI.
        filesystem: A filesystem of pyarrow or fsspec. Default: by the path.
        chunk_shapes: Sizes of the chunks that rows have along the first axes, for all arrays or by the
            array's path. Default, and along the other axes: as they are stored.
        array_paths: Which arrays to read. Default: all.
        allow_full_metadata_scan: Look for the arrays in all folders where the store has no list of them.
            Default False, as it may take long.
        align_axis_0: Give the arrays beside each other. They need the same length along axis 0.
        overlap: With ``align_axis_0``: how many further steps of axis 0 each row's arrays have, as far as
            there are any. Default 0.
        **options: Those of :func:`read_datasource`.

    Raises:
        ImportError: zarr is not installed.
        FileNotFoundError: There is no such folder.
        ValueError: There is no such array, no list of arrays, or the sizes do not suit.

    Examples:
        >>> import ray
        >>> def temperatures():
        ...     return ray.data.read_zarr("s3://weather/era5.zarr", array_paths=["t2m"])
    """
    required("zarr", WHO)
    if overlap < 0:
        raise ValueError(f"overlap must be a non-negative integer, got {overlap!r}")
    if overlap and not align_axis_0:
        raise ValueError(
            "overlap requires align_axis_0=True: a row of a chunk has nothing beside it."
        )
    store = _Store(*_place(path, filesystem))
    found = store.arrays(array_paths, allow_full_metadata_scan)
    sizes = _sizes(found, chunk_shapes)
    source: Datasource
    if align_axis_0:
        length, step = _common(found, sizes)
        source = _Aligned(
            store=store,
            size=_bytes(found),
            arrays=sizes,
            length=length,
            step=step,
            overlap=overlap,
        )
    else:
        shapes = {name: (array.shape, sizes[name]) for name, array in found.items()}
        source = _Chunks(store=store, size=_bytes(found), arrays=shapes)
    return dataset_of(source, "read_zarr", options, _KNOWN)


def _place(path: str, filesystem: pa.fs.FileSystem) -> tuple[str, fsspec.AbstractFileSystem | None]:
    """(path, fsspec's filesystem; None: the local one) of a store.

    Raises:
        FileNotFoundError: There is no such folder.
    """
    bare, found = listing.resolve(path, filesystem)
    if found.get_file_info(bare).type == pafs.FileType.NotFound:
        raise FileNotFoundError(f"there is no Zarr store {path}")
    if isinstance(found, pafs.LocalFileSystem):
        return bare, None
    if isinstance(found, pafs.PyFileSystem) and hasattr(found.handler, "fs"):
        return bare, found.handler.fs
    from fsspec.implementations.arrow import ArrowFSWrapper

    return bare, ArrowFSWrapper(found)


@dataclass(frozen=True)
class _Store:
    path: str
    filesystem: pa.fs.FileSystem

    def opened(self) -> str | MutableMapping[str, bytes]:
        """The path or file system in the form that the package takes for a store."""
        return self.path if self.filesystem is None else self.filesystem.get_mapper(self.path)

    def array(self, name: str) -> zarr.Array:
        """Open an array of the store."""
        zarr = required("zarr", WHO)
        if not name:
            return zarr.open_array(self.opened(), mode="r")
        return zarr.open_group(self.opened(), mode="r")[name]

    def arrays(self, wanted: list[str] | None, scans: bool) -> dict[str, zarr.Array]:
        """The store's arrays by their paths; "": the array that is the whole store."""
        zarr = required("zarr", WHO)
        try:
            root = zarr.open_consolidated(self.opened(), mode="r")
            has_list = True
        except (KeyError, ValueError):
            has_list = False
            try:
                root = zarr.open(self.opened(), mode="r")
            except Exception as error:
                raise ValueError(f"{self.path} is not a Zarr store: {error}") from error
        if isinstance(root, zarr.Array):
            found = {"": root}
        elif wanted:
            found = {name: root[name] for name in wanted if name in root}
        elif has_list or scans:
            found = dict(sorted(_below(root)))
        else:
            raise ValueError(
                f"the Zarr store {self.path} has no list of its arrays (consolidated metadata): pass "
                "array_paths=[...], or allow_full_metadata_scan=True to look into all folders."
            )
        missing = [n for n in wanted or () if not isinstance(found.get(n), zarr.Array)]
        if missing:
            there = sorted(name for name, _ in _below(root)) if has_list else sorted(found)
            raise ValueError(f"Array(s) not found: {missing}. Available: {there}")
        return found


def _below(group: zarr.Group) -> Iterator[tuple[str, zarr.Array]]:
    """The arrays below a group, by their paths."""
    if hasattr(group, "members"):  # from release 3 of the package on
        members = group.members(max_depth=None)
    else:
        members = []
        group.visititems(lambda name, one: members.append((name, one)))
    for name, one in members:
        if hasattr(one, "shape"):
            yield name, one


def _sizes(found: dict[str, zarr.Array], asked: Value) -> dict[str, tuple[int, ...]]:
    """The sizes of each array's chunks as rows have them."""
    if isinstance(asked, Mapping):
        unknown = sorted(set(asked) - set(found))
        if unknown:
            raise ValueError(f"Unknown array path(s) in chunk_shapes: {unknown}")
    made = {}
    for name, array in found.items():
        first = asked.get(name) if isinstance(asked, Mapping) else asked
        if first is None:
            made[name] = tuple(array.chunks)
            continue
        is_plain = isinstance(first, list | tuple) and first
        if not is_plain or any(not isinstance(n, int) or n < 1 for n in first):
            raise ValueError(
                f"chunk_shapes must be a non-empty sequence of positive integers, got {first!r}"
            )
        if len(first) > len(array.shape):
            raise ValueError(
                f"chunk_shapes for array {name!r} has {len(first)} axes, and the array of shape "
                f"{tuple(array.shape)} has {len(array.shape)}."
            )
        made[name] = (*first, *array.chunks[len(first) :])
    return made


def _common(found: dict[str, zarr.Array], sizes: dict[str, tuple[int, ...]]) -> tuple[int, int]:
    """(length, size of the chunks) along axis 0 that all arrays have."""
    flat = [name for name, array in found.items() if not array.shape]
    if flat:
        raise ValueError(
            f"align_axis_0=True: {flat} have no axis; leave them out by array_paths=[...]."
        )
    lengths = {name: array.shape[0] for name, array in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"align_axis_0=True: arrays differ in length along axis 0: {lengths}.")
    steps = {name: size[0] for name, size in sizes.items()}
    if len(set(steps.values())) > 1:
        raise ValueError(
            f"align_axis_0=True: chunks differ in size along axis 0: {steps}. Pass chunk_shapes=[N]."
        )
    return next(iter(lengths.values()), 0), next(iter(steps.values()), 1)


def _bytes(found: dict[str, zarr.Array]) -> int:
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in found.values())


def _column(values: np.ndarray) -> pa.Array:
    """A column of one row."""
    if not values.shape:
        return tensors.from_numpy(values.reshape(1))
    try:
        return tensors.from_numpy(values[None])
    except (pa.ArrowException, TypeError, ValueError):  # of texts and times
        return tensors.from_objects([values])


@dataclass(frozen=True, kw_only=True)
class _Arrays(Datasource):
    store: _Store
    size: int  # bytes of all arrays

    def get_name(self) -> str:
        return "Zarr"

    def estimate_inmemory_data_size(self) -> int:
        return self.size


@dataclass(frozen=True, kw_only=True)
class _Chunks(_Arrays):
    """A row for each chunk; a task reads chunks of one array, as arrays differ in type."""

    arrays: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]  # shape, and size of the chunks

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        each = max(1, -(-parallelism // max(1, len(self.arrays))))
        tasks = []
        for name, (shape, size) in self.arrays.items():
            grid = [-(-length // step) for length, step in zip(shape, size, strict=True)]
            count = math.prod(grid)
            for begin, end in spans(count, max(1, min(each, count))):
                read = _ReadChunks(self.store, name, shape, size, tuple(grid), begin, end)
                about = BlockMetadata(end - begin, self.size * (end - begin) // max(1, count))
                tasks.append(ReadTask(read, about, None, per_task_row_limit))
        return tasks


@dataclass(frozen=True)
class _ReadChunks:
    store: _Store
    name: str
    shape: tuple[int, ...]
    size: tuple[int, ...]
    grid: tuple[int, ...]
    begin: int
    end: int

    def __call__(self) -> Iterator[pa.Table]:
        array = self.store.array(self.name)
        places = itertools.product(*map(range, self.grid))
        for index in itertools.islice(places, self.begin, self.end):
            slices: Slices = tuple(
                (i * step, min(length, (i + 1) * step))
                for i, step, length in zip(index, self.size, self.shape, strict=True)
            )
            values = np.asarray(array[tuple(slice(*one) for one in slices)])
            yield pa.table(
                {
                    "array": pa.array([self.name], pa.string()),
                    "chunk_index": pa.array([list(index)], pa.list_(pa.int64())),
                    "chunk_slices": pa.array(
                        [list(map(list, slices))], pa.list_(pa.list_(pa.int64()))
                    ),
                    "chunk": _column(values),
                }
            )


@dataclass(frozen=True, kw_only=True)
class _Aligned(_Arrays):
    """A row for each span of axis 0, a column for each array."""

    arrays: dict[str, tuple[int, ...]]
    length: int
    step: int
    overlap: int

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        count = -(-self.length // self.step)
        tasks = []
        for begin, end in list(spans(count, max(1, min(parallelism, count)))) or [(0, 0)]:
            about = BlockMetadata(end - begin, self.size * (end - begin) // max(1, count))
            read = _ReadSpans(self, begin, end)
            tasks.append(ReadTask(read, about, None, per_task_row_limit))
        return tasks


@dataclass(frozen=True)
class _ReadSpans:
    of: _Aligned
    begin: int
    end: int

    def __call__(self) -> Iterator[pa.Table]:
        arrays = {name: self.of.store.array(name) for name in self.of.arrays}
        for number in range(self.begin, self.end):
            start = number * self.of.step
            stop = min(self.of.length, start + self.of.step)
            until = min(self.of.length, stop + self.of.overlap)
            columns = {"t_start": pa.array([start]), "t_stop": pa.array([stop])}
            for name, array in arrays.items():
                columns[name] = _column(np.asarray(array[start:until]))
            yield pa.table(columns)
