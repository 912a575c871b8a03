"""``DataType``: the type of a column as Arrow, numpy or Python has it."""

from __future__ import annotations

import builtins
import dataclasses
import datetime
import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from heliostat.data import tensors

if TYPE_CHECKING:
    from heliostat.data.aliases import Value


__all__ = ["DataType", "TypeCategory"]


class TypeCategory(str, enum.Enum):
    """Kinds of types, whatever they are made of: for :meth:`DataType.is_of`.

    Examples:
        >>> from ray.data.datatype import DataType, TypeCategory
        >>> DataType.list(DataType.int64()).is_of(TypeCategory.LIST)
        True
    """

    LIST = "list"
    LARGE_LIST = "large_list"
    STRUCT = "struct"
    MAP = "map"
    TENSOR = "tensor"
    TEMPORAL = "temporal"


def _made(factory: Callable[[], pa.DataType]) -> classmethod[DataType, [], DataType]:
    """A class method that makes the ``DataType`` of an Arrow type without parameters."""

    def make(cls: type[DataType]) -> DataType:
        return cls(factory())

    make.__doc__ = f"Return the type of Arrow's ``{factory()}``."
    return classmethod(make)


@dataclasses.dataclass(frozen=True, repr=False)
class DataType:
    """A type of Arrow, numpy or Python: for casts, functions of expressions and summaries.

    ``DataType.int64()`` and the like are Arrow's; ``DataType.from_numpy("int16")`` and
    ``DataType(int)`` are numpy's and Python's. Two are equal when they wrap equal types: Arrow's
    int32 and numpy's int32 are not.

    Raises:
        TypeError: It is made of something that is not a type.

    Examples:
        >>> from ray.data.datatype import DataType
        >>> DataType.int64().is_numerical_type()
        True
        >>> DataType.list(DataType.string()).to_arrow_dtype()
        ListType(list<item: string>)
    """

    _physical_dtype: Any  # of Arrow, numpy or Python

    def __post_init__(self) -> None:
        if not isinstance(self._physical_dtype, pa.DataType | np.dtype | type):
            raise TypeError(
                "DataType takes a pyarrow type, a numpy dtype or a Python class, not "
                f"{self._physical_dtype!r}."
            )

    # --- making one ---

    int8, int16, int32, int64 = _made(pa.int8), _made(pa.int16), _made(pa.int32), _made(pa.int64)
    uint8, uint16, uint32 = _made(pa.uint8), _made(pa.uint16), _made(pa.uint32)
    uint64, float16 = _made(pa.uint64), _made(pa.float16)
    float32, float64 = _made(pa.float32), _made(pa.float64)
    string, binary, bool = _made(pa.string), _made(pa.binary), _made(pa.bool_)

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        """Return the type that wraps one of Arrow's.

        Args:
            arrow_type: The type.
        """
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: np.dtype | str) -> DataType:
        """Return the type that wraps one of numpy's, which may be given by name.

        Args:
            numpy_dtype: The type, or its name.
        """
        return cls(np.dtype(numpy_dtype) if isinstance(numpy_dtype, str) else numpy_dtype)

    @classmethod
    def from_dtype(cls, dtype: object) -> DataType | None:
        """Return the type for a type of Arrow, numpy or Python, or a name of numpy's; else None.

        Args:
            dtype: The type.
        """
        if isinstance(dtype, DataType):
            return dtype
        if isinstance(dtype, str):
            try:
                return cls(np.dtype(dtype))
            except TypeError:
                return None
        return cls(dtype) if isinstance(dtype, pa.DataType | np.dtype | type) else None

    @classmethod
    def infer_dtype(cls, value: Value) -> DataType:
        """Return the type of a value: numpy's of its values, else Arrow's, else its class.

        Args:
            value: The value.
        """
        if isinstance(value, np.ndarray | np.generic):
            return cls(value.dtype)
        if isinstance(value, pa.Scalar | pa.Array | pa.ChunkedArray):
            return cls(value.type)
        try:
            return cls(pa.infer_type([value]))
        except pa.ArrowInvalid:
            return cls(type(value))

    @classmethod
    def list(cls, value_type: DataType) -> DataType:
        """Return the type of lists of values of one type.

        Args:
            value_type: The values' type.
        """
        return cls(pa.list_(as_arrow(value_type)))

    @classmethod
    def large_list(cls, value_type: DataType) -> DataType:
        """Return the type of lists whose offsets have 64 bits.

        Args:
            value_type: The values' type.
        """
        return cls(pa.large_list(as_arrow(value_type)))

    @classmethod
    def fixed_size_list(cls, value_type: DataType, list_size: int) -> DataType:
        """Return the type of lists that all have the same number of values.

        Args:
            value_type: The values' type.
            list_size: How many values.
        """
        return cls(pa.list_(as_arrow(value_type), list_size))

    @classmethod
    def struct(cls, fields: Sequence[tuple[str, DataType]]) -> DataType:
        """Return the type of values with named fields: ``[("x", DataType.int64())]``.

        Args:
            fields: Name and type of each field.
        """
        return cls(pa.struct([(name, as_arrow(of)) for name, of in fields]))

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        """Return the type of dictionaries with keys of one type and values of one type.

        Args:
            key_type: The keys' type.
            value_type: The values' type.
        """
        return cls(pa.map_(as_arrow(key_type), as_arrow(value_type)))

    @classmethod
    def tensor(cls, shape: tuple[int, ...], dtype: DataType) -> DataType:
        """Return the type of arrays of one shape.

        Args:
            shape: The shape.
            dtype: The type of the entries.
        """
        return cls(pa.fixed_shape_tensor(as_arrow(dtype), builtins.list(shape)))

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        """Return the type of arrays whose shapes differ.

        Args:
            dtype: The type of the entries.
            ndim: How many dimensions. Default 2.
        """
        return cls(tensors.VariableShapedTensorType(as_arrow(dtype), ndim))

    @classmethod
    def temporal(
        cls, temporal_type: str, unit: str | None = None, tz: str | None = None
    ) -> DataType:
        """Return a type of times.

        Args:
            temporal_type: ``"timestamp"``, ``"date32"``, ``"date64"``, ``"time32"``, ``"time64"``
                or ``"duration"``.
            unit: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"``; default: ``"us"``, and ``"s"`` of a
                time32. Dates have none.
            tz: The time zone of a timestamp.

        Raises:
            ValueError: There is no such type, or it has no such unit.
        """
        allowed = {"time32": ("s", "ms"), "time64": ("us", "ns")}.get(temporal_type)
        if allowed and unit is not None and unit not in allowed:
            raise ValueError(
                f"The unit of a {temporal_type} is {allowed[0]!r} or {allowed[1]!r}, not {unit!r}."
            )
        made = {
            "timestamp": lambda: pa.timestamp(unit or "us", tz),
            "date32": pa.date32,
            "date64": pa.date64,
            "time32": lambda: pa.time32(unit or "s"),
            "time64": lambda: pa.time64(unit or "us"),
            "duration": lambda: pa.duration(unit or "us"),
        }
        if temporal_type not in made:
            raise ValueError(
                f"There is no temporal type {temporal_type!r}: use one of {', '.join(made)}."
            )
        return cls(made[temporal_type]())

    # --- what it wraps ---

    def is_arrow_type(self) -> builtins.bool:
        """Return whether it wraps a type of Arrow."""
        return isinstance(self._physical_dtype, pa.DataType)

    def is_numpy_type(self) -> builtins.bool:
        """Return whether it wraps a type of numpy."""
        return isinstance(self._physical_dtype, np.dtype)

    def is_python_type(self) -> builtins.bool:
        """Return whether it wraps a class of Python."""
        return isinstance(self._physical_dtype, type)

    def to_arrow_dtype(self, values: Sequence[Value] | None = None) -> pa.DataType:
        """Return Arrow's type.

        Args:
            values: Values of the column, of which the type is taken where this is a Python class.

        Raises:
            ValueError: It is a Python class, and there are no values.
        """
        if self.is_arrow_type():
            return self._physical_dtype
        if self.is_numpy_type():
            return pa.from_numpy_dtype(self._physical_dtype)
        if values is None or len(values) == 0:
            raise ValueError(
                f"{self!r} may be several types of Arrow: give values, or take one such as "
                "DataType.int64()."
            )
        return pa.infer_type(values)

    def to_numpy_dtype(self) -> np.dtype:
        """Return numpy's type; ``object`` where numpy has none."""
        if self.is_numpy_type():
            return self._physical_dtype
        try:
            return np.dtype(self._physical_dtype.to_pandas_dtype())
        except (AttributeError, NotImplementedError, TypeError):
            return np.dtype(object)

    def to_python_type(self) -> type:
        """Return the Python class that it wraps.

        Raises:
            ValueError: It wraps a type of Arrow or numpy.
        """
        if not self.is_python_type():
            raise ValueError(
                f"{self!r} is not a Python class: use to_arrow_dtype() or to_numpy_dtype()."
            )
        found: type = self._physical_dtype
        return found

    # --- what it is ---

    def is_of(self, category: TypeCategory | str) -> builtins.bool:
        """Return whether the type is of a kind, such as ``"list"`` or ``TypeCategory.STRUCT``.

        Args:
            category: The kind.
        """
        try:
            wanted = TypeCategory(category)
        except ValueError:
            return False
        return {
            TypeCategory.LIST: self.is_list_type,
            TypeCategory.LARGE_LIST: lambda: self._is_arrow(kinds.is_large_list),
            TypeCategory.STRUCT: self.is_struct_type,
            TypeCategory.MAP: self.is_map_type,
            TypeCategory.TENSOR: self.is_tensor_type,
            TypeCategory.TEMPORAL: self.is_temporal_type,
        }[wanted]()

    def _is_arrow(self, *asked: Callable[[pa.DataType], builtins.bool]) -> builtins.bool:
        return self.is_arrow_type() and any(ask(self._physical_dtype) for ask in asked)

    def _is_numpy(self, letters: str) -> builtins.bool:
        return self.is_numpy_type() and self._physical_dtype.kind in letters

    def _is_python(self, *classes: type) -> builtins.bool:
        return self.is_python_type() and self._physical_dtype in classes

    def is_list_type(self) -> builtins.bool:
        """Return whether a value is a list of values, of any length or of one."""
        lists = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
        return self._is_arrow(*lists)

    def is_tensor_type(self) -> builtins.bool:
        """Return whether a value is an array."""
        return isinstance(
            self._physical_dtype, pa.FixedShapeTensorType | tensors.VariableShapedTensorType
        )

    def is_struct_type(self) -> builtins.bool:
        """Return whether a value has named fields."""
        return self._is_arrow(kinds.is_struct)

    def is_map_type(self) -> builtins.bool:
        """Return whether a value is a dictionary."""
        return self._is_arrow(kinds.is_map)

    def is_nested_type(self) -> builtins.bool:
        """Return whether a value is made of others: a list, named fields, a dictionary."""
        return self.is_list_type() or self._is_arrow(kinds.is_struct, kinds.is_map, kinds.is_union)

    def is_null_type(self) -> builtins.bool:
        """Return whether there are no values but nulls."""
        return self._is_arrow(kinds.is_null) or self._is_python(type(None))

    def is_boolean_type(self) -> builtins.bool:
        """Return whether a value is true or false."""
        return self._is_arrow(kinds.is_boolean) or self._is_numpy("b") or self._is_python(bool)

    def is_integer_type(self) -> builtins.bool:
        """Return whether a value is an integer."""
        return self._is_arrow(kinds.is_integer) or self._is_numpy("iu") or self._is_python(int)

    def is_floating_type(self) -> builtins.bool:
        """Return whether a value is a floating-point number."""
        return self._is_arrow(kinds.is_floating) or self._is_numpy("f") or self._is_python(float)

    def is_uint64_type(self) -> builtins.bool:
        """Return whether a value is an unsigned integer of 64 bits."""
        return self._physical_dtype in (pa.uint64(), np.dtype(np.uint64))

    def is_numerical_type(self) -> builtins.bool:
        """Return whether a value is a number: an integer, a floating-point or a decimal one."""
        return (
            self.is_integer_type()
            or self.is_floating_type()
            or self._is_arrow(kinds.is_decimal)
            or self._is_numpy("c")
            or self._is_python(complex)
        )

    def is_string_type(self) -> builtins.bool:
        """Return whether a value is a text."""
        texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
        return self._is_arrow(*texts) or self._is_numpy("U") or self._is_python(str)

    def is_binary_type(self) -> builtins.bool:
        """Return whether a value is bytes."""
        bytes_of = (
            kinds.is_binary,
            kinds.is_large_binary,
            kinds.is_binary_view,
            kinds.is_fixed_size_binary,
        )
        return self._is_arrow(*bytes_of) or self._is_numpy("S") or self._is_python(bytes, bytearray)

    def is_temporal_type(self) -> builtins.bool:
        """Return whether a value is a time, a date or a duration."""
        times = (datetime.datetime, datetime.date, datetime.time, datetime.timedelta)
        return (
            self._is_arrow(kinds.is_temporal, kinds.is_duration)
            or self._is_numpy("mM")
            or self._is_python(*times)
        )

    def __repr__(self) -> str:
        if self.is_arrow_type():
            return f"DataType(arrow:{self._physical_dtype})"
        if self.is_numpy_type():
            return f"DataType(numpy:{self._physical_dtype})"
        return f"DataType(python:{self._physical_dtype.__name__})"

    def __eq__(self, other: object) -> builtins.bool:
        if not isinstance(other, DataType):
            return NotImplemented
        mine, others = self._physical_dtype, other._physical_dtype
        return any(
            isinstance(mine, of) and isinstance(others, of) for of in (pa.DataType, np.dtype, type)
        ) and builtins.bool(mine == others)

    def __hash__(self) -> int:
        return hash(self._physical_dtype)


def as_arrow(dtype: DataType | pa.DataType) -> pa.DataType:
    """Return Arrow's type of a ``DataType``; what is not one is given back.

    Raises:
        TypeError: It is a Python class, which may be several types of Arrow.
    """
    if not isinstance(dtype, DataType):
        return dtype
    if dtype.is_python_type():
        raise TypeError(
            f"{dtype!r} may be several types of Arrow: take one of them, such as DataType.int64() "
            "or DataType.string()."
        )
    return dtype.to_arrow_dtype()
