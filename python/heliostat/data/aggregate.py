"""Aggregations, for ``groupby().aggregate`` and ``Dataset.aggregate``.

Each turns a block into a small accumulator, joins accumulators, and makes the result of the last one.
"""

from __future__ import annotations

import abc
import contextlib
import decimal
import math
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import block, tensors
from heliostat.data.aggregation import AggregateFnV2
from heliostat.data.aliases import Aggregation, Function, Row, Value
from heliostat.data.expressions.namespace import whole

if TYPE_CHECKING:
    import numpy.typing as npt


__all__ = [
    "AbsMax",
    "AggregateFn",
    "AggregateFnV2",
    "ApproximateQuantile",
    "ApproximateTopK",
    "AsList",
    "Count",
    "CountDistinct",
    "Max",
    "Mean",
    "Min",
    "MissingValuePercentage",
    "Quantile",
    "Std",
    "Sum",
    "Unique",
    "ValueCounter",
    "VectorizedAggregateFnV2",
    "ZeroPercentage",
]

VectorizedAggregateFnV2 = AggregateFnV2

R = TypeVar("R")  # a result
Counted = tuple[Value, int]  # a value and how often it occurs


def _alias(kind: str, on: str | None, alias: str | None) -> str:
    return alias or f"{kind}({on or ''})"


class Count(AggregateFnV2[int, int]):
    """Rows, or values of a column.

    Args:
        on: The column. Default: rows.
        ignore_nulls: Leave missing values out. Default False.
        alias_name: The result's column. Default "count(<on>)".

    Examples:
        >>> import ray
        >>> from ray.data.aggregate import Count
        >>> ray.data.range(3).aggregate(Count())
        {'count()': 3}
    """

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ) -> None:
        super().__init__(_alias("count", on, alias_name), int, on=on, ignore_nulls=ignore_nulls)
        of_values = on is not None and ignore_nulls
        self.parts = (("count" if of_values else "count_all", "sum"),)

    def _counts_nulls(self) -> bool:
        return True

    def _of_nothing(self) -> int:
        return 0

    def aggregate_block(self, block: pa.Table) -> int:
        """Return the number of rows."""
        rows: int = block.num_rows
        return rows

    def combine(self, current_accumulator: int, new: int) -> int:
        """Return the sum."""
        return current_accumulator + new


class _Kernel(AggregateFnV2[Value, Value]):
    """An aggregation of pyarrow's whose partial results are joined by a function of two values."""

    kind = ""

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(
            _alias(self.kind, on, alias_name), lambda: None, on=on, ignore_nulls=ignore_nulls
        )
        self.parts = ((self.kind, self.kind),) if ignore_nulls else ()

    def aggregate_block(self, block: pa.Table) -> Value:
        """Return the block's value."""
        return getattr(pc, self.kind)(block.column(self.on)).as_py()


class Sum(_Kernel):
    """Sum of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True.
        alias_name: The result's column. Default "sum(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(4).aggregate(ray.data.aggregate.Sum("id"))
        {'sum(id)': 6}
    """

    kind = "sum"

    def combine(self, current_accumulator: Value, new: Value) -> Value:
        """Return the sum of both."""
        return current_accumulator + new


class Min(_Kernel):
    """Least value of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True.
        alias_name: The result's column. Default "min(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(4).aggregate(ray.data.aggregate.Min("id"))
        {'min(id)': 0}
    """

    kind = "min"

    def combine(self, current_accumulator: Value, new: Value) -> Value:
        """Return the lesser; a number rather than NaN."""
        if current_accumulator != current_accumulator:
            return new
        return new if new < current_accumulator else current_accumulator


class Max(_Kernel):
    """Greatest value of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True.
        alias_name: The result's column. Default "max(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(4).aggregate(ray.data.aggregate.Max("id", alias_name="last"))
        {'last': 3}
    """

    kind = "max"

    def combine(self, current_accumulator: Value, new: Value) -> Value:
        """Return the greater; a number rather than NaN."""
        if current_accumulator != current_accumulator:
            return new
        return new if new > current_accumulator else current_accumulator


