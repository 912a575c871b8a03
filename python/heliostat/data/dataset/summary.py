"""Statistics of each column of a dataset."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from heliostat.data import aggregate as agg


class DatasetSummary:
    """Statistics by column, as ``Dataset.summary`` gives them."""

    def __init__(self, schema: Any, stats: dict[str, dict[str, Any]]) -> None:
        self.dataset_schema, self._stats = schema, stats

    def get_column_stats(self, column: str) -> Any:
        """Return the statistics of a column: a DataFrame of "statistic" and "value".

        Raises:
            KeyError: It has none.
        """
        import pandas as pd

        found = self._stats[column]
        return pd.DataFrame({"statistic": list(found), "value": list(found.values())}, dtype=object)

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for each statistic and a column for each column."""
        import pandas as pd

        names = list(dict.fromkeys(name for found in self._stats.values() for name in found))
        columns = {c: [found.get(n) for n in names] for c, found in self._stats.items()}
        return pd.DataFrame({"statistic": names, **columns}, dtype=object)

    def __repr__(self) -> str:
        return repr(self.to_pandas())


def aggregations(schema: Any, columns: list[str]) -> dict[str, list[Any]]:
    """What is asked about each column: more about numbers."""
    made: dict[str, list[Any]] = {}
    for name in columns:
        kind = schema.field(name).type
        asked: list[Any] = [agg.Count(on=name), agg.MissingValuePercentage(on=name)]
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            asked += [agg.Mean(name), agg.Min(name), agg.Max(name), agg.Std(name, ddof=0)]
            asked += [
                agg.Quantile(name, 0.5, alias_name=f"median({name})"),
                agg.ZeroPercentage(name),
            ]
        elif pa.types.is_string(kind) or pa.types.is_boolean(kind):
            asked.append(agg.ApproximateTopK(name, k=10))
        made[name] = asked
    return made


def of(dataset: Any, columns: list[str] | None) -> DatasetSummary:
    """The summary of a dataset's columns."""
    schema = dataset._arrow_schema()
    if schema is None:
        return DatasetSummary(None, {})
    asked = aggregations(schema, list(columns or schema.names))
    found = dataset.aggregate(*(a for each in asked.values() for a in each))
    stats = {
        column: {a.name.split("(")[0]: found[a.name] for a in each}
        for column, each in asked.items()
    }
    return DatasetSummary(schema, stats)
