"""Text, bins, vectors and pictures as features."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.data.aggregate import Max, Min
from heliostat.data.preprocessors.base import OfColumns, Preprocessor

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from heliostat.data.dataset import Dataset


Tokenize = Callable[[str], list[str]]


def simple_split_tokenizer(value: str) -> list[str]:
    """The words between spaces."""
    return value.split(" ")


def simple_hash(value: object, num_features: int) -> int:
    """A number below ``num_features`` that depends on the value alone."""
    digest = hashlib.sha256(str(value).encode()).hexdigest()
    return int(digest, 16) % num_features


class Tokenizer(OfColumns):
    """Replace texts by lists of tokens.

    Args:
        columns: The columns.
        tokenization_fn: Takes a text; returns its tokens. Default: the words between spaces.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import Tokenizer
        >>> Tokenizer(["text"]).transform(ray.data.from_items([{"text": "to be"}])).take_all()
        [{'text': ['to', 'be']}]
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Tokenize | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.tokenization_fn = tokenization_fn or simple_split_tokenizer

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        return values.map(self.tokenization_fn)


class CountVectorizer(Tokenizer):
    """Count in a text how often each of the most common tokens is there.

    Args:
        columns: The columns.
        tokenization_fn: Takes a text; returns its tokens. Default: the words between spaces.
        max_features: How many tokens. Default: all.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import CountVectorizer
        >>> ds = ray.data.from_items([{"text": "to be or not to be"}])
        >>> vectorizer = CountVectorizer(["text"], max_features=2).fit(ds)
        >>> dict(vectorizer.stats_["token_counts(text)"])
        {'to': 2, 'be': 2}
        >>> vectorizer.transform(ray.data.from_items([{"text": "be"}])).take_all()
        [{'text': [0, 1]}]
    """

    _is_fittable = True

    def __init__(
        self,
        columns: list[str],
        tokenization_fn: Tokenize | None = None,
        max_features: int | None = None,
        *,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self.max_features = max_features

    def _fit(self, ds: Dataset) -> None:
        from heliostat.data.preprocessors.encoders import ValueCounts

        tokens = Tokenizer(self.columns, self.tokenization_fn).transform(ds)
        counts = tokens.aggregate(*(ValueCounts(c) for c in self.columns))
        for column in self.columns:
            found: Counter[str] = Counter(counts[f"counts({column})"] or {})
            kept = Counter(dict(found.most_common(self.max_features)))
            self.stats_[f"token_counts({column})"] = kept

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        known = list(self.stats_[f"token_counts({name})"])

        def counted(text: str) -> list[int]:
            found = Counter(self.tokenization_fn(text))
            return [found[token] for token in known]

        return values.map(counted)


class HashingVectorizer(Tokenizer):
    """Count how many tokens of a text have each hash.

    Args:
        columns: The columns.
        num_features: How many hashes there are.
        tokenization_fn: Takes a text; returns its tokens. Default: the words between spaces.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import pandas as pd
        >>> from ray.data.preprocessors import HashingVectorizer
        >>> texts = pd.DataFrame({"text": ["to be or not to be"]})
        >>> counts = HashingVectorizer(["text"], num_features=8).transform_batch(texts)["text"][0]
        >>> len(counts), sum(counts)
        (8, 6)
    """

    def __init__(
        self,
        columns: list[str],
        num_features: int,
        tokenization_fn: Tokenize | None = None,
        *,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, tokenization_fn, output_columns)
        self.num_features = num_features

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        def hashed(text: str) -> list[int]:
            row = [0] * self.num_features
            for token in self.tokenization_fn(text):
                row[simple_hash(token, self.num_features)] += 1
            return row

        return values.map(hashed)


class FeatureHasher(Preprocessor):
    """A vector of the values of several columns, each at the place of its column's hash.

    Args:
        columns: The columns.
        num_features: The length of the vector.
        output_column: Where it goes.

    Examples:
        >>> import pandas as pd
        >>> from ray.data.preprocessors import FeatureHasher
        >>> words = pd.DataFrame({"to": [2], "be": [1]})
        >>> hashed = FeatureHasher(["to", "be"], num_features=8, output_column="words")
        >>> vector = hashed.transform_batch(words)["words"][0]
        >>> len(vector), int(vector.sum())
        (8, 3)
    """

    _is_fittable = False

    def __init__(self, columns: list[str], num_features: int, output_column: str) -> None:
        super().__init__()
        self.columns, self.num_features, self.output_column = columns, num_features, output_column

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        made = np.zeros((len(df), self.num_features))
        for column in self.columns:
            made[:, simple_hash(column, self.num_features)] += df[column].to_numpy()
        if all(df[c].dtype.kind in "iub" for c in self.columns):
            made = made.astype(np.int64)
        df[self.output_column] = list(made)
        return df


class Concatenator(Preprocessor):
    """A vector of the values of several columns, which it replaces.

    Args:
        columns: In this order.
        output_column_name: The vector's column.
        dtype: Its type. Default: what fits.
        raise_if_missing: Raise ``ValueError`` if a column is not there; else it is ``KeyError``.
        flatten: Columns may hold vectors, which are put one after the other.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import Concatenator
        >>> ds = ray.data.from_items([{"x": 1.0, "y": 2.0, "label": 0}])
        >>> Concatenator(["x", "y"], output_column_name="features").transform(ds).take_all()
        [{'label': 0, 'features': array([1., 2.])}]
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        output_column_name: str = "concat_out",
        dtype: np.dtype | None = None,
        raise_if_missing: bool = False,
        flatten: bool = False,
    ) -> None:
        super().__init__()
        self.columns, self.output_column_name = list(columns), output_column_name
        self.dtype, self.raise_if_missing, self.flatten = dtype, raise_if_missing, flatten

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        missing = [c for c in self.columns if c not in df.columns]
        if missing:
            error = ValueError if self.raise_if_missing else KeyError
            raise error(
                f"Missing columns specified in '{self.columns}': {missing}. "
                f"The batch has {list(df.columns)}."
            )
        if self.flatten:
            parts = [np.stack([np.ravel(v) for v in df[c]]) for c in self.columns]
            made = np.concatenate(parts, axis=1)
        else:
            made = _numbers(df[self.columns])
        df = df.drop(columns=self.columns)
        df[self.output_column_name] = list(made if self.dtype is None else made.astype(self.dtype))
        return df


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    """The rows as vectors; pandas makes objects of columns with Arrow's types."""
    types = required("pandas", "Concatenator").api.types
    if not all(types.is_numeric_dtype(kind) for kind in frame.dtypes):
        return frame.to_numpy()
    columns = [frame[name] for name in frame.columns]
    return np.column_stack(
        [c.to_numpy(np.float64, na_value=np.nan) if c.hasnans else c.to_numpy() for c in columns]
    )


class CustomKBinsDiscretizer(OfColumns):
    """Replace a value by the number of the bin that it is in.

    Args:
        columns: The columns.
        bins: Edges, for all columns or a dict by column.
        right: A bin's right edge is in it, not its left one. Default True.
        include_lowest: The least edge is in the first bin, too. Default False.
        duplicates: Edges that are the same: ``"raise"`` (the default) or ``"drop"``.
        dtypes: ``CategoricalDtype`` by column, of the results. Default: numbers.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Examples:
        >>> import pandas as pd
        >>> from ray.data.preprocessors import CustomKBinsDiscretizer
        >>> ages = pd.DataFrame({"age": [3, 30, 70]})
        >>> CustomKBinsDiscretizer(["age"], bins=[0, 18, 65, 120]).transform_batch(ages)["age"].tolist()
        [0, 1, 2]
    """

    _is_fittable = False

    def __init__(
        self,
        columns: list[str],
        bins: Sequence[float] | dict[str, Sequence[float]],
        *,
        right: bool = True,
        include_lowest: bool = False,
        duplicates: str = "raise",
        dtypes: dict[str, pd.CategoricalDtype | type] | None = None,
        output_columns: list[str] | None = None,
    ) -> None:
        super().__init__(columns, output_columns)
        self.bins, self.right, self.include_lowest = bins, right, include_lowest
        self.duplicates, self.dtypes = duplicates, dtypes

    def _edges(self, name: str) -> Sequence[float]:
        return self.bins[name] if isinstance(self.bins, dict) else self.bins

    def _column(self, name: str, values: object) -> pd.Series:
        pd = required("pandas", "Discretizers")

        dtype = (self.dtypes or {}).get(name)
        labels = dtype.categories if isinstance(dtype, pd.CategoricalDtype) else False
        made = pd.cut(
            values,
            self._edges(name),
            right=self.right,
            labels=labels,
            include_lowest=self.include_lowest,
            duplicates=self.duplicates,
        )
        return made.astype(dtype) if dtype is not None else made


class UniformKBinsDiscretizer(CustomKBinsDiscretizer):
    """Replace a value by the number of its bin; bins have equal width from the least to the greatest value.

    Args:
        bins: How many, for all columns or a dict by column.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import UniformKBinsDiscretizer
        >>> UniformKBinsDiscretizer(["id"], bins=2).fit_transform(ray.data.range(4)).take_all()
        [{'id': 0}, {'id': 0}, {'id': 1}, {'id': 1}]
    """

    _is_fittable = True

    def _fit(self, ds: Dataset) -> None:
        found = ds.aggregate(*(kind(c) for c in self.columns for kind in (Min, Max)))
        for column in self.columns:
            low, high = found[f"min({column})"], found[f"max({column})"]
            count = self.bins[column] if isinstance(self.bins, dict) else self.bins
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"`bins` of {column!r} must be a positive integer, got {count!r}.")
            self.stats_[column] = _uniform(low, high, count, self.right)

    def _edges(self, name: str) -> Sequence[float]:
        found: Sequence[float] = self.stats_[name]
        return found


