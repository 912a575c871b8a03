"""Datasets of values that the program has: lists, arrays, frames, tables, other libraries' datasets."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import heliostat as ray
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.data import block, checks, frames, tensors
from heliostat.data.context import DataContext
from heliostat.data.dataset import Dataset, MaterializedDataset
from heliostat.data.plan.operators import Bundle, InputBlocks, Read, ReadPart
from heliostat.data.sources.options import spelled

if TYPE_CHECKING:
    import datasets

    from heliostat.data.aliases import Value


ITEMS_BLOCKS_MAX = 200
ROWS_PER_READ = 50_000  # of an iterable that is read through once


def put_tables(tables: list[pa.Table]) -> MaterializedDataset:
    """A dataset of tables, each put into the object store as a block."""
    return MaterializedDataset(InputBlocks(tuple(bundle_of(t) for t in tables)))


def bundle_of(table: pa.Table) -> Bundle:
    """Put a table into the object store."""
    table = block.compact(table)
    return Bundle(ray.put(table), table.num_rows, table.nbytes, table.schema)


def _blocks(override: int | None, parallelism: int) -> int | None:
    if parallelism not in (-1, None):
        warnings.warn(
            "`parallelism` is deprecated, use `override_num_blocks`.",
            DeprecationWarning,
            stacklevel=4,
        )
    wanted = override if override is not None else (parallelism if parallelism != -1 else None)
    checks.integers(override_num_blocks=wanted)
    if wanted is not None and wanted < 1:
        raise ValueError(f"override_num_blocks must be positive, got {wanted}.")
    return wanted


def spans(total: int, parts: int) -> Iterator[tuple[int, int]]:
    """(begin, end) of ``parts`` pieces whose lengths differ by one at most."""
    parts = max(1, min(parts, total))
    for i in builtins.range(parts):
        begin, end = i * total // parts, (i + 1) * total // parts
        if end > begin:
            yield begin, end


@spelled
def from_items(
    items: list[object], *, parallelism: int = -1, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Return a dataset of a list: dicts become columns, other values the column "item".

    Args:
        items: The rows.
        parallelism: Deprecated name of ``override_num_blocks``.
        override_num_blocks: Blocks to make. Default: one per row, 200 at most.

    Raises:
        TypeError: It is not a list.

    Examples:
        >>> import ray
        >>> ray.data.from_items([{"a": 1}, {"a": 2}]).sum("a")
        3
    """
    given: object = items
    if not isinstance(given, Iterable) or isinstance(given, Mapping | str | bytes):
        hint = " Columns are from_numpy's, or from_arrow's." if isinstance(given, Mapping) else ""
        raise TypeError(f"from_items() takes a list of rows, got {type(given).__name__}.{hint}")
    items = list(given)
    count = _blocks(override_num_blocks, parallelism) or ITEMS_BLOCKS_MAX
    return put_tables([block.from_rows(items[a:b]) for a, b in spans(len(items), count)])


@spelled
def from_numpy(ndarrays: object) -> MaterializedDataset:
    """Return a dataset with the column "data": one block per array, one row per first index.

    Args:
        ndarrays: The array or arrays.

    Raises:
        TypeError: One is a single value.

    Examples:
        >>> import ray
        >>> import numpy as np
        >>> ray.data.from_numpy(np.ones((2, 3))).schema().names
        ['data']
    """
    arrays = [np.asarray(one) for one in _several(ndarrays, "array", "shape")]
    for array in arrays:
        if not array.ndim:
            raise TypeError(
                f"from_numpy() takes an array or a list of arrays, got a list with {array.item()!r}. For a "
                "list of values, from_numpy(np.array(values)), or from_items(values)."
            )
    return put_tables([pa.table({block.DATA: tensors.from_numpy(array)}) for array in arrays])


