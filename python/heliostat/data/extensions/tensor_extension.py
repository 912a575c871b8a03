"""``TensorArray``: a pandas column of arrays of one shape, which keeps them in one numpy array."""

from __future__ import annotations

import builtins
import enum
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype, take

from heliostat.data import tensors
from heliostat.data.tensors import PythonObjectType as ArrowPythonObjectType
from heliostat.data.tensors import VariableShapedTensorType as ArrowVariableShapedTensorType

if TYPE_CHECKING:
    from heliostat.data.aliases import Value

__all__ = [
    "ArrowConversionError",
    "ArrowPythonObjectType",
    "ArrowTensorArray",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorFormat",
    "FixedShapeTensorType",
    "TensorArray",
    "TensorArrayElement",
    "TensorDtype",
    "column_needs_tensor_extension",
    "create_arrow_fixed_shape_tensor_type",
    "get_arrow_extension_tensor_types",
]

FixedShapeTensorType = pa.FixedShapeTensorType
_NAME = re.compile(r"numpy\.ndarray\(shape=\(([0-9, ]*)\), dtype=(\w+)\)")


class FixedShapeTensorFormat(str, enum.Enum):
    """Ray's Arrow types of arrays of one shape. Here there is one, Arrow's own, whichever is chosen.

    Examples:
        >>> from ray.data.extensions import FixedShapeTensorFormat
        >>> [format_.value for format_ in FixedShapeTensorFormat]
        ['v1', 'v2', 'native']
    """

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "native"


class ArrowConversionError(ValueError):
    """A value that no Arrow column can hold.

    Examples:
        >>> from ray.data.extensions import ArrowConversionError
        >>> issubclass(ArrowConversionError, ValueError)  # which catches it
        True
    """


def create_arrow_fixed_shape_tensor_type(
    shape: tuple[int, ...], dtype: np.dtype | pa.DataType | type, **_: object
) -> pa.FixedShapeTensorType:
    """Return the Arrow type of arrays of one shape.

    Args:
        shape: The shape.
        dtype: The type of the entries: Arrow's or numpy's.

    Examples:
        >>> import numpy as np
        >>> from ray.data.extensions import create_arrow_fixed_shape_tensor_type
        >>> type_ = create_arrow_fixed_shape_tensor_type((2, 3), np.dtype("float32"))
        >>> list(type_.shape), str(type_.value_type)
        ([2, 3], 'float')
    """
    inner = dtype if isinstance(dtype, pa.DataType) else pa.from_numpy_dtype(np.dtype(dtype))
    return pa.fixed_shape_tensor(inner, list(shape))


# Arrays of one shape have Arrow's own type here, whatever the name.
ArrowTensorType = ArrowTensorTypeV2 = create_arrow_fixed_shape_tensor_type
"""Other names of ``create_arrow_fixed_shape_tensor_type``."""


def get_arrow_extension_tensor_types() -> tuple[type, ...]:
    """Return the classes of Arrow types whose values are arrays.

    Returns:
        The classes, for ``isinstance``.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.data.extensions import get_arrow_extension_tensor_types
        >>> schema = ray.data.from_numpy(np.zeros((4, 2, 2))).schema().base_schema
        >>> isinstance(schema.field("data").type, get_arrow_extension_tensor_types())
        True
    """
    return (pa.FixedShapeTensorType, ArrowVariableShapedTensorType)


def column_needs_tensor_extension(s: pd.Series) -> bool:
    """Return whether a pandas column has arrays as its values and is not of a ``TensorArray``.

    Args:
        s: The column.

    Examples:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from ray.data.extensions import column_needs_tensor_extension
        >>> column_needs_tensor_extension(pd.Series([np.zeros(2), np.ones(2)]))
        True
        >>> column_needs_tensor_extension(pd.Series([1, 2]))
        False
    """
    return s.dtype.kind == "O" and len(s) > 0 and isinstance(s.iloc[0], np.ndarray)


class ArrowTensorArray:
    """Makes Arrow columns of arrays.

    Examples:
        >>> import numpy as np
        >>> from ray.data.extensions import ArrowTensorArray
        >>> len(ArrowTensorArray.from_numpy(np.zeros((3, 2, 2))))
        3
    """

    @staticmethod
    def from_numpy(arr: np.ndarray | Sequence[object], column_name: str | None = None) -> pa.Array:
        """Return a column with a row for each entry of the first axis, or of a list of arrays.

        Args:
            arr: The array, or the list of arrays.
            column_name: Has no effect.
        """
        if isinstance(arr, list | tuple):
            return tensors.from_list([np.asarray(one) for one in arr])
        return tensors.from_numpy(np.asarray(arr))


