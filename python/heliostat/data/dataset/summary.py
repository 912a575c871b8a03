"""Statistics of each column of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import aggregate as agg
from heliostat.data.datatype import as_arrow

if TYPE_CHECKING:
    import pandas as pd

    from heliostat.data.aliases import Aggregation, Row
    from heliostat.data.dataset import Dataset
    from heliostat.data.datatype import DataType


Aggregations = Callable[[str], list["Aggregation"]]
TOP = 10  # values that are shown of those that occur most


class DatasetSummary:
    """Statistics by column, as ``Dataset.summary`` gives them.

    A statistic of several values has a row for each: "approx_topk[0]", "approx_topk[1]", ...

    Args:
        schema: The dataset's schema.
        stats: Statistics by column.

    Examples:
        >>> import ray
        >>> summary = ray.data.range(4).summary()
        >>> summary.to_pandas().set_index("statistic")["id"]["mean"]
        1.5
    """

    STATISTIC_COLUMN = "statistic"

    def __init__(self, schema: pa.Schema, stats: dict[str, Row]) -> None:
        self.dataset_schema, self._stats = schema, stats
        self.columns = list(stats)

    def _statistics(self) -> list[str]:
        return sorted({name for found in self._stats.values() for name in found})

    def get_column_stats(self, column: str) -> pd.DataFrame:
        """Return the statistics of a column: a DataFrame of "statistic" and "value".

        Args:
            column: The column.

        Raises:
            ValueError: It has none.
        """
        pd = required("pandas", "Tables of summaries")

        if column not in self._stats:
            raise ValueError(f"Column {column!r} is not in the summary of {self.columns}.")
        found, names = self._stats[column], self._statistics()
        values = [found.get(name) for name in names]
        return pd.DataFrame({self.STATISTIC_COLUMN: names, "value": values}, dtype=object)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame with a row for each statistic and a column for each column."""
        pd = required("pandas", "Tables of summaries")

        names = self._statistics()
        columns = {c: [found.get(n) for n in names] for c, found in sorted(self._stats.items())}
        return pd.DataFrame({self.STATISTIC_COLUMN: names, **columns}, dtype=object)

    def __repr__(self) -> str:
        return repr(self.to_pandas())


def _of_numbers(name: str) -> list[Aggregation]:
    made: list[Aggregation] = [agg.Count(on=name), agg.Mean(name)]
    made += [agg.Min(name), agg.Max(name), agg.Std(name, ddof=0)]
    made += [agg.ApproximateQuantile(name, [0.5])]
    return [*made, agg.MissingValuePercentage(name), agg.ZeroPercentage(name)]


def _of_times(name: str) -> list[Aggregation]:
    return [agg.Count(on=name), agg.Min(name), agg.Max(name), agg.MissingValuePercentage(name)]


def _of_others(name: str) -> list[Aggregation]:
    top = agg.ApproximateTopK(name, TOP)
    return [agg.Count(on=name), agg.MissingValuePercentage(name), top]


def _asked(kind: pa.DataType, own: Mapping[pa.DataType, Aggregations]) -> Aggregations:
    """Return the aggregations for a column of that Arrow type."""
    if kind in own:
        return own[kind]
    is_number = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if any(one(kind) for one in is_number):
        return _of_numbers
    return _of_times if pa.types.is_temporal(kind) else _of_others


def of(
    dataset: Dataset,
    columns: list[str] | None,
    own: Mapping[DataType | pa.DataType, Aggregations] | None,
) -> DatasetSummary:
    """The summary of a dataset's columns.

    Raises:
        ValueError: There is no such column.
    """
    schema = dataset._arrow_schema()
    if schema is None:
        return DatasetSummary(None, {})
    names = list(columns or schema.names)
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise ValueError(f"there is no column {missing} to summarize; there are {schema.names}.")
    mine = {as_arrow(kind): asked for kind, asked in (own or {}).items()}
    asked = {name: _asked(schema.field(name).type, mine)(name) for name in names}
    found = dataset.aggregate(*(a for each in asked.values() for a in each))
    stats: dict[str, Row] = {name: {} for name in names}
    for name, each in asked.items():
        for aggregation in each:
            statistic, value = aggregation.name.removesuffix(f"({name})"), found[aggregation.name]
            parts = value if isinstance(value, list) else None
            if parts is None:
                stats[name][statistic] = value
            else:
                stats[name].update({f"{statistic}[{i}]": v for i, v in enumerate(parts)})
    return DatasetSummary(schema, stats)
