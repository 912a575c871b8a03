"""Columns of Python objects: of Arrow, where each value is a pickle, and of pandas."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take

from heliostat.data.tensors import PythonObjectArray as ArrowPythonObjectArray
from heliostat.data.tensors import PythonObjectScalar as ArrowPythonObjectScalar
from heliostat.data.tensors import PythonObjectType as ArrowPythonObjectType

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Value

__all__ = [
    "ArrowPythonObjectArray",
    "ArrowPythonObjectScalar",
    "ArrowPythonObjectType",
    "PythonObjectArray",
    "PythonObjectDtype",
]


@register_extension_dtype
class PythonObjectDtype(ExtensionDtype):  # type: ignore[misc] # pandas has no types
    """The type of a pandas column of a :class:`PythonObjectArray`.

    Examples:
        >>> import pandas as pd
        >>> from ray.data.extensions import PythonObjectDtype
        >>> pd.Series([{1, 2}, None], dtype="python_object()").dtype == PythonObjectDtype()
        True
    """

    name = "python_object()"
    type = object
    na_value = None

    @classmethod
    def construct_from_string(cls, string: object) -> PythonObjectDtype:
        """Return the type of the text ``python_object()``.

        Args:
            string: The text.

        Raises:
            TypeError: It is another text.
        """
        if string != cls.name:
            raise TypeError(f"Cannot construct a 'PythonObjectDtype' from {string!r}")
        return cls()

    @classmethod
    def construct_array_type(cls) -> builtins.type[PythonObjectArray]:
        """Return the class of columns."""
        return PythonObjectArray

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PythonObjectArray:
        return PythonObjectArray(array.to_pylist())


class PythonObjectArray(ExtensionArray):  # type: ignore[misc] # pandas has no types
    """A pandas column of Python objects of any kind, which becomes a column of pickles in Arrow.

    Args:
        values: The objects; ``None`` is a missing one.

    Examples:
        >>> import pandas as pd
        >>> import ray
        >>> from ray.data.extensions import PythonObjectArray
        >>> frame = pd.DataFrame({"seen": PythonObjectArray([{1, 2}, {3}])})
        >>> ray.data.from_pandas(frame).take_all()
        [{'seen': {1, 2}}, {'seen': {3}}]
    """

    values: np.ndarray  # of objects

    def __init__(self, values: Iterable[object]) -> None:
        several = list(values)
        self.values = np.empty(len(several), dtype=object)
        for at, value in enumerate(several):  # a list among them would be taken for a row
            self.values[at] = value

    @classmethod
    def _from_sequence(
        cls, scalars: Iterable[object], *, dtype: object = None, copy: bool = False
    ) -> PythonObjectArray:
        return cls(scalars)

    @classmethod
    def _from_factorized(
        cls, values: Iterable[object], original: PythonObjectArray
    ) -> PythonObjectArray:
        return cls(values)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PythonObjectArray]) -> PythonObjectArray:
        return cls(value for part in to_concat for value in part.values)

    @property
    def dtype(self) -> PythonObjectDtype:
        """The type of the column."""
        return PythonObjectDtype()

    @property
    def nbytes(self) -> int:
        """Bytes of the references, without the objects."""
        return int(self.values.nbytes)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, item: object) -> Value:
        if isinstance(item, int | np.integer):
            return self.values[item]
        return PythonObjectArray(self.values[pd.api.indexers.check_array_indexer(self, item)])

    def __setitem__(self, key: object, value: object) -> None:
        self.values[key] = value.values if isinstance(value, PythonObjectArray) else value

    def __eq__(self, other: object) -> np.ndarray:
        given = other.values if isinstance(other, PythonObjectArray) else other
        return self.values == given

    __hash__ = None  # type: ignore[assignment] # as other arrays, it has none

    def isna(self) -> np.ndarray:
        """Return whether each object is missing."""
        return np.array([_is_missing(value) for value in self.values], dtype=bool)

    def take(
        self, indices: np.ndarray, *, allow_fill: bool = False, fill_value: object = None
    ) -> PythonObjectArray:
        """Return the objects at these places.

        Args:
            indices: The places.
            allow_fill: -1 gives ``fill_value``. Default False.
            fill_value: Default: ``None``.
        """
        taken = take(self.values, indices, allow_fill=allow_fill, fill_value=fill_value)
        if allow_fill and _is_missing(fill_value):  # pandas' is NaN
            taken[np.asarray(indices) == -1] = None
        return PythonObjectArray(taken)

    def copy(self) -> PythonObjectArray:
        """Return a column of its own of the same objects."""
        return PythonObjectArray(self.values)

    def to_numpy(
        self, dtype: np.dtype | None = None, copy: bool = False, na_value: object = None
    ) -> np.ndarray:
        """Return an array of the objects.

        Args:
            dtype: The type of the array. Default: ``object``.
            copy: Return a copy. Default False.
            na_value: The value of those that are missing. Default ``None``.
        """
        made = self.values.copy() if copy or na_value is not None else self.values
        if na_value is not None:
            made[self.isna()] = na_value
        return made if dtype is None else made.astype(dtype)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        return ArrowPythonObjectArray.from_objects(self.values)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
