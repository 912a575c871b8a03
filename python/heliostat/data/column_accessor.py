"""``BlockColumnAccessor``: figures of a column, for aggregations of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data.expressions.namespace import whole

if TYPE_CHECKING:
    import pandas

    from heliostat.data.aliases import Value

BlockColumn = Union["pa.Array", "pa.ChunkedArray", "pandas.Series"]


class BlockColumnAccessor:
    """A column of a block, and what can be computed of it.

    Where ``ignore_nulls`` is False, a missing value makes the result ``None``. With ``as_py=False``
    results are scalars of pyarrow.
    """

    def __init__(self, col: BlockColumn) -> None:
        is_arrow = isinstance(col, pa.Array | pa.ChunkedArray)
        self._column: pa.Array | pa.ChunkedArray = col if is_arrow else pa.Array.from_pandas(col)

    @staticmethod
    def for_column(col: BlockColumn) -> BlockColumnAccessor:
        """Return the accessor of a column."""
        return BlockColumnAccessor(col)

    def count(self, *, ignore_nulls: bool, as_py: bool = True) -> Value:
        """Return the number of rows, or of values where ``ignore_nulls``."""
        mode = "only_valid" if ignore_nulls else "all"
        return _given(pc.count(self._column, mode=mode), as_py)

    def sum(self, *, ignore_nulls: bool, as_py: bool = True) -> Value:
        """Return the sum; ``None`` of no values."""
        return _given(pc.sum(self._column, skip_nulls=ignore_nulls), as_py)

    def min(self, *, ignore_nulls: bool, as_py: bool = True) -> Value:
        """Return the least value; ``None`` of no values."""
        return _given(pc.min(self._column, skip_nulls=ignore_nulls), as_py)

    def max(self, *, ignore_nulls: bool, as_py: bool = True) -> Value:
        """Return the greatest value; ``None`` of no values."""
        return _given(pc.max(self._column, skip_nulls=ignore_nulls), as_py)

    def mean(self, *, ignore_nulls: bool, as_py: bool = True) -> Value:
        """Return the average; ``None`` of no values."""
        return _given(pc.mean(self._column, skip_nulls=ignore_nulls), as_py)

    def sum_of_squared_diffs_from_mean(
        self, *, ignore_nulls: bool, mean: float | None = None, as_py: bool = True
    ) -> Value:
        """Return the sum of the squares of the differences from the mean. Default: the column's own."""
        if mean is None:
            mean = self.mean(ignore_nulls=ignore_nulls)
        if mean is None:
            return None
        squares = pc.power(pc.subtract(self._column, mean), 2)
        return _given(pc.sum(squares, skip_nulls=ignore_nulls), as_py)

    def quantile(self, *, q: float, ignore_nulls: bool, as_py: bool = True) -> Value:
        """Return the value below which the share ``q``, from 0 to 1, of the values lies."""
        return _given(pc.quantile(self._column, q=q, skip_nulls=ignore_nulls)[0], as_py)

    def unique(self) -> BlockColumn:
        """Return the distinct values."""
        return pc.unique(self._column)

    def value_counts(self) -> dict[str, list[Value]] | None:
        """Return the distinct ``values`` and their ``counts``; ``None`` of no rows."""
        found = whole(pc.value_counts(self._column))
        names = ("values", "counts")
        return {name: found.field(name).to_pylist() for name in names} if len(found) else None

    def flatten(self) -> BlockColumn:
        """Return the values of all lists, one after the other."""
        return pc.list_flatten(self._column)

    def dropna(self) -> BlockColumn:
        """Return the values that are not missing."""
        return pc.drop_null(self._column)

    def to_pylist(self) -> list[Value]:
        """Return the values as Python's."""
        values: list[Value] = self._column.to_pylist()
        return values

    def to_numpy(self, zero_copy_only: bool = False) -> np.ndarray:
        """Return the values as an array; ``zero_copy_only`` refuses what would have to be copied."""
        return whole(self._column).to_numpy(zero_copy_only=zero_copy_only)


def _given(scalar: Any, as_py: bool) -> Value:
    return scalar.as_py() if as_py else scalar
