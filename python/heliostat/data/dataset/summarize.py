"""Aggregates of the whole dataset, and groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from heliostat.data.dataset import summary
from heliostat.data.dataset.base import Base, key_names
from heliostat.data.dataset.summary import DatasetSummary
from heliostat.data.missing import no_columns
from heliostat.data.plan.operators import Map
from heliostat.data.plan.transforms import MapStream

if TYPE_CHECKING:
    from heliostat.data.grouped import GroupedData


class Summarize(Base):
    """Part of ``Dataset``."""

    def aggregate(self, *aggs: Any) -> dict[str, Any]:
        """Return the results of aggregations by name; see ``ray.data.aggregate``.

        Args:
            *aggs: Aggregations of ``ray.data.aggregate``.

        Raises:
            ValueError: There is none.

        Examples:
            >>> import ray
            >>> from ray.data.aggregate import Mean, Sum
            >>> ray.data.range(5).aggregate(Sum("id"), Mean("id"))
            {'sum(id)': 10, 'mean(id)': 2.0}
        """
        from heliostat.data import aggregate

        if not aggs:
            raise ValueError("aggregate() needs at least one aggregation.")
        partials = MapStream(aggregate.Partials(list(aggs)), "Aggregate")
        return aggregate.total(self._tables(Map(self._plan, partials)), list(aggs))

    def summary(
        self,
        columns: list[str] | None = None,
        override_dtype_agg_mapping: Mapping[Any, Callable[[str], list[Any]]] | None = None,
    ) -> DatasetSummary:
        """Return statistics of columns.

        Of numbers: count, mean, min, max, std (of all values, ``ddof=0``), approx_quantile (the
        median), missing_pct and zero_pct. Of times: count, min, max, missing_pct. Of others: count,
        missing_pct, and approx_topk, the ten values that occur most. Percentages are from 0 to 100.

        Args:
            columns: Default: all.
            override_dtype_agg_mapping: By ``DataType``, a function that gives the aggregations of a
                column of that type, instead.

        Raises:
            ValueError: There is no such column.
        """
        return summary.of(self, columns, override_dtype_agg_mapping)

    def _single(self, kind: Any, on: Any, **options: Any) -> Any:
        columns = [on] if isinstance(on, str) else on
        if columns is None:
            columns = self._columns_to_aggregate()
            if not columns:
                return None
        made = self.aggregate(*(kind(column, **options) for column in columns))
        if len(columns) == 1:
            return next(iter(made.values()))
        return made

    def _columns_to_aggregate(self) -> list[str]:
        schema = self._arrow_schema()
        return list(schema.names) if schema is not None else []

    def sum(self, on: Any = None, ignore_nulls: bool = True) -> Any:
        """Return the sum of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).sum("id")
            10
        """
        from heliostat.data.aggregate import Sum

        return self._single(Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: Any = None, ignore_nulls: bool = True) -> Any:
        """Return the least value of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).min("id")
            0
        """
        from heliostat.data.aggregate import Min

        return self._single(Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: Any = None, ignore_nulls: bool = True) -> Any:
        """Return the greatest value of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).max("id")
            4
        """
        from heliostat.data.aggregate import Max

        return self._single(Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: Any = None, ignore_nulls: bool = True) -> Any:
        """Return the average of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).mean("id")
            2.0
        """
        from heliostat.data.aggregate import Mean

        return self._single(Mean, on, ignore_nulls=ignore_nulls)

    def std(self, on: Any = None, ddof: int = 1, ignore_nulls: bool = True) -> Any:
        """Return the standard deviation of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ddof: Degrees of freedom taken off the count. Default 1.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> round(ray.data.range(5).std("id"), 3)
            1.581
        """
        from heliostat.data.aggregate import Std

        return self._single(Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Any]:
        """Return the different values of a column.

        Args:
            column: The column.
            ignore_nulls: Leave the missing value out. Default False.

        Examples:
            >>> import ray
            >>> sorted(ray.data.from_items([1, 2, 1]).unique("item"))
            [1, 2]
        """
        from heliostat.data.aggregate import Unique

        found: list[Any] = self._single(Unique, column, ignore_nulls=ignore_nulls) or []
        return found

    def groupby(
        self, key: str | list[str] | None, num_partitions: int | None = None
    ) -> GroupedData:
        """Return the dataset in groups of rows that have the same values in some columns.

        Args:
            key: A column or several; ``None``: all rows are one group.
            num_partitions: Tasks that group. Default: by the data.

        Raises:
            ValueError: There is no such column.

        Examples:
            >>> import ray
            >>> ds = ray.data.from_items([{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}])
            >>> ds.groupby("k").sum("v").take_all()
            [{'k': 'a', 'sum(v)': 4}, {'k': 'b', 'sum(v)': 2}]
        """
        from heliostat.data.grouped import GroupedData

        keys = [] if key is None else key_names(key)
        schema = self.schema(fetch_if_missing=False)  # type: ignore[attr-defined] # of Consume
        missing = [k for k in keys if schema is not None and k not in schema.names]
        if missing:
            raise ValueError(f"groupby: {no_columns(missing, schema.names)}")
        return GroupedData(self, keys, num_partitions)