@spelled
def from_pandas(dfs: object, override_num_blocks: int | None = None) -> MaterializedDataset:
    """Return a dataset of a DataFrame or several; their indexes are left out.

    Args:
        dfs: The DataFrame or DataFrames.
        override_num_blocks: Blocks to make. Default: one a DataFrame.

    Raises:
        TypeError: One of them is not a DataFrame.

    Examples:
        >>> import ray
        >>> import pandas as pd
        >>> ray.data.from_pandas(pd.DataFrame({"a": [1, 2]})).count()
        2
    """
    several = _several(dfs, "DataFrame", "columns")
    for frame in several:
        if not hasattr(frame, "columns"):
            raise TypeError(
                f"expected one DataFrame or a list of them, got a {type(frame).__name__}."
            )
        block.check_names(frame.columns)
    return _resized([frames.of_frame(frame) for frame in several], override_num_blocks)


@spelled
def from_arrow(tables: object, *, override_num_blocks: int | None = None) -> MaterializedDataset:
    """Return a dataset of one table or several, or of their bytes in Arrow's stream format.

    Args:
        tables: The table or tables, or the bytes.
        override_num_blocks: Blocks to make. Default: one a table.

    Examples:
        >>> import ray
        >>> import pyarrow as pa
        >>> ray.data.from_arrow(pa.table({"a": [1, 2]})).take_all()
        [{'a': 1}, {'a': 2}]
    """
    several = [tables] if isinstance(tables, bytes) else _several(tables, "table", "schema")
    made = [
        pa.ipc.open_stream(t).read_all()
        if isinstance(t, bytes)
        else block.from_batch(t, "from_arrow")
        for t in several
    ]
    return _resized(made, override_num_blocks)


def _several(given: object, kind: str, attribute: str) -> list[Value]:
    """The values given, one or a list of them.

    Raises:
        TypeError: It is neither.
    """
    if hasattr(given, attribute):
        return [given]
    if not isinstance(given, list | tuple):
        raise TypeError(f"expected one {kind} or a list of them, got {type(given).__name__}.")
    return list(given)


def _resized(tables: list[pa.Table], blocks: int | None) -> MaterializedDataset:
    if blocks is not None:
        whole = block.concat(tables) if tables else pa.table({})
        tables = [whole.slice(a, b - a) for a, b in spans(whole.num_rows, blocks)] or [whole]
    return put_tables(tables)


@spelled
def from_arrow_refs(tables: object) -> MaterializedDataset:
    """Return a dataset of references to tables.

    Args:
        tables: A reference or several.

    Examples:
        >>> import ray
        >>> import pyarrow as pa
        >>> ray.data.from_arrow_refs([ray.put(pa.table({"x": [1, 2]}))]).count()
        2
    """
    return _from_refs(tables, lambda table: table)


@spelled
def from_pandas_refs(dfs: object) -> MaterializedDataset:
    """Return a dataset of references to DataFrames.

    Args:
        dfs: A reference or several.

    Examples:
        >>> import ray
        >>> import pandas as pd
        >>> ray.data.from_pandas_refs([ray.put(pd.DataFrame({"x": [1, 2]}))]).sum("x")
        3
    """
    return _from_refs(dfs, frames.of_frame)


@spelled
def from_numpy_refs(ndarrays: object) -> MaterializedDataset:
    """Return a dataset of references to arrays: the column "data".

    Args:
        ndarrays: A reference or several.

    Examples:
        >>> import ray
        >>> import numpy as np
        >>> ray.data.from_numpy_refs([ray.put(np.ones(2))]).take_all()
        [{'data': 1.0}, {'data': 1.0}]
    """
    return _from_refs(ndarrays, lambda a: pa.table({block.DATA: tensors.from_numpy(a)}))


def _from_refs(refs: object, convert: Callable[[Value], pa.Table]) -> MaterializedDataset:
    several = refs if isinstance(refs, list) else [refs]

    def make(value: object) -> tuple[pa.Table, block.BlockMetadata]:
        table = block.compact(convert(value))
        return table, block.metadata(table)

    made = [ray.remote(make).options(num_returns=2).remote(ref) for ref in several]
    about = ray.get([m for _, m in made])
    return MaterializedDataset(
        InputBlocks(
            tuple(
                Bundle(ref, a.num_rows, a.size_bytes, a.schema)
                for (ref, _), a in zip(made, about, strict=True)
            )
        )
    )