class ArrowVariableShapedTensorArray:
    """Makes Arrow columns of arrays whose shapes may differ.

    Examples:
        >>> import numpy as np
        >>> from ray.data.extensions import ArrowVariableShapedTensorArray
        >>> column = ArrowVariableShapedTensorArray.from_numpy([np.zeros((2, 3)), np.zeros((4, 1))])
        >>> column.type.ndim
        2
    """

    @staticmethod
    def from_numpy(arr: np.ndarray | Sequence[object], column_name: str | None = None) -> pa.Array:
        """Return a column with a row for each of some arrays.

        Args:
            arr: The arrays, with as many dimensions each, in a list or an array of objects.
            column_name: Has no effect.
        """
        return tensors.as_variable(tensors.from_list([np.asarray(one) for one in arr]))


class TensorArrayElement:
    """An array that is marked as a value of a column. A row of a ``TensorArray`` is the array itself here.

    Args:
        values: The array.

    Examples:
        >>> import numpy as np
        >>> from ray.data.extensions import TensorArray, TensorArrayElement
        >>> TensorArray([TensorArrayElement(np.zeros(2)), TensorArrayElement(np.ones(2))]).numpy_shape
        (2, 2)
    """

    def __init__(self, values: np.ndarray) -> None:
        self._values = np.asarray(values)

    def to_numpy(self) -> np.ndarray:
        """Return the array."""
        return self._values

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values, dtype=dtype) if copy else np.asarray(self._values, dtype)

    def __repr__(self) -> str:
        return repr(self._values)


@register_extension_dtype
class TensorDtype(ExtensionDtype):  # type: ignore[misc] # pandas has no types
    """The type of a pandas column of arrays of one shape.

    Args:
        shape: The shape.
        dtype: The type of the entries, numpy's.

    Examples:
        >>> from ray.data.extensions import TensorDtype
        >>> TensorDtype((2, 3), "float32").name
        'numpy.ndarray(shape=(2, 3), dtype=float32)'
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype | str) -> None:
        self._shape, self._dtype = tuple(shape), np.dtype(dtype)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of each row's array."""
        return self._shape

    @property
    def element_dtype(self) -> np.dtype:
        """The numpy type of the elements."""
        return self._dtype

    @property
    def is_variable_shaped(self) -> bool:
        """Never: arrays of several shapes are no ``TensorArray``."""
        return False

    @property
    def type(self) -> np.ndarray:
        """The type of a row."""
        return np.ndarray

    @property
    def name(self) -> str:
        """The type's text, by which pandas finds it."""
        return f"numpy.ndarray(shape={self._shape}, dtype={self._dtype})"

    @classmethod
    def construct_from_string(cls, string: object) -> TensorDtype:
        """Return the type of a text as ``name`` gives it.

        Args:
            string: The text.

        Raises:
            TypeError: The text is not one of these.
        """
        found = _NAME.fullmatch(string) if isinstance(string, str) else None
        if found is None:
            raise TypeError(f"Cannot construct a 'TensorDtype' from {string!r}")
        return cls([int(n) for n in found[1].split(",") if n.strip()], found[2])

    @classmethod
    def construct_array_type(cls) -> builtins.type[TensorArray]:
        """Return the class of columns."""
        return TensorArray