class AbsMax(_Kernel):
    """Greatest absolute value of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True.
        alias_name: The result's column. Default "abs_max(<on>)".

    Examples:
        >>> import ray
        >>> from ray.data.aggregate import AbsMax
        >>> ray.data.from_items([{"x": -5}, {"x": 3}]).aggregate(AbsMax("x"))
        {'abs_max(x)': 5}
    """

    kind = "abs_max"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self.parts = ()

    def aggregate_block(self, block: pa.Table) -> Value:
        """Return the block's value."""
        greatest = pc.max(pc.abs(block.column(self.on))).as_py()
        return None if greatest != greatest else greatest  # NaN is no value here

    def combine(self, current_accumulator: Value, new: Value) -> Value:
        """Return the greater."""
        return max(current_accumulator, new)


class Mean(AggregateFnV2[tuple[float, int], float | None]):
    """Average of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
            ``None``.
        alias_name: The result's column. Default "mean(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(4).aggregate(ray.data.aggregate.Mean("id"))
        {'mean(id)': 1.5}
    """

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(
            _alias("mean", on, alias_name), lambda: (0.0, 0), on=on, ignore_nulls=ignore_nulls
        )
        self.parts = (("sum", "sum"), ("count", "sum")) if ignore_nulls else ()

    def finished(self, parts: list[pa.Array]) -> pa.Array:
        """Return the sums by the counts."""
        total, count = parts
        if pa.types.is_decimal(total.type):
            pairs = zip(total.to_pylist(), count.to_pylist(), strict=True)
            step = decimal.Decimal(1).scaleb(-total.type.scale)
            means = [
                None if t is None else (t / n).quantize(step, "ROUND_HALF_UP") for t, n in pairs
            ]
            return pa.array(means, total.type)
        return pc.divide(pc.cast(total, pa.float64(), safe=False), pc.cast(count, pa.float64()))

    def aggregate_block(self, block: pa.Table) -> tuple[float, int]:
        """Return sum and count."""
        return pc.sum(block.column(self.on)).as_py(), block.num_rows

    def combine(
        self, current_accumulator: tuple[float, int], new: tuple[float, int]
    ) -> tuple[float, int]:
        """Return both sums."""
        return current_accumulator[0] + new[0], current_accumulator[1] + new[1]

    def finalize(self, accumulator: tuple[float, int]) -> float | None:
        """Return the average."""
        return accumulator[0] / accumulator[1] if accumulator[1] else None


