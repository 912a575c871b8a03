"""Expressions that are made of nothing but a row's place: numbers, ids; and files by their names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from heliostat.data.expressions.expr import Expr
from heliostat.data.plan import task

TASK_BITS = 33  # of a row's number that count within a task
DOWNLOADS_MAX = 16  # files that one task reads at the same time


def monotonically_increasing_id() -> Expr:
    """Return a number for each row: rising within a task's rows, and different for all rows.

    The number of the task is in the upper 31 bits.
    """
    key = object()

    def evaluate(table: Any) -> Any:
        counter = task.kept(key, lambda: [task.index() << TASK_BITS])
        begin = counter[0]
        counter[0] += table.num_rows
        return pa.array(np.arange(begin, counter[0], dtype=np.int64))

    return Expr(evaluate, "monotonically_increasing_id()")


def random(*, seed: int | None = None, reseed_after_execution: bool = True) -> Expr:
    """Return a random number from 0 up to 1 for each row.

    Args:
        seed: Makes the numbers the same whenever the program is run.
        reseed_after_execution: With a seed: give other numbers each time the same dataset is
            executed, as for the epochs of a training. False: always the same.
    """
    key = object()

    def generator() -> Any:
        if seed is None:
            return np.random.default_rng()
        execution = task.execution() if reseed_after_execution else 0
        return np.random.default_rng([int(seed), execution, task.index()])

    def evaluate(table: Any) -> Any:
        return pa.array(task.kept(key, generator).random(table.num_rows))

    return Expr(evaluate, f"random(seed={seed!r})")


def uuid() -> Expr:
    """Return a random UUID for each row, as text."""
    import uuid as standard

    return Expr(
        lambda table: pa.array([str(standard.uuid4()) for _ in range(table.num_rows)], pa.string()),
        "uuid()",
    )


def download(uri_column_name: str, *, filesystem: Any = None) -> Expr:
    """Return the bytes of the files that a column names; null for one that cannot be read.

    Args:
        uri_column_name: The column of paths or URIs.
        filesystem: Where they are, of pyarrow or fsspec. Default: by the URI's scheme.
    """

    def fetch(uri: str | None) -> bytes | None:
        from heliostat.data.sources.files import resolve

        if uri is None:
            return None
        try:
            path, found = resolve(uri, filesystem)
            with found.open_input_stream(path) as stream:
                data: bytes = stream.read()
            return data
        except (OSError, ValueError):
            return None

    def evaluate(table: Any) -> Any:
        from concurrent.futures import ThreadPoolExecutor

        if uri_column_name not in table.column_names:
            raise ValueError(
                f"download() found no column {uri_column_name!r}; there are {table.column_names}."
            )
        uris = table.column(uri_column_name).to_pylist()
        with ThreadPoolExecutor(DOWNLOADS_MAX) as pool:
            return pa.array(list(pool.map(fetch, uris)), pa.binary())

    return Expr(evaluate, f"download({uri_column_name!r})")
