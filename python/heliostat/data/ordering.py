"""The order of rows by keys: that of ``pyarrow.compute.sort_indices``, by Polars where it is installed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import block

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np


POLARS_ROWS_MIN = 10_000  # fewer are sorted sooner than a process imports Polars


def indices(table: pa.Table, order: list[tuple[str, str]]) -> np.ndarray:
    """The row numbers in order, an array of numpy.

    The sort is stable. NaN comes after the numbers and missing values after NaN, whatever the direction.

    Args:
        table: The keys, and perhaps other columns.
        order: (column, "ascending" or "descending"), the most significant first.
    """
    keys = block.decoded_table(table.select([name for name, _ in order]))
    is_large = keys.num_rows >= POLARS_ROWS_MIN and all(map(_is_plain, keys.schema.types))
    library = polars() if is_large else None
    if library is None:
        return pc.sort_indices(keys, sort_keys=order).to_numpy()
    by, descending = [], []
    for name, direction in order:
        if direction == "descending" and pa.types.is_floating(keys.schema.field(name).type):
            by.append(library.col(name).is_nan())  # which Polars takes for the greatest number
            descending.append(False)
        by.append(library.col(name))
        descending.append(direction == "descending")
    # Other tasks have the other CPUs.
    options = {"descending": descending, "nulls_last": True, "multithreaded": False}
    places = library.arg_sort_by(by, maintain_order=True, **options)
    return library.from_arrow(keys).select(places).to_series().to_numpy()


@functools.cache
def polars() -> ModuleType | None:
    """Polars, if it is installed."""
    try:
        import polars as library
    except ImportError:
        return None
    found: ModuleType = library
    return found


def _is_plain(kind: pa.DataType) -> bool:
    """Whether both libraries compare values of the type alike."""
    t = pa.types
    tests = (
        t.is_integer,
        t.is_boolean,
        t.is_string,
        t.is_large_string,
        t.is_date32,
        t.is_timestamp,
    )
    return any(test(kind) for test in tests) or kind in (pa.float32(), pa.float64())