class Std(AggregateFnV2[tuple[float, float, int], float]):
    """Standard deviation of a column.

    Args:
        on: The column.
        ddof: Degrees of freedom taken off the count. Default 1.
        ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
            ``None``.
        alias_name: The result's column. Default "std(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(3).aggregate(ray.data.aggregate.Std("id"))
        {'std(id)': 1.0}
    """

    def __init__(
        self, on: str, ddof: int = 1, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        super().__init__(
            _alias("std", on, alias_name), lambda: (0.0, 0.0, 0), on=on, ignore_nulls=ignore_nulls
        )
        self._ddof = ddof
        if ignore_nulls:
            self.parts = (("count", "sum"), ("mean", "mean"), ("variance", "sum"))

    joins_by_rows = True

    def prepared(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return floats, which pyarrow has the variance of."""
        return column.cast(pa.float64(), safe=False)

    def joined_rows(self, parts: list[pa.Array], begins: npt.NDArray[np.intp]) -> list[pa.Array]:
        """Return counts, means and variances joined (Chan, Golub and LeVeque)."""
        n, mean, variance = (
            p.to_numpy() for p in (parts[0], *(pc.fill_null(p, 0.0) for p in parts[1:]))
        )
        total = np.add.reduceat(n, begins)
        safe = np.maximum(total, 1)
        means = np.add.reduceat(n * mean, begins) / safe
        each = np.repeat(means, np.diff([*begins, len(n)]))
        m2 = np.add.reduceat(n * variance + n * (mean - each) ** 2, begins)
        none = total == 0
        return [pa.array(total), pa.array(means, mask=none), pa.array(m2 / safe, mask=none)]

    def finished(self, parts: list[pa.Array]) -> pa.Array:
        """Return the deviations; NaN of too few values."""
        n, variance = parts[0].to_numpy(), pc.fill_null(parts[2], 0.0).to_numpy()
        free = n - self._ddof
        of_enough = np.sqrt(n * variance / np.maximum(free, 1))
        return pa.array(np.where(free > 0, of_enough, np.nan), mask=n == 0)

    def aggregate_block(self, block: pa.Table) -> tuple[float, float, int]:
        """Return the sum of squared differences, the mean and the count."""
        values = block.column(self.on)
        count, mean = len(values), pc.mean(values).as_py()
        return pc.variance(values, ddof=0).as_py() * count, mean, count

    def combine(
        self, current_accumulator: tuple[float, float, int], new: tuple[float, float, int]
    ) -> tuple[float, float, int]:
        """Return both joined (Chan, Golub and LeVeque)."""
        m2a, mean_a, a = current_accumulator
        m2b, mean_b, b = new
        delta, n = mean_b - mean_a, a + b
        return m2a + m2b + delta**2 * a * b / n, (mean_a * a + mean_b * b) / n, n

    def finalize(self, accumulator: tuple[float, float, int]) -> float:
        """Return the deviation; NaN of too few values."""
        m2, _, n = accumulator
        return math.sqrt(m2 / (n - self._ddof)) if n > self._ddof else math.nan


class _Values(AggregateFnV2[pa.Array, R]):
    """Keeps all values, as an Arrow array."""

    kind = ""

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(
            _alias(self.kind, on, alias_name), lambda: None, on=on, ignore_nulls=ignore_nulls
        )

    def _counts_nulls(self) -> bool:
        return True

    def aggregate_block(self, block: pa.Table) -> pa.Array:
        """Return the column."""
        return whole(block.column(self.on))

    def combine(self, current_accumulator: pa.Array, new: pa.Array) -> pa.Array:
        """Return both, of a type that holds either: a block's values may all be missing."""
        both = block.concat([pa.table({"": v}) for v in (current_accumulator, new)])
        return whole(both.column(""))


class Quantile(_Values[Value]):
    """A quantile of a column, exact, interpolated.

    Args:
        on: The column.
        q: Which, from 0 to 1. Default 0.5: the median.
        ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
            ``None``.
        alias_name: The result's column. Default "quantile(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(5).aggregate(ray.data.aggregate.Quantile("id", q=0.75))
        {'quantile(id)': 3.0}
    """

    kind = "quantile"

    def __init__(
        self,
        on: str,
        q: float = 0.5,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self._q = q

    def finalize(self, accumulator: pa.Array) -> Value:
        """Return the quantile."""
        if pa.types.is_null(accumulator.type):  # all values are missing
            return None
        return pc.quantile(accumulator, self._q, skip_nulls=self._ignore_nulls)[0].as_py()


class AsList(_Values[list[Value]]):
    """All values of a column, as a list.

    Args:
        on: The column.
        alias_name: The result's column. Default "list(<on>)".
        ignore_nulls: Leave missing values out. Default False.

    Examples:
        >>> import ray
        >>> ray.data.range(3).aggregate(ray.data.aggregate.AsList("id"))
        {'list(id)': [0, 1, 2]}
    """

    kind = "list"

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def _of_nothing(self) -> list[Value]:
        return []

    def finalize(self, accumulator: pa.Array) -> list[Value]:
        """Return the list."""
        values: list[Value] = accumulator.to_pylist()
        return values


def _is_list(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_list(column.type) or pa.types.is_large_list(column.type))


def _different(values: pa.Array) -> pa.Array:
    """The different values of an array; pyarrow tells no lists, structs, arrays and objects apart."""
    if not _is_list(values):
        with contextlib.suppress(pa.ArrowNotImplementedError):
            return pc.unique(values)
    first: dict[object, int] = {}
    for i, value in enumerate(tensors.to_list(values)):
        is_array = isinstance(value, np.ndarray)
        first.setdefault((value.shape, value.tobytes()) if is_array else repr(value), i)
    rows = pa.array(first.values(), pa.int64())
    return whole(block.take(pa.table({"": values}), rows).column(0))


class _Different(_Values[R]):
    """Keeps each different value once."""

    _encode_lists = False

    def aggregate_block(self, block: pa.Table) -> pa.Array:
        """Return the block's different values."""
        column = super().aggregate_block(block)
        inside = self._encode_lists and _is_list(column)
        return _different(column.flatten() if inside else column)

    def combine(self, current_accumulator: pa.Array, new: pa.Array) -> pa.Array:
        """Return the different values of both."""
        return _different(super().combine(current_accumulator, new))


class Unique(_Different[list[Value]]):
    """The different values of a column, as a list.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out.
        alias_name: The result's column. Default "unique(<on>)".
        encode_lists: Of a column of lists: take the values in the lists rather than the lists.

    Examples:
        >>> import ray
        >>> ray.data.from_items([2, 1, 2]).aggregate(ray.data.aggregate.Unique("item"))
        {'unique(item)': [2, 1]}
    """

    kind = "unique"

    def __init__(
        self,
        on: str,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: bool | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self._encode_lists = bool(encode_lists)

    def _of_nothing(self) -> list[Value]:
        return []

    def finalize(self, accumulator: pa.Array) -> list[Value]:
        """Return the list."""
        return tensors.to_list(accumulator)


class CountDistinct(_Different[int]):
    """The number of different values of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True.
        alias_name: The result's column. Default "count_distinct(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.from_items([2, 1, 2]).aggregate(ray.data.aggregate.CountDistinct("item"))
        {'count_distinct(item)': 2}
    """

    kind = "count_distinct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def finalize(self, accumulator: pa.Array) -> int:
        """Return the number."""
        return len(accumulator)

    def _of_nothing(self) -> int:
        return 0


class _Counts(AggregateFnV2[dict[str, Counted], R]):
    """Counts each different value, by its text: 0.0 and -0.0 are two values, and all NaN are one."""

    _encode_lists = False

    def aggregate_block(self, block: pa.Table) -> dict[str, Counted]:
        """Return each different value, by its text, with its count."""
        column = block.column(self.on)
        if _is_list(column) and self._encode_lists:
            column = pc.list_flatten(column)
        if not pa.types.is_nested(column.type):
            pairs = [(p["values"], p["counts"]) for p in pc.value_counts(column).to_pylist()]
        else:
            pairs = [(value, 1) for value in column.to_pylist()]
        counts: dict[str, Counted] = {}
        for value, count in pairs:
            counts[repr(value)] = value, counts.get(repr(value), (value, 0))[1] + count
        return counts

    def combine(
        self, current_accumulator: dict[str, Counted], new: dict[str, Counted]
    ) -> dict[str, Counted]:
        """Return the sums."""
        joined = dict(current_accumulator)
        for text, (value, count) in new.items():
            joined[text] = value, joined.get(text, (value, 0))[1] + count
        return joined


class ValueCounter(_Counts[dict[str, list[Value]]]):
    """Counts the occurrences of each value: ``{"values": [...], "counts": [...]}``.

    Args:
        on: The column.
        alias_name: The result's column. Default "value_counter(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.from_items([2, 1, 2]).aggregate(ray.data.aggregate.ValueCounter("item"))
        {'value_counter(item)': {'values': [2, 1], 'counts': [2, 1]}}
    """

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__(_alias("value_counter", on, alias_name), dict, on=on, ignore_nulls=False)

    def _counts_nulls(self) -> bool:
        return True

    def finalize(self, accumulator: dict[str, Counted]) -> dict[str, list[Value]]:
        """Return values and counts."""
        pairs = accumulator.values()
        return {"values": [value for value, _ in pairs], "counts": [count for _, count in pairs]}


class ApproximateTopK(_Counts[list[Row]]):
    """The ``k`` values that occur most, with their counts. They are exact here.

    Args:
        on: The column; missing values do not count.
        k: How many values.
        log_capacity: Without effect: no sketch is made.
        alias_name: The result's column. Default "approx_topk(<on>)".
        encode_lists: Of a column of lists: count the values in the lists rather than the lists.

    Examples:
        >>> import ray
        >>> ray.data.from_items([2, 1, 2]).aggregate(ray.data.aggregate.ApproximateTopK("item", k=1))
        {'approx_topk(item)': [{'item': 2, 'count': 2}]}
    """

    def __init__(
        self,
        on: str,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ) -> None:
        super().__init__(_alias("approx_topk", on, alias_name), dict, on=on, ignore_nulls=True)
        self._k, self._encode_lists = k, encode_lists

    def finalize(self, accumulator: dict[str, Counted]) -> list[Row]:
        """Return a list of dicts: the column's name and "count"."""
        top = sorted(accumulator.values(), key=lambda pair: -pair[1])[: self._k]
        assert self.on is not None
        return [{self.on: value, "count": count} for value, count in top]


class ApproximateQuantile(_Values[list[Value]]):
    """Several quantiles of a column, each a value that it has. They are exact here.

    Args:
        on: The column; missing values do not count.
        quantiles: Which, from 0 to 1.
        quantile_precision: Has no effect: they are exact.
        alias_name: The result's column. Default "approx_quantile(<on>)".

    Examples:
        >>> import ray
        >>> from ray.data.aggregate import ApproximateQuantile
        >>> ray.data.range(101).aggregate(ApproximateQuantile("id", quantiles=[0.5, 0.9]))
        {'approx_quantile(id)': [50, 90]}
    """

    kind = "approx_quantile"

    def __init__(
        self,
        on: str,
        quantiles: list[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, True, alias_name)
        self._quantiles = quantiles

    def finalize(self, accumulator: pa.Array) -> list[Value]:
        """Return the list of quantiles."""
        ordered = pc.array_sort_indices(accumulator)
        last = len(ordered) - 1
        at = [ordered[min(int(q * len(ordered)), last)].as_py() for q in self._quantiles]
        return [accumulator[i].as_py() for i in at]


class _Share(AggregateFnV2[tuple[int, int], float | None]):
    """The percentage of rows that meet a condition."""

    def __init__(self, kind: str, on: str, ignore_nulls: bool, alias_name: str | None) -> None:
        super().__init__(
            _alias(kind, on, alias_name), lambda: (0, 0), on=on, ignore_nulls=ignore_nulls
        )

    def _counts_nulls(self) -> bool:
        return True

    @abc.abstractmethod
    def matching(self, column: pa.ChunkedArray) -> int:
        """Rows of a column that meet it."""

    def aggregate_block(self, block: pa.Table) -> tuple[int, int]:
        """Return matching and all rows."""
        return self.matching(block.column(self.on)), block.num_rows

    def combine(
        self, current_accumulator: tuple[int, int], new: tuple[int, int]
    ) -> tuple[int, int]:
        """Return both sums."""
        return current_accumulator[0] + new[0], current_accumulator[1] + new[1]

    def finalize(self, accumulator: tuple[int, int]) -> float | None:
        """Return the percentage."""
        return 100.0 * accumulator[0] / accumulator[1] if accumulator[1] else None


class MissingValuePercentage(_Share):
    """The percentage of missing values (null or NaN) of a column.

    Args:
        on: The column.
        alias_name: The result's column. Default "missing_pct(<on>)".

    Examples:
        >>> import ray
        >>> ds = ray.data.from_items([{"x": 1}, {"x": None}])
        >>> ds.aggregate(ray.data.aggregate.MissingValuePercentage("x"))
        {'missing_pct(x)': 50.0}
    """

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__("missing_pct", on, False, alias_name)

    def matching(self, column: pa.ChunkedArray) -> int:
        """Return how many values are missing.

        Args:
            column: The column.
        """
        return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0)


class ZeroPercentage(_Share):
    """The percentage of zeros of a column.

    Args:
        on: The column.
        ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
            ``None``.
        alias_name: The result's column. Default "zero_pct(<on>)".

    Examples:
        >>> import ray
        >>> ray.data.range(4).aggregate(ray.data.aggregate.ZeroPercentage("id"))
        {'zero_pct(id)': 25.0}
    """

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__("zero_pct", on, ignore_nulls, alias_name)

    def matching(self, column: pa.ChunkedArray) -> int:
        """Return how many values are zeros.

        Args:
            column: The column.
        """
        return int(pc.sum(pc.equal(column, 0)).as_py() or 0)


class AggregateFn(AggregateFnV2[Value, Value]):
    """An aggregation of plain functions. Deprecated: derive from ``AggregateFnV2``.

    Args:
        init: Makes the first accumulator of a group, given its key.
        merge: Joins two accumulators.
        name: The result's column.
        accumulate_row: Adds a row, a dict, to an accumulator.
        accumulate_block: Adds a block to it, instead.
        finalize: Makes the result.

    Raises:
        ValueError: Not exactly one of ``accumulate_row`` and ``accumulate_block`` is given.

    Examples:
        >>> import ray
        >>> from ray.data.aggregate import AggregateFn
        >>> longest = AggregateFn(
        ...     init=lambda key: 0,
        ...     accumulate_row=lambda longest, row: max(longest, len(row["word"])),
        ...     merge=max,
        ...     name="longest",
        ... )
        >>> ray.data.from_items([{"word": "a"}, {"word": "abc"}]).aggregate(longest)
        {'longest': 3}
    """

    def __init__(
        self,
        init: Function,
        merge: Function,
        name: str,
        accumulate_row: Function | None = None,
        accumulate_block: Function | None = None,
        finalize: Function | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("Exactly one of accumulate_row or accumulate_block must be provided.")
        super().__init__(name, lambda: init(None), on=None, ignore_nulls=False)
        self._merge, self._finalize = merge, finalize
        self._row, self._block = accumulate_row, accumulate_block

    def aggregate_block(self, block: pa.Table) -> Value:
        """Return the accumulator of a block."""
        from heliostat.data.block import rows

        made = self.zero()
        if self._block is not None:
            return self._block(made, block)
        assert self._row is not None
        for row in rows(block):
            made = self._row(made, row)
        return made

    def combine(self, current_accumulator: Value, new: Value) -> Value:
        """Return both joined."""
        return self._merge(current_accumulator, new)

    def finalize(self, accumulator: Value) -> Value:
        """Return the result."""
        return self._finalize(accumulator) if self._finalize is not None else accumulator


# --- what the engine calls -------------------------------------------------------------------------


@dataclass(frozen=True)
class Partials:
    """The accumulators of all tables of a task, pickled: the column "state" of a single row."""

    aggregations: list[Aggregation]

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        from heliostat import cloudpickle

        found: list[object] = [None for _ in self.aggregations]
        for table in tables:
            if table.num_rows:
                found = [
                    a.join(f, a.start(table)) for a, f in zip(self.aggregations, found, strict=True)
                ]
        yield pa.table({"state": [cloudpickle.dumps(found)]})

    def reads(self, needed: frozenset[str] | None) -> frozenset[str] | None:
        """The columns that are aggregated."""
        return columns_of(self.aggregations)


def has_parts(aggregation: Aggregation) -> bool:
    """Whether groups can be put together of parts; a class of the program's own may do otherwise."""
    return bool(aggregation.parts) and type(aggregation).__module__ == __name__


def columns_of(several: list[Aggregation]) -> frozenset[str] | None:
    """The columns that aggregations look at; None: all, as one is of the program's own."""
    if any(type(a).__module__ != __name__ or isinstance(a, AggregateFn) for a in several):
        return None
    return frozenset(a.on for a in several if a.on is not None)


def total(found: Iterable[pa.Table], aggregations: list[Aggregation]) -> Row:
    """The results by name, of tables that :class:`Partials` made."""
    rows = [pickle.loads(table.column("state")[0].as_py()) for table in found]
    results = {}
    for i, aggregation in enumerate(aggregations):
        accumulator = None
        for row in rows:
            accumulator = aggregation.join(accumulator, row[i])
        results[aggregation.name] = aggregation.finish(accumulator)
    return results