def _uniform(low: float, high: float, count: int, right: bool) -> np.ndarray:
    """Edges whose outermost bin is a little wider, so that it holds the value at its open end."""
    if low == high:
        pad = 0.001 * abs(low) if low else 0.001
        low, high = low - pad, high + pad
        return np.linspace(low, high, count + 1)
    edges = np.linspace(low, high, count + 1)
    pad = (high - low) * 0.001
    edges[0 if right else -1] += -pad if right else pad
    return edges


class TorchVisionPreprocessor(Preprocessor):
    """A transform of torchvision on columns of pictures.

    Args:
        columns: The pictures, as arrays.
        transform: Called with each array, or with a whole batch of them.
        output_columns: Where the results go. Default: ``columns``.
        batched: Call ``transform`` once a batch.

    Examples:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from ray.data.preprocessors import TorchVisionPreprocessor
        >>> pictures = pd.DataFrame({"image": [np.full((2, 2), 255.0)]})
        >>> scaled = TorchVisionPreprocessor(["image"], transform=lambda image: image / 255)
        >>> scaled.transform_batch(pictures)["image"][0].tolist()
        [[1.0, 1.0], [1.0, 1.0]]
    """

    _is_fittable = False

    _class_id = "io.ray.preprocessors.torchvision_preprocessor"

    def __init__(
        self,
        columns: list[str],
        transform: Callable[[torch.Tensor], torch.Tensor],
        output_columns: list[str] | None = None,
        batched: bool = False,
    ) -> None:
        super().__init__()
        self.columns, self.output_columns = columns, output_columns or columns
        self.torchvision_transform, self.batched = transform, batched

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        for source, target in zip(self.columns, self.output_columns, strict=True):
            pictures = list(df[source])
            made = self._one(np.stack(pictures)) if self.batched else map(self._one, pictures)
            df[target] = list(_rows(made))
        return df

    def _one(self, value: object) -> np.ndarray:
        made = self.torchvision_transform(value)
        return np.asarray(made.detach().cpu()) if hasattr(made, "detach") else np.asarray(made)


def _rows(values: Iterable[object]) -> Iterable[np.ndarray]:
    return (np.asarray(value) for value in values)
