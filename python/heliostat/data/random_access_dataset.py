"""Rows by key: sorted blocks, held by actors that look them up."""

from __future__ import annotations

import bisect
import random
import time
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data import block
from heliostat.data.dataset.base import key_names

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat import ObjectRef
    from heliostat.actor import ActorHandle
    from heliostat.data.aliases import Row, Value
    from heliostat.data.dataset.consume import Consumers

__all__ = ["RandomAccessDataset"]

WORKERS_PER_NODE = 4


class RandomAccessDataset:
    """Finds rows of a dataset by the value of a column; see ``Dataset.to_random_access_dataset``.

    Args:
        ds: The dataset.
        key: The column.
        num_workers: Actors that look rows up.

    Raises:
        ValueError: ``num_workers`` is below 1.

    Examples:
        >>> import ray
        >>> rows = ray.data.from_items([{"id": i, "square": i * i} for i in range(10)])
        >>> table = rows.to_random_access_dataset("id", num_workers=1)
        >>> ray.get(table.get_async(3))
        {'id': 3, 'square': 9}
        >>> table.multiget([1, 2])
        [{'id': 1, 'square': 1}, {'id': 2, 'square': 4}]
    """

    def __init__(self, ds: Consumers, key: str, num_workers: int) -> None:
        if num_workers < 1:
            raise ValueError(f"`num_workers` must be at least 1, got {num_workers}.")
        (key,) = key_names(key)
        begun = time.perf_counter()
        refs = ds.sort(key).to_arrow_refs()
        ends = ray.remote(_ends)
        found = ray.get([ends.remote(ref, key) for ref in refs])
        full = [(ref, *end) for ref, end in zip(refs, found, strict=True) if end is not None]
        self._lowest = full[0][1] if full else None
        self._highest = [most for _, _, most in full]
        worker = ray.remote(_Worker).options(num_cpus=0)
        # Each holds all blocks that it is asked for, which are in shared memory; so any may be asked.
        self._workers = [
            worker.remote([[ref] for ref, _, _ in full], key) for _ in range(num_workers)
        ]
        ray.get([w.stats.remote() for w in self._workers])
        self._build_s = time.perf_counter() - begun

    def get_async(self, key: Value) -> ObjectRef:
        """Return a reference to the row with this key, a dict, or to None where there is none.

        Args:
            key: The value.
        """
        at = self._block_of(key)
        if at is None:
            return ray.put(None)
        ref: ObjectRef = self._any().get.remote(at, key)
        return ref

    def multiget(self, keys: list[object]) -> list[Row | None]:
        """Return the rows with these keys, None for those that are not there.

        Args:
            keys: The values.
        """
        by_block: dict[int, dict[Value, None]] = {}
        for key in keys:
            at = self._block_of(key)
            if at is not None:
                by_block.setdefault(at, {})[key] = None
        asked = [
            (list(some), self._any().multiget.remote(at, list(some)))
            for at, some in by_block.items()
        ]
        found: dict[Value, Row | None] = {}
        for some, ref in asked:
            found.update(zip(some, ray.get(ref), strict=True))
        return [found.get(key) for key in keys]

    def stats(self) -> str:
        """Return how it was built and how quickly rows were found, in words."""
        told = ray.get([w.stats.remote() for w in self._workers])
        counts = [count for count, _ in told]
        blocks, total = len(self._highest), sum(counts)
        mean_us = int(sum(taken for _, taken in told) / (1 + total) * 1e6)
        return (
            "RandomAccessDataset:\n"
            f"- Build time: {self._build_s:.2f}s\n"
            f"- Num workers: {len(told)}\n"
            f"- Blocks per worker: {blocks} min, {blocks} max, {blocks} mean\n"
            f"- Accesses per worker: {min(counts)} min, {max(counts)} max, {total // len(counts)} mean\n"
            f"- Mean access time: {mean_us}us\n"
        )

    def _any(self) -> ActorHandle:
        chosen: ActorHandle = random.choice(self._workers)
        return chosen

    def _block_of(self, key: Value) -> int | None:
        if key is None or not self._highest:
            return None
        try:
            at = bisect.bisect_left(self._highest, key)
            return None if at == len(self._highest) or key < self._lowest else at
        except TypeError as error:
            kind = type(self._lowest).__name__
            raise TypeError(
                f"the keys of this dataset are of type {kind}, and {key!r} is none"
            ) from error


def _ends(table: pa.Table, key: str) -> tuple[Value, Value] | None:
    """The least and the greatest key of a sorted block; missing keys, which come last, are none."""
    column = table.column(key)
    count = len(column) - column.null_count
    return (column[0].as_py(), column[count - 1].as_py()) if count else None


class _Worker:
    """Looks up rows in sorted blocks."""

    def __init__(self, holders: list[list[ObjectRef]], key: str) -> None:
        self._refs = [ref for (ref,) in holders]
        self._key = key
        self._tables: dict[int, tuple[pa.Table, pa.ChunkedArray]] = {}
        self._count, self._taken_s = 0, 0.0

    def get(self, at: int, key: Value) -> Row | None:
        """The row, as a dict; None: there is none."""
        return self.multiget(at, [key])[0]

    def multiget(self, at: int, keys: list[object]) -> list[Row | None]:
        """The rows with these keys in a block."""
        begun = time.perf_counter()
        if at not in self._tables:
            table = ray.get(self._refs[at])
            column = table.column(self._key)
            self._tables[at] = table, column.slice(0, len(column) - column.null_count)
        table, column = self._tables[at]
        found = [self._found(table, column, key) for key in keys]
        self._count += 1
        self._taken_s += time.perf_counter() - begun
        return found

    def _found(self, table: pa.Table, column: pa.ChunkedArray, key: Value) -> Row | None:
        row = bisect.bisect_left(_Values(column), key)
        if row == len(column) or column[row].as_py() != key:
            return None
        return next(iter(block.rows(table.slice(row, 1))))

    def stats(self) -> tuple[int, float]:
        """The number of requests, and the seconds that they took."""
        return self._count, self._taken_s


class _Values:
    """A column as a sequence of Python values."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __getitem__(self, at: int) -> Value:
        return self._column[at].as_py()

    def __len__(self) -> int:
        return len(self._column)