class TensorArray(ExtensionArray):  # type: ignore[misc] # pandas has no types
    """A pandas column of arrays of one shape: ``pd.DataFrame({"x": TensorArray(array)})``.

    Args:
        values: An array with a row for each entry of its first axis, or arrays of one shape.

    Raises:
        TypeError: They are not of numbers, or not of one shape.

    Examples:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from ray.data.extensions import TensorArray
        >>> frame = pd.DataFrame({"x": TensorArray(np.zeros((3, 2, 2)))})
        >>> frame["x"].dtype.element_shape
        (2, 2)
    """

    _values: np.ndarray  # the rows

    def __init__(self, values: np.ndarray | TensorArray | Sequence[object]) -> None:
        found = values._values if isinstance(values, TensorArray) else values
        if not isinstance(found, np.ndarray):
            rows = [np.asarray(one) for one in found]
            if len({row.shape for row in rows}) > 1:
                raise TypeError("the arrays of a TensorArray must be of one shape.")
            found = np.stack(rows) if rows else np.empty((0, 0))
        if found.dtype.kind not in "biuf" or found.ndim == 0:
            raise TypeError(f"a TensorArray is of numbers, with a row for each; got {found.dtype}.")
        self._values = found

    @classmethod
    def _from_sequence(
        cls, scalars: Iterable[object], *, dtype: object = None, copy: bool = False
    ) -> TensorArray:
        made = cls(scalars if isinstance(scalars, np.ndarray | TensorArray) else list(scalars))
        return made.copy() if copy else made

    @classmethod
    def _from_factorized(cls, values: object, original: object) -> NoReturn:
        raise NotImplementedError("arrays have no order, so a column of them has no categories.")

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TensorArray]) -> TensorArray:
        return cls(np.concatenate([part._values for part in to_concat]))

    @property
    def dtype(self) -> TensorDtype:
        """Shape and type of the rows."""
        return TensorDtype(self._values.shape[1:], self._values.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self._values.nbytes)

    @property
    def numpy_shape(self) -> tuple[int, ...]:
        """The shape of all rows together."""
        return tuple(self._values.shape)

    @property
    def numpy_ndim(self) -> int:
        """Dimensions of all rows together."""
        return int(self._values.ndim)

    @property
    def numpy_dtype(self) -> np.dtype:
        """The numpy type of the elements."""
        return self._values.dtype

    @property
    def numpy_size(self) -> int:
        """Elements of all rows together."""
        return int(self._values.size)

    @property
    def is_variable_shaped(self) -> bool:
        """Never: arrays of several shapes are no ``TensorArray``."""
        return False

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, item: object) -> np.ndarray | TensorArray:
        if isinstance(item, int | np.integer):
            return self._values[item]
        return TensorArray(self._values[pd.api.indexers.check_array_indexer(self, item)])

    def __setitem__(self, key: object, value: object) -> None:
        self._values[key] = value._values if isinstance(value, TensorArray) else value

    def __eq__(self, other: object) -> np.ndarray:
        given = other._values if isinstance(other, TensorArray) else other
        same = self._values == given
        return same.reshape(len(self), -1).all(axis=1)

    __hash__ = None  # type: ignore[assignment] # as other arrays, it has none

    def isna(self) -> np.ndarray:
        """Return whether each row is all NaN."""
        flat = self._values.reshape(len(self), -1)
        if flat.dtype.kind != "f" or not flat.shape[1]:
            return np.zeros(len(self), dtype=bool)
        return np.isnan(flat).all(axis=1)

    def take(
        self, indices: np.ndarray, *, allow_fill: bool = False, fill_value: object = None
    ) -> TensorArray:
        """Return the rows at these places.

        Args:
            indices: The places.
            allow_fill: -1 gives ``fill_value``. Default False.
            fill_value: Default: NaN.
        """
        if not allow_fill:
            return TensorArray(self._values.take(indices, axis=0))
        missing = np.nan if fill_value is None else fill_value
        values = self._values
        if (np.asarray(indices) < 0).any() and values.dtype.kind != "f":
            values = values.astype(np.float64)
        return TensorArray(take(values, indices, allow_fill=True, fill_value=missing))

    def any(
        self, axis: int | None = None, out: np.ndarray | None = None, keepdims: bool = False
    ) -> Value:
        """Return whether some element is true, as numpy's function.

        Args:
            axis: The axis that goes; 0: the rows. Default: all of them.
            out: The array that the result is written to. Default: a new one.
            keepdims: Keep the axis, with one element. Default False.
        """
        return self._values.any(axis=axis, out=out, keepdims=keepdims)

    def all(
        self, axis: int | None = None, out: np.ndarray | None = None, keepdims: bool = False
    ) -> Value:
        """Return whether all elements are true, as numpy's function.

        Args:
            axis: The axis that goes; 0: the rows. Default: all of them.
            out: The array that the result is written to. Default: a new one.
            keepdims: Keep the axis, with one element. Default False.
        """
        return self._values.all(axis=axis, out=out, keepdims=keepdims)

    def copy(self) -> TensorArray:
        """Return an independent copy."""
        return TensorArray(self._values.copy())

    def to_numpy(
        self, dtype: np.dtype | None = None, copy: bool = False, na_value: object = None
    ) -> np.ndarray:
        """Return the array of all rows.

        Args:
            dtype: The type of the entries. Default: as they are.
            copy: Return a copy. Default False.
            na_value: Has no effect.
        """
        made = self._values if dtype is None else self._values.astype(dtype)
        return made.copy() if copy else made

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._values, dtype=dtype) if copy else np.asarray(self._values, dtype)

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        return tensors.from_numpy(self._values)
