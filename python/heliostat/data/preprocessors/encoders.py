"""Categories as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.data.aggregate import AggregateFnV2, Count
from heliostat.data.preprocessors.base import OfColumns, Preprocessor

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from heliostat.data.aliases import Value
    from heliostat.data.dataset import Dataset


class ValueCounts(AggregateFnV2[Counter["Value"], Counter["Value"]]):
    """Counts each value of a column; the elements of lists count one by one."""

    def __init__(self, on: str) -> None:
        super().__init__(f"counts({on})", Counter, on=on, ignore_nulls=True)

    def aggregate_block(self, block: pa.Table) -> Counter[Value]:
        """Return the block's counts."""
        found: Counter[Value] = Counter()
        for value in block.column(self.on).to_pylist():
            found.update(value if isinstance(value, list) else (value,))
        return found

    def combine(self, current_accumulator: Counter[Value], new: Counter[Value]) -> Counter[Value]:
        """Return the sums."""
        return current_accumulator + new


def learned(
    ds: Dataset, columns: list[str], most: dict[str, int] | None = None, *, complete: bool = True
) -> dict[str, dict[Value, int]]:
    """The categories of columns and their numbers, in order; only the ``most`` common ones.

    Raises:
        ValueError: The columns are to be ``complete``, and values are missing.
    """
    there = [Count(c, ignore_nulls=True, alias_name=f"there({c})") for c in columns]
    counts = ds.aggregate(*(ValueCounts(c) for c in columns), *there, Count(alias_name="rows"))
    for column in columns if complete else ():
        if counts[f"there({column})"] != counts["rows"]:
            raise ValueError(
                f"Values of the column {column!r} are missing, and have no category: fill them "
                "first, as SimpleImputer does."
            )
    stats = {}
    for column in columns:
        found = counts[f"counts({column})"] or {}
        limit = (most or {}).get(column)
        kept = [value for value, _ in Counter(found).most_common(limit)]
        stats[f"unique_values({column})"] = {v: i for i, v in enumerate(sorted(kept))}
    return stats


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


