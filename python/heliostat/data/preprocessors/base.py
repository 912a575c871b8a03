"""The base of preprocessors: fitting on a dataset, transforming datasets and batches."""

from __future__ import annotations

import abc
import enum
import pickle
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data import block, frames
from heliostat.data.accessor import BatchFormat

if TYPE_CHECKING:
    import pandas as pd

    from heliostat.data.aliases import Batch, Value
    from heliostat.data.dataset import Dataset


class PreprocessorNotFittedException(RuntimeError):
    """The preprocessor has to be fitted before it can transform.

    Examples:
        >>> from ray.data.preprocessors import MinMaxScaler, PreprocessorNotFittedException
        >>> try:
        ...     MinMaxScaler(["x"]).transform_batch({"x": [1.0]})
        ... except PreprocessorNotFittedException:
        ...     print("fit it first")
        fit it first
    """


class Preprocessor(abc.ABC):
    """Learns statistics of a dataset (``fit``), then changes datasets and batches by them.

    What derives from it implements ``_transform_pandas``, and ``_fit`` if there is something to learn.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import MinMaxScaler
        >>> scaler = MinMaxScaler(["id"]).fit(ray.data.range(5))
        >>> scaler.transform(ray.data.range(2)).take_all()
        [{'id': 0.0}, {'id': 0.25}]
        >>> scaler.transform_batch({"id": [4]})["id"].tolist()
        [1.0]
    """

    class FitStatus(str, enum.Enum):
        """Whether there is something to learn, and whether it has been learnt."""

        NOT_FITTABLE = "NOT_FITTABLE"
        NOT_FITTED = "NOT_FITTED"
        FITTED = "FITTED"

    _is_fittable = True
    _version = 1
    _class_id: str | None = None

    def __init__(self) -> None:
        self.stats_: dict[str, Value] = {}
        self._fitted = False

    def fit(self, ds: Dataset) -> Preprocessor:
        """Learn from a dataset.

        Args:
            ds: The dataset.

        Returns:
            The preprocessor itself.
        """
        if self._is_fittable:
            self.stats_ = {}
            self._fit(ds)
        self._fitted = True
        return self

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """Learn from a dataset and transform it.

        Args:
            ds: The dataset.
            transform_num_cpus: CPUs of each task. Default 1.
            transform_memory: Bytes of heap of each task, for scheduling. Default 0.
            transform_batch_size: Rows of a batch. Default: a block.
            transform_concurrency: Tasks at a time. Default: as many as there is room for.

        Returns:
            The dataset changed; it is executed when it is needed.
        """
        return self.fit(ds).transform(
            ds,
            batch_size=transform_batch_size,
            num_cpus=transform_num_cpus,
            memory=transform_memory,
            concurrency=transform_concurrency,
        )

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """Return the dataset changed; it is executed when it is needed.

        Args:
            ds: The dataset.
            batch_size: Rows of a batch. Default: a block.
            num_cpus: CPUs of each task. Default 1.
            memory: Bytes of heap of each task, for scheduling. Default 0.
            concurrency: Tasks at a time. Default: as many as there is room for.

        Raises:
            PreprocessorNotFittedException: ``fit`` has not been called.
        """
        self._check("transform")
        return ds.map_batches(
            self._transform_pandas,
            batch_format="pandas",
            zero_copy_batch=False,
            batch_size=batch_size,
            num_cpus=num_cpus,
            memory=memory,
            concurrency=concurrency,
            udf_modifying_row_count=False,
        )

    def transform_batch(self, data: Batch) -> Batch:
        """Return a batch changed: a DataFrame, a table, or a dict of arrays.

        Args:
            data: The batch.

        Raises:
            PreprocessorNotFittedException: ``fit`` has not been called.
        """
        self._check("transform_batch")
        if hasattr(data, "iloc"):
            return self._transform_pandas(data.copy())
        table = block.from_batch(data, "transform_batch's caller")
        made = frames.from_pandas(self._transform_pandas(frames.to_pandas(table)))
        return block.to_numpy(made) if isinstance(data, Mapping) else made

    def fit_status(self) -> Preprocessor.FitStatus:
        """Return whether it is fitted, or need not be."""
        if not self._is_fittable:
            return self.FitStatus.NOT_FITTABLE
        return self.FitStatus.FITTED if self._fitted else self.FitStatus.NOT_FITTED

    def has_stats(self) -> bool:
        """Return whether it has learnt something."""
        return bool(self.stats_)

    def get_input_columns(self) -> list[str]:
        """Return the columns that it reads."""
        return self._names("columns", "label_column")

    def get_output_columns(self) -> list[str]:
        """Return the columns that it writes."""
        return self._names("output_columns", "output_column", "output_column_name")

    def _names(self, *attributes: str) -> list[str]:
        """The columns that the first attribute that there is names, one or several."""
        for attribute in attributes:
            named = getattr(self, attribute, None)
            if named:
                return [named] if isinstance(named, str) else list(named)
        return []

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """Return the format of the batches that it changes."""
        return BatchFormat.PANDAS

    @classmethod
    def get_version(cls) -> int:
        """Return the version of the class, by which what its bytes hold can be told apart. Default 1."""
        return cls._version

    @classmethod
    def set_version(cls, version: int) -> None:
        """Set the version of the class.

        Args:
            version: The version.
        """
        cls._version = version

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        """Return the id of the class: its own, or that of :meth:`set_preprocessor_class_id`."""
        given = cls.__dict__.get("_class_id")
        if given is not None:
            return str(given)
        if cls.__module__.startswith(__package__):
            snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
            return f"io.ray.preprocessors.{snake}"
        return f"{cls.__module__}.{cls.__qualname__}"

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        """Set the id of the class.

        Args:
            identifier: The id.
        """
        cls._class_id = identifier

    def serialize(self) -> bytes:
        """Return it with what it has learnt as bytes, for :meth:`deserialize`."""
        data: bytes = ray.cloudpickle.dumps(self)
        return data

    @staticmethod
    def deserialize(serialized: bytes) -> Preprocessor:
        """Return the preprocessor of :meth:`serialize`. Only for bytes that you trust: it is a pickle.

        Args:
            serialized: The bytes.

        Raises:
            ValueError: The bytes are of something else.
        """
        made = pickle.loads(serialized)
        if isinstance(made, dict) and made.keys() == {"type", "version", "fields", "stats"}:
            from heliostat.data.preprocessors.version_support import restored

            return restored(made)
        if not isinstance(made, Preprocessor):
            raise ValueError(
                f"the bytes are of {type(made).__name__}, which is not a preprocessor."
            )
        return made

    def _check(self, method: str) -> None:
        if self._is_fittable and not self._fitted:
            raise PreprocessorNotFittedException(
                f"`fit` must be called before `{method}`, or simply use fit_transform() to run both "
                "steps"
            )

    def _fit(self, ds: Dataset) -> None:
        raise NotImplementedError

    @abc.abstractmethod
    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        """The DataFrame changed, in place or anew."""

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_") and k != "stats_"}
        if "output_columns" in shown:
            shown["output_columns"] = shown.pop("output_columns")  # the last one
        texts = (f"{k}={getattr(v, '__name__', None) or repr(v)}" for k, v in shown.items())
        return f"{type(self).__name__}({', '.join(texts)})"


