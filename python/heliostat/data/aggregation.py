"""The base of aggregations: accumulators of blocks, joined one by one or as parts of sorted rows."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import pyarrow as pa

from heliostat.data.missing import no_columns

if TYPE_CHECKING:
    from heliostat.data.aliases import Value


A = TypeVar("A")  # an accumulator
R = TypeVar("R")  # a result


def checked(aggs: Iterable[object]) -> None:
    """Refuse what ``aggregate`` does not take.

    Raises:
        ValueError: There is nothing.
        TypeError: Something is not an aggregation.
    """
    some = False
    for one in aggs:
        some = True
        if not isinstance(one, AggregateFnV2):
            hint = " Write aggregate(*aggregations) for a list." if isinstance(one, list) else ""
            got = f"the class {one.__name__}" if isinstance(one, type) else type(one).__name__
            raise TypeError(
                f"aggregate() takes aggregations of ray.data.aggregate, such as Sum('x'), got {got}.{hint}"
            )
    if not some:
        raise ValueError("aggregate() needs at least one aggregation.")


class AggregateFnV2(abc.ABC, Generic[A, R]):
    """Base class of aggregations.

    Args:
        name: The result's column.
        zero_factory: Makes the accumulator of no rows.
        on: Column that is aggregated; None: rows as such.
        ignore_nulls: Leave missing values out; otherwise one of them makes the result None.

    Raises:
        ValueError: The name is empty.

    Examples:
        >>> import ray
        >>> from ray.data.aggregate import AggregateFnV2
        >>> class Product(AggregateFnV2):
        ...     def __init__(self, on):
        ...         super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=True)
        ...     def aggregate_block(self, block):
        ...         product = 1
        ...         for value in block[self.get_target_column()].to_pylist():
        ...             product *= value
        ...         return product
        ...     def combine(self, current_accumulator, new):
        ...         return current_accumulator * new
        >>> ray.data.from_items([2, 3, 4]).aggregate(Product("item"))
        {'product(item)': 24}
    """

    # For groups: (pyarrow's function that makes a part, the one that joins parts). Empty: there are none.
    parts: tuple[tuple[str, str], ...] = ()
    joins_by_rows = False  # whether parts are joined by `joined_rows` instead

    def __init__(
        self, name: str, zero_factory: Callable[[], A], *, on: str | None, ignore_nulls: bool
    ) -> None:
        if not name:
            raise ValueError(f"Non-empty string has to be provided as name (got {name!r})")
        self.name = name
        self.zero = zero_factory
        self.on = self._target_col_name = on
        self._ignore_nulls = ignore_nulls

    @property
    def ignore_nulls(self) -> bool:
        """Whether missing values are left out."""
        return self._ignore_nulls

    def get_target_column(self) -> str | None:
        """Return the column that is aggregated."""
        return self.on

    def get_agg_name(self) -> str:
        """Return what the name says before its parenthesis: ``sum`` of ``sum(price)``."""
        return self.name.partition("(")[0] or self.name

    @abc.abstractmethod
    def aggregate_block(self, block: pa.Table) -> A:
        """Return the accumulator of a block. To be implemented.

        Args:
            block: A ``pyarrow.Table``, without missing values in the column where they are left out.
        """

    @abc.abstractmethod
    def combine(self, current_accumulator: A, new: A) -> A:
        """Return two accumulators joined. To be implemented.

        Args:
            current_accumulator: One.
            new: The other.
        """

    def finalize(self, accumulator: A) -> R:
        """Return the result.

        Args:
            accumulator: The last accumulator.
        """
        return cast("R", accumulator)  # as they are of one type where this is not overridden

    # --- for the engine ---

    def start(self, table: pa.Table) -> A | type[_Null] | None:
        """Return the accumulator of a block; ``None`` where there is no value.

        Args:
            table: The block.

        Raises:
            ValueError: There is no such column.
        """
        if self.on is None:
            return self.aggregate_block(table)
        if self.on not in table.column_names:
            if not table.num_columns:
                return None
            raise ValueError(f"{self.name}: {no_columns([self.on], table.column_names)}")
        values = table.column(self.on)
        nulls = values.null_count
        if nulls and self._ignore_nulls:
            table = table.filter(values.is_valid())
        elif nulls and not self._counts_nulls():
            return _Null
        try:
            return self.aggregate_block(table) if table.num_rows else None
        except pa.ArrowException as error:
            raise not_of_type(error, self.name, self.on, values.type) from error

    def _counts_nulls(self) -> bool:
        return False

    def join(self, a: Value, b: Value) -> Value:
        """Return two accumulators joined.

        Args:
            a: One; may be ``None``.
            b: The other; may be ``None``.
        """
        if a is _Null or b is _Null:
            return _Null
        if a is None or b is None:
            return b if a is None else a
        return self.combine(a, b)

    def finish(self, accumulator: Value) -> R | None:
        """Return the result of the last accumulator.

        Args:
            accumulator: The accumulator; may be ``None``.
        """
        if accumulator is _Null:
            return None
        return self._of_nothing() if accumulator is None else self.finalize(accumulator)

    def _of_nothing(self) -> R | None:
        return None

    # --- by groups, where there are parts ---

    def prepared(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the column that the parts are made of.

        Args:
            column: The column that is aggregated.
        """
        return column

    def joined_rows(self, parts: list[pa.ChunkedArray], begins: list[int]) -> list[pa.Array]:
        """Return parts joined, of rows that are sorted by group.

        Args:
            parts: The parts, a column each.
            begins: The row at which each group begins.

        Raises:
            NotImplementedError: Parts are joined by a function of pyarrow.
        """
        raise NotImplementedError

    def finished(self, parts: list[pa.ChunkedArray]) -> pa.ChunkedArray:
        """Return the results of joined parts.

        Args:
            parts: The parts, a column each.
        """
        return parts[0]


class _Null:
    """The accumulator that a missing value makes."""


def not_of_type(error: Exception, name: str, column: str, kind: pa.DataType) -> Exception:
    """The error of an aggregation that the type of a column does not have."""
    said = f"{name} cannot be computed of column {column!r}, which is of type {kind}: {error}"
    return type(error)(said)