class OrdinalEncoder(OfColumns):
    """Each category's number; one that was not there when fitting becomes missing.

    Args:
        columns: The columns.
        encode_lists: Of a column of lists, encode what is in them. Default True; False: a list is a
            category.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import OrdinalEncoder
        >>> ds = ray.data.from_items([{"size": "S"}, {"size": "L"}])
        >>> OrdinalEncoder(["size"]).fit_transform(ds).take_all()
        [{'size': 1}, {'size': 0}]
    """

    def __init__(
        self,
        columns: list[str],
        *,
        encode_lists: bool = True,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.encode_lists = encode_lists

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = learned(ds, self.columns)

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        numbers = self.stats_[f"unique_values({name})"]
        if len(values) and _is_list(values.iloc[0]):
            if not self.encode_lists:
                raise ValueError(f"The column {name!r} holds lists; set encode_lists=True.")
            return values.map(lambda items: [numbers.get(item) for item in items])
        return values.map(numbers)


class OneHotEncoder(OfColumns):
    """A list with 1 at the category's place and 0 elsewhere; only 0 for one that is not known.

    Args:
        columns: The columns.
        max_categories: By column, how many of the most common categories are kept. Default: all.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import OneHotEncoder
        >>> ds = ray.data.from_items([{"size": "S"}, {"size": "L"}])
        >>> OneHotEncoder(["size"]).fit_transform(ds).take_all()
        [{'size': [0, 1]}, {'size': [1, 0]}]
    """

    _complete = True  # a missing value cannot be fitted

    def __init__(
        self,
        columns: list[str],
        *,
        max_categories: dict[str, int] | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.max_categories = max_categories or {}

    def _fit(self, ds: Dataset) -> None:
        complete = self._complete
        self.stats_ = learned(ds, self.columns, self.max_categories, complete=complete)

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        numbers = self.stats_[f"unique_values({name})"]

        def encoded(value: object) -> list[int]:
            row = [0] * len(numbers)
            if value in numbers:
                row[numbers[value]] = 1
            return row

        return values.map(encoded)


class MultiHotEncoder(OneHotEncoder):
    """For lists: how often each category is in it.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import MultiHotEncoder
        >>> ds = ray.data.from_items([{"tags": ["a", "b"]}, {"tags": ["b", "b"]}])
        >>> MultiHotEncoder(["tags"]).fit_transform(ds).take_all()
        [{'tags': [1, 1]}, {'tags': [0, 2]}]
    """

    _complete = False

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        numbers = self.stats_[f"unique_values({name})"]

        def encoded(items: Value) -> list[int]:
            row = [0] * len(numbers)
            for item in items if _is_list(items) else (items,):
                if item in numbers:
                    row[numbers[item]] += 1
            return row

        return values.map(encoded)


class LabelEncoder(Preprocessor):
    """Replace each label by a number, and back.

    Args:
        label_column: The column.
        output_column: Where the result goes. Default: in place of the column.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import LabelEncoder
        >>> ds = ray.data.from_items([{"label": "dog"}, {"label": "cat"}])
        >>> encoder = LabelEncoder("label").fit(ds)
        >>> numbers = encoder.transform(ds)
        >>> numbers.take_all()
        [{'label': 1}, {'label': 0}]
        >>> encoder.inverse_transform(numbers).take_all()
        [{'label': 'dog'}, {'label': 'cat'}]
    """

    def __init__(self, label_column: str, *, output_column: str | None = None) -> None:
        super().__init__()
        self.label_column = label_column
        self.output_column = output_column or label_column

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = learned(ds, [self.label_column])

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        numbers = self.stats_[f"unique_values({self.label_column})"]
        df[self.output_column] = df[self.label_column].map(numbers)
        return df

    def inverse_transform(self, ds: Dataset) -> Dataset:
        """Return the dataset with labels in place of their numbers.

        Args:
            ds: The dataset.
        """
        self._check("inverse_transform")
        labels = {i: v for v, i in self.stats_[f"unique_values({self.label_column})"].items()}
        column, source = self.label_column, self.output_column

        def back(df: pd.DataFrame) -> pd.DataFrame:
            df[column] = df[source].map(labels)
            return df

        return ds.map_batches(back, batch_format="pandas", zero_copy_batch=False)


class Categorizer(OfColumns):
    """Make columns of pandas' categories.

    Args:
        columns: The columns.
        dtypes: ``CategoricalDtype`` by column. Default: those found when fitting.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import Categorizer
        >>> ds = ray.data.from_items([{"size": "S"}, {"size": "L"}])
        >>> fitted = Categorizer(["size"]).fit(ds)
        >>> list(fitted.transform_batch(ds.to_pandas())["size"].cat.categories)
        ['L', 'S']
    """

    def __init__(
        self,
        columns: list[str],
        dtypes: dict[str, object] | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.dtypes = dtypes or {}

    def _fit(self, ds: Dataset) -> None:
        pd = required("pandas", "Categorizer")

        rest = [c for c in self.columns if c not in self.dtypes]
        found = learned(ds, rest, complete=False) if rest else {}
        made = {c: pd.CategoricalDtype(list(found[f"unique_values({c})"])) for c in rest}
        self.stats_ = {**made, **self.dtypes}

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        return values.astype(self.stats_[name])


class SimpleImputer(OfColumns):
    """Replace missing values.

    Args:
        columns: The columns.
        strategy: By the ``"mean"`` (the default), the ``"most_frequent"`` value, or a ``"constant"``.
        fill_value: The constant.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There is no such strategy, or no constant.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import SimpleImputer
        >>> ds = ray.data.from_items([{"x": 1.0}, {"x": None}, {"x": 3.0}])
        >>> SimpleImputer(["x"], strategy="mean").fit_transform(ds).take_all()
        [{'x': 1.0}, {'x': 2.0}, {'x': 3.0}]
    """

    def __init__(
        self,
        columns: list[str],
        strategy: str = "mean",
        fill_value: object = None,
        *,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if strategy not in ("mean", "most_frequent", "constant"):
            raise ValueError(
                f"Strategy {strategy} is not supported: use 'mean', 'most_frequent' or 'constant'."
            )
        if strategy == "constant" and fill_value is None:
            raise ValueError('`fill_value` must be set when using "constant" strategy.')
        self.strategy, self.fill_value = strategy, fill_value
        self._is_fittable = strategy != "constant"

    def _fit(self, ds: Dataset) -> None:
        from heliostat.data.aggregate import Mean

        if self.strategy == "mean":
            self.stats_ = ds.aggregate(*(Mean(c) for c in self.columns))
            return
        counts = ds.aggregate(*(ValueCounts(c) for c in self.columns))
        for column in self.columns:
            found = Counter(counts[f"counts({column})"] or {}).most_common(1)
            self.stats_[f"most_frequent({column})"] = found[0][0] if found else None

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        value = self.fill_value
        if self.strategy != "constant":
            value = self.stats_[f"{self.strategy}({name})"]
        if value is None:
            raise ValueError(f"SimpleImputer found no value in column {name!r} when it was fitted.")
        if values.dtype == object and isinstance(value, int | float):
            values = values.astype(np.float64)
        return values.fillna(value)
