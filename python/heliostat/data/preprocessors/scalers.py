"""Numbers on other scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heliostat.data.aggregate import AbsMax, Max, Mean, Min, Quantile, Std
from heliostat.data.preprocessors.base import OfColumns

if TYPE_CHECKING:
    import pandas as pd

    from heliostat.data.aliases import Aggregation
    from heliostat.data.dataset import Dataset


class _Learned(OfColumns):
    """Learns aggregates of its columns."""

    def _aggregations(self, column: str) -> list[Aggregation]:
        raise NotImplementedError

    def _fit(self, ds: Dataset) -> None:
        self.stats_ = ds.aggregate(*(a for c in self.columns for a in self._aggregations(c)))


class StandardScaler(_Learned):
    """Scale to average 0 and standard deviation 1; a constant column becomes 0.

    Args:
        columns: The columns.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There are not as many ``output_columns`` as columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import StandardScaler
        >>> ds = ray.data.from_items([{"x": 1.0}, {"x": 3.0}])
        >>> StandardScaler(["x"]).fit_transform(ds).take_all()
        [{'x': -1.0}, {'x': 1.0}]
    """

    def _aggregations(self, column: str) -> list[Aggregation]:
        return [Mean(column), Std(column, ddof=0)]

    def _column(self, name: str, values: object) -> pd.Series:
        mean, std = self.stats_[f"mean({name})"], self.stats_[f"std({name})"]
        if mean is None or std is None:
            return values * np.nan
        return (values - mean) / (std or 1)


class MinMaxScaler(_Learned):
    """Scale to the range from 0 to 1; a constant column becomes 0.

    Args:
        columns: The columns.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There are not as many ``output_columns`` as columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import MinMaxScaler
        >>> ds = ray.data.from_items([{"x": 2.0}, {"x": 3.0}, {"x": 4.0}])
        >>> MinMaxScaler(["x"]).fit_transform(ds).take_all()
        [{'x': 0.0}, {'x': 0.5}, {'x': 1.0}]
    """

    def _aggregations(self, column: str) -> list[Aggregation]:
        return [Min(column), Max(column)]

    def _column(self, name: str, values: object) -> pd.Series:
        least, most = self.stats_[f"min({name})"], self.stats_[f"max({name})"]
        return (values - least) / ((most - least) or 1)


class MaxAbsScaler(_Learned):
    """Scale to the range from -1 to 1, keeping 0.

    Args:
        columns: The columns.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There are not as many ``output_columns`` as columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import MaxAbsScaler
        >>> ds = ray.data.from_items([{"x": -4.0}, {"x": 2.0}])
        >>> MaxAbsScaler(["x"]).fit_transform(ds).take_all()
        [{'x': -1.0}, {'x': 0.5}]
    """

    def _aggregations(self, column: str) -> list[Aggregation]:
        return [AbsMax(column)]

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        return values / (self.stats_[f"abs_max({name})"] or 1)


class RobustScaler(_Learned):
    """Scale to median 0 and distance 1 between two quantiles, which outliers hardly change.

    Args:
        columns: The columns.
        quantile_range: The two quantiles. Default ``(0.25, 0.75)``.
        output_columns: Where the results go, as many names. Default: in place of the columns.
        quantile_precision: Has no effect: quantiles are exact.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import RobustScaler
        >>> ds = ray.data.from_items([{"x": x} for x in (1.0, 2.0, 3.0, 4.0, 100.0)])
        >>> RobustScaler(["x"]).fit_transform(ds).take(3)
        [{'x': -1.0}, {'x': -0.5}, {'x': 0.0}]
    """

    def __init__(
        self,
        columns: list[str],
        quantile_range: tuple[float, float] = (0.25, 0.75),
        output_columns: list[str] | None = None,
        quantile_precision: int = 800,
    ) -> None:
        super().__init__(columns, output_columns)
        self.quantile_range = quantile_range

    def _aggregations(self, column: str) -> list[Aggregation]:
        names = ("low_quantile", "median", "high_quantile")
        places = (self.quantile_range[0], 0.5, self.quantile_range[1])
        return [
            Quantile(column, q, alias_name=f"{name}({column})")
            for name, q in zip(names, places, strict=True)
        ]

    def _column(self, name: str, values: object) -> pd.Series:
        low, median, high = (
            self.stats_[f"{kind}({name})"] for kind in ("low_quantile", "median", "high_quantile")
        )
        return (values - median) / ((high - low) or 1)


_LENGTHS = {
    "l1": lambda values: np.abs(values).sum(axis=1),
    "l2": lambda values: np.sqrt((values**2).sum(axis=1)),
    "max": lambda values: np.abs(values).max(axis=1),
}


class Normalizer(OfColumns):
    """Scale rows to length 1.

    Args:
        columns: The columns.
        norm: Which length: ``"l1"``, ``"l2"`` (the default) or ``"max"``.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There is no such length.

    Examples:
        >>> import pandas as pd
        >>> from ray.data.preprocessors import Normalizer
        >>> Normalizer(["x", "y"]).transform_batch(pd.DataFrame({"x": [3.0], "y": [4.0]}))
             x    y
        0  0.6  0.8
    """

    _is_fittable = False

    def __init__(
        self, columns: list[str], norm: str = "l2", *, output_columns: list[str] | None = None
    ) -> None:
        super().__init__(columns, output_columns)
        if norm not in _LENGTHS:
            raise ValueError(
                f"Norm {norm} is not supported. Supported values are: {list(_LENGTHS)}"
            )
        self.norm = norm

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        values = df[self.columns].to_numpy(dtype=np.float64)
        lengths = _LENGTHS[self.norm](values)
        lengths[lengths == 0] = 1
        made = values / lengths[:, None]
        for i, name in enumerate(self.output_columns):
            df[name] = made[:, i]
        return df


class PowerTransformer(OfColumns):
    """Take a power of the values.

    Args:
        columns: The columns.
        power: The exponent.
        method: ``"yeo-johnson"`` (the default), or ``"box-cox"`` for positive values.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There is no such method.

    Examples:
        >>> import pandas as pd
        >>> from ray.data.preprocessors import PowerTransformer
        >>> PowerTransformer(["x"], power=2).transform_batch(pd.DataFrame({"x": [1.0, 2.0]}))
             x
        0  1.5
        1  4.0
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        power: float,
        method: str = "yeo-johnson",
        *,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        if method not in ("yeo-johnson", "box-cox"):
            raise ValueError(f"Method {method} is not supported: use 'yeo-johnson' or 'box-cox'.")
        self.power = power
        self.method = method

    def _column(self, name: str, values: pd.Series) -> np.ndarray:
        numbers, power = values.to_numpy(dtype=np.float64), self.power
        if self.method == "box-cox":
            return np.log(numbers) if power == 0 else (numbers**power - 1) / power
        above, below = np.maximum(numbers, 0), np.maximum(-numbers, 0)
        up = np.log1p(above) if power == 0 else ((above + 1) ** power - 1) / power
        rest = 2 - power
        down = -np.log1p(below) if rest == 0 else -((below + 1) ** rest - 1) / rest
        return np.where(numbers >= 0, up, down)