@spelled
def from_blocks(blocks: list[pa.Table]) -> MaterializedDataset:
    """Return a dataset with these tables or DataFrames as blocks.

    Args:
        blocks: The tables or DataFrames.

    Examples:
        >>> import pyarrow as pa
        >>> import ray
        >>> ray.data.from_blocks([pa.table({"x": [1]}), pa.table({"x": [2]})]).take_all()
        [{'x': 1}, {'x': 2}]
    """
    return put_tables([block.from_batch(b, "from_blocks") for b in blocks])


def read_count(
    rows: int, row_bytes: float, wanted: int | None, cpu_count: int | None = None
) -> int:
    """Blocks that a source of this size is read in. ``cpu_count`` None: asks for the cluster's CPUs."""
    context = DataContext.get_current()
    if wanted is not None:
        return max(1, wanted)
    size = rows * row_bytes
    most = max(1, size // context.target_min_block_size)
    least = size // (context.target_max_block_size or size or 1)
    return int(max(min(context.read_op_min_num_blocks, most), least, 2 * (cpu_count or cpus())))


def cpus() -> int:
    """The CPUs of the cluster."""
    begin_unless_begun()
    return int(ray.cluster_resources().get("CPU", 1))


@spelled
def range(  # noqa: A001 # Ray's name
    n: int,
    *,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Return a dataset with the column "id": the integers from 0 to ``n`` - 1; none below 1.

    Args:
        n: How many rows.
        parallelism: Deprecated name of ``override_num_blocks``.
        concurrency: Tasks at a time. Default: as many as there is room for.
        override_num_blocks: Blocks to make. Default: by the size and the cluster's CPUs.

    Examples:
        >>> import ray
        >>> ray.data.range(3).take_all()
        [{'id': 0}, {'id': 1}, {'id': 2}]
    """
    wanted = _blocks(override_num_blocks, parallelism)

    return _ranged("Range", n, 8, _ids, wanted, concurrency)


@spelled
def range_tensor(
    n: int,
    *,
    shape: tuple[int, ...] = (1,),
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Return a dataset with the column "data": arrays filled with the row's number.

    Args:
        n: How many rows.
        shape: The shape of each array. Default ``(1,)``.
        parallelism: Deprecated name of ``override_num_blocks``.
        concurrency: Tasks at a time. Default: as many as there is room for.
        override_num_blocks: Blocks to make. Default: by the size and the cluster's CPUs.

    Examples:
        >>> import ray
        >>> ray.data.range_tensor(2, shape=(2,)).take_all()
        [{'data': array([0, 0])}, {'data': array([1, 1])}]
    """
    wanted = _blocks(override_num_blocks, parallelism)

    checks.shape(shape)
    row_bytes = 8 * int(np.prod(shape))
    return _ranged("RangeTensor", n, row_bytes, _Filled(tuple(shape)), wanted, concurrency)


def _ranged(
    label: str,
    n: int,
    row_bytes: int,
    make: Callable[[int, int], pa.Table],
    wanted: int | None,
    concurrency: int | None,
) -> Dataset:
    given: object = n
    if not (isinstance(given, float) and given.is_integer()):
        try:
            checks.integers(n=n)
        except TypeError as error:
            if isinstance(given, str):  # as on Ray
                raise ValueError(str(error)) from None
            raise
    n = max(0, int(n))

    reads = _RangeReads(make, n, row_bytes, wanted)
    schema = make(0, 0).schema
    return Dataset(Read(label, reads, n, schema, n * row_bytes, concurrency=concurrency))


def _ids(begin: int, end: int) -> pa.Table:
    return pa.table({"id": pa.array(np.arange(begin, end, dtype=np.int64))})


@dataclass(frozen=True)
class _Filled:
    """Arrays of one shape, each filled with its row's number."""

    shape: tuple[int, ...]

    def __call__(self, begin: int, end: int) -> pa.Table:
        numbers: object = np.arange(begin, end, dtype=np.int64).reshape(
            -1, *[1 for _ in self.shape]
        )
        filled = np.broadcast_to(numbers, (end - begin, *self.shape))
        return pa.table({block.DATA: tensors.from_numpy(np.ascontiguousarray(filled))})


@dataclass(frozen=True)
class _RangeReads:
    """The rows from 0 to ``rows`` in parts."""

    make: Callable[[int, int], pa.Table]
    rows: int
    row_bytes: int
    wanted: int | None

    def __call__(self) -> list[ReadPart]:
        found = spans(self.rows, read_count(self.rows, self.row_bytes, self.wanted))
        size = self.row_bytes
        return [ReadPart(_Span(self.make, a, b, size), b - a, (b - a) * size) for a, b in found]


class _Span:
    """Makes the rows of one read, a piece at a time."""

    def __init__(
        self, make: Callable[[int, int], pa.Table], begin: int, end: int, row_bytes: int
    ) -> None:
        self._make, self._begin, self._end = make, begin, end
        self._step = max(1, (16 << 20) // row_bytes)

    def __call__(self) -> Iterator[pa.Table]:
        for at in builtins.range(self._begin, self._end, self._step):
            yield self._make(at, min(at + self._step, self._end))


@spelled
def from_torch(dataset: object, local_read: bool = False) -> Dataset:
    """Return a dataset of a torch dataset: each element is the column "item" of a row.

    It is read through once, in one task.

    Args:
        dataset: The torch dataset.
        local_read: Read it in this process, now. Default False.

    Examples:
        >>> import ray
        >>> squares = [0, 1, 4]  # any map-style or iterable dataset of torch
        >>> ray.data.from_torch(squares).take_all()
        [{'item': 0}, {'item': 1}, {'item': 4}]
    """
    read = partial(_torch_tables, dataset)
    if local_read:
        return put_tables(list(read()))
    rows = len(dataset) if hasattr(dataset, "__len__") else None
    return Dataset(Read("Torch", OneRead(read), rows))


@dataclass(frozen=True)
class OneRead:
    """A source that is read in one task."""

    read: Callable[[], Iterator[pa.Table]]

    def __call__(self) -> list[ReadPart]:
        """The task."""
        return [ReadPart(self.read)]


def _torch_tables(dataset: Value) -> Iterator[pa.Table]:
    yield from block.tables_of({block.ITEM: value} for value in _elements(dataset))


def _elements(dataset: Value) -> Iterator[Value]:
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        for i in builtins.range(len(dataset)):
            yield dataset[i]
    else:
        yield from dataset


@spelled
def from_huggingface(
    dataset: datasets.Dataset | datasets.IterableDataset,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Return a dataset of a Hugging Face ``Dataset`` or ``IterableDataset``.

    Args:
        dataset: The dataset.
        parallelism: Deprecated name of ``override_num_blocks``.
        concurrency: Tasks at a time. Default: as many as there is room for.
        override_num_blocks: Blocks to make. Default: by the size and the cluster's CPUs.

    Raises:
        DeprecationWarning: It is a dict of datasets: choose one of its splits.
        TypeError: It is something else.

    Examples:
        >>> import datasets
        >>> import ray
        >>> table = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]})
        >>> ray.data.from_huggingface(table).take_all()
        [{'text': 'a', 'label': 0}, {'text': 'b', 'label': 1}]
    """
    name = type(dataset).__name__
    if isinstance(dataset, dict):
        raise DeprecationWarning(
            f"You provided a Hugging Face {name}, which contains several datasets, but "
            "`from_huggingface` accepts a single one. For example, use "
            f"`ray.data.from_huggingface(ds['{next(iter(dataset), 'train')}'])`. Available splits "
            f"are {list(dataset)}."
        )
    wanted = _blocks(override_num_blocks, parallelism)
    if hasattr(dataset, "with_format") and hasattr(dataset, "__len__"):
        arrow = dataset.with_format("arrow")
        rows = len(dataset)
        tables = [arrow[a:b] for a, b in spans(rows, wanted or -(-rows // ROWS_PER_READ) or 1)]
        return put_tables(tables)
    if hasattr(dataset, "iter") or hasattr(dataset, "__iter__"):
        read = OneRead(partial(block.tables_of, dataset))
        return Dataset(Read("HuggingFace", read, concurrency=concurrency))
    raise TypeError(f"`dataset` must be a Hugging Face Dataset, got {type(dataset)}.")
