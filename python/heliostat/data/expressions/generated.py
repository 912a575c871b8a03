"""Expressions that are made of nothing but a row's place: numbers, ids; and files by their names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from heliostat.data.expressions.expr import Expr
from heliostat.data.missing import no_columns
from heliostat.data.plan import task

TASK_BITS = 33  # of a row's number that count within a task
DOWNLOADS_MAX = 16  # files that one task reads at the same time


class MonotonicallyIncreasingIdExpr(Expr):
    """A number for each row, by the task's number and the row's place in the task."""

    is_pure = False

    def __init__(self) -> None:
        super().__init__()
        self._key = object()  # what the counter is kept under, for the life of a task

    def values(self, table: pa.Table) -> pa.Array:
        """The next numbers."""
        counter = task.kept(self._key, lambda: [task.index() << TASK_BITS])
        begin = counter[0]
        counter[0] += table.num_rows
        return pa.array(np.arange(begin, counter[0], dtype=np.int64))

    def text(self) -> str:
        """The expression as its author wrote it."""
        return "monotonically_increasing_id()"


class RandomExpr(Expr):
    """A random number for each row."""

    is_pure = False

    def __init__(self, seed: int | None = None, reseed_after_execution: bool = True) -> None:
        super().__init__()
        self._seed, self._reseed = seed, reseed_after_execution
        self._key = object()  # what the generator is kept under, for the life of a task

    def values(self, table: pa.Table) -> pa.Array:
        """The next numbers."""
        return pa.array(task.kept(self._key, self._generator).random(table.num_rows))

    def _generator(self) -> np.ndarray:
        if self._seed is None:
            return np.random.default_rng()
        execution = task.execution() if self._reseed else 0
        return np.random.default_rng([int(self._seed), execution, task.index()])

    def text(self) -> str:
        """The expression as its author wrote it."""
        return f"random(seed={self._seed!r})"


class UUIDExpr(Expr):
    """A random UUID for each row, as text."""

    is_pure = False

    def values(self, table: pa.Table) -> pa.Array:
        """Other ones at each call."""
        import uuid as standard

        return pa.array([str(standard.uuid4()) for _ in range(table.num_rows)], pa.string())

    def text(self) -> str:
        """The expression as its author wrote it."""
        return "uuid()"


class DownloadExpr(Expr):
    """The bytes of the files that a column names."""

    is_pure = False

    def __init__(self, uri_column_name: str, filesystem: pa.fs.FileSystem | None = None) -> None:
        super().__init__()
        self._uris, self._filesystem = uri_column_name, filesystem

    def columns(self) -> frozenset[str]:
        """The column of paths."""
        return frozenset([self._uris])

    def values(self, table: pa.Table) -> pa.Array:
        """The files' bytes, several read at a time.

        Raises:
            ValueError: There is no such column.
        """
        from concurrent.futures import ThreadPoolExecutor

        if self._uris not in table.column_names:
            raise ValueError(f"download(): {no_columns([self._uris], table.column_names)}")
        uris = table.column(self._uris).to_pylist()
        with ThreadPoolExecutor(DOWNLOADS_MAX) as pool:
            return pa.array(list(pool.map(self._fetch, uris)), pa.binary())

    def _fetch(self, uri: str | None) -> bytes | None:
        from heliostat.data.sources.files import resolve

        if uri is None:
            return None
        try:
            path, found = resolve(uri, self._filesystem)
            with found.open_input_stream(path) as stream:
                data: bytes = stream.read()
            return data
        except (OSError, ValueError):
            return None

    def text(self) -> str:
        """The expression as its author wrote it."""
        return f"download({self._uris!r})"


def monotonically_increasing_id() -> Expr:
    """Return a number for each row: rising within a task's rows, and different for all rows.

    The number of the task is in the upper 31 bits.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import monotonically_increasing_id
        >>> ds = ray.data.from_items(["a", "b"], override_num_blocks=1)
        >>> ds.with_column("row", monotonically_increasing_id()).take_all()
        [{'item': 'a', 'row': 0}, {'item': 'b', 'row': 1}]
    """
    return MonotonicallyIncreasingIdExpr()


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """Return a random number from 0 up to 1 for each row.

    Args:
        seed: Makes the numbers the same whenever the program is run.
        reseed_after_execution: With a seed: give other numbers each time the same dataset is
            executed, as for the epochs of a training. False: always the same.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import col, random
        >>> sample = ray.data.range(1000).with_column("r", random(seed=7)).filter(expr=col("r") < 0.1)
        >>> 50 < sample.count() < 150
        True
    """
    return RandomExpr(seed, reseed_after_execution)


def uuid() -> Expr:
    """Return a random UUID for each row, as text.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import uuid
        >>> len(ray.data.range(1).with_column("key", uuid()).take(1)[0]["key"])
        36
    """
    return UUIDExpr()


def download(uri_column_name: str, *, filesystem: pa.fs.FileSystem | None = None) -> Expr:
    """Return the bytes of the files that a column names; null for one that cannot be read.

    Args:
        uri_column_name: The column of paths or URIs.
        filesystem: Where they are, of pyarrow or fsspec. Default: by the URI's scheme.

    Examples:
        >>> import ray
        >>> import pathlib, tempfile
        >>> from ray.data.expressions import download
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "a.txt")
        ...     _ = path.write_text("hello")
        ...     ds = ray.data.from_items([{"path": str(path)}])
        ...     ds.with_column("bytes", download("path")).take(1)[0]["bytes"]
        b'hello'
    """
    return DownloadExpr(uri_column_name, filesystem)