class OfColumns(Preprocessor):
    """A preprocessor of some columns, whose results replace them or are columns of their own.

    Args:
        columns: The columns.
        output_columns: Where the results go, as many names. Default: in place of the columns.

    Raises:
        ValueError: There are not as many ``output_columns`` as columns.
    """

    def __init__(self, columns: list[str], output_columns: list[str] | None = None) -> None:
        super().__init__()
        if output_columns is not None and len(output_columns) != len(columns):
            raise ValueError(
                f"output_columns has {len(output_columns)} names for {len(columns)} columns."
            )
        self.columns = list(columns)
        self.output_columns = list(output_columns or columns)

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        missing = [c for c in self.columns if c not in df.columns]
        if missing:
            raise KeyError(
                f"{type(self).__name__}: there is no column {missing} in {list(df.columns)}"
            )
        made = {o: self._column(c, df[c]) for c, o in self._pairs()}
        for name, values in made.items():
            df[name] = values
        return df

    def _pairs(self) -> list[tuple[str, str]]:
        return list(zip(self.columns, self.output_columns, strict=True))

    def _column(self, name: str, values: pd.Series) -> pd.Series:
        """The new values of a column, a series."""
        raise NotImplementedError


class Chain(Preprocessor):
    """Several preprocessors, one after the other; each is fitted on what those before it make.

    Args:
        *preprocessors: The preprocessors, in order.

    Examples:
        >>> import ray
        >>> from ray.data.preprocessors import Chain, MinMaxScaler, SimpleImputer
        >>> ds = ray.data.from_items([{"x": 0.0}, {"x": None}, {"x": 4.0}])
        >>> Chain(SimpleImputer(["x"]), MinMaxScaler(["x"])).fit_transform(ds).take_all()
        [{'x': 0.0}, {'x': 0.5}, {'x': 1.0}]
    """

    def __init__(self, *preprocessors: Preprocessor) -> None:
        super().__init__()
        self.preprocessors = preprocessors
        self._is_fittable = any(p._is_fittable for p in preprocessors)

    def fit(self, ds: Dataset) -> Preprocessor:
        """Fit all of them."""
        for preprocessor in self.preprocessors[:-1]:
            ds = preprocessor.fit_transform(ds)
        if self.preprocessors:
            self.preprocessors[-1].fit(ds)
        self._fitted = True
        return self

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        for preprocessor in self.preprocessors:
            df = preprocessor._transform_pandas(df)
        return df

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.preprocessors))})"
