"""Arrays of any shape as Arrow columns, and back without a copy where the layout allows it.

Rows of one shape are Arrow's own fixed-shape tensors, so that other programs read them from Parquet.
Rows whose shapes differ, and values that Arrow has no type for, have extension types defined here.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from heliostat.data.aliases import Value
    from heliostat.data.extensions.object_extension import PythonObjectDtype


class VariableShapedTensorType(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types
    """An array a row, all with the same number of dimensions; shapes may differ.

    Args:
        dtype: The Arrow type of the entries.
        ndim: How many dimensions.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.data.extensions import ArrowVariableShapedTensorType
        >>> rows = ray.data.from_items([{"x": np.zeros((2, 2))}, {"x": np.zeros((3, 2))}])
        >>> isinstance(rows.schema().base_schema.field("x").type, ArrowVariableShapedTensorType)
        True
        >>> [row["x"].shape for row in rows.take_all()]
        [(2, 2), (3, 2)]
    """

    def __init__(self, dtype: pa.DataType, ndim: int) -> None:
        self._ndim = ndim
        storage = pa.struct([("data", pa.large_list(dtype)), ("shape", pa.list_(pa.int64()))])
        super().__init__(storage, "heliostat.variable_shaped_tensor")

    @property
    def ndim(self) -> int:
        """Dimensions of each row's array."""
        return self._ndim

    @property
    def value_type(self) -> pa.DataType:
        """The Arrow type of the elements."""
        return self.storage_type.field("data").type.value_type

    def __hash__(self) -> int:
        return hash((self.extension_name, self.storage_type, self._ndim))

    def __arrow_ext_serialize__(self) -> bytes:
        return str(self._ndim).encode()

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> VariableShapedTensorType:
        return cls(storage_type.field("data").type.value_type, int(serialized))


class PythonObjectScalar(pa.ExtensionScalar):  # type: ignore[misc] # pyarrow has no types
    """A value of a :class:`PythonObjectArray`.

    Examples:
        >>> from ray.data.extensions import ArrowPythonObjectArray
        >>> ArrowPythonObjectArray.from_objects([{1}])[0].as_py()
        {1}
    """

    def as_py(self, **_: object) -> Value:
        """Return the Python object; ``None``: it is missing."""
        return None if self.value is None else pickle.loads(self.value.as_buffer())


class PythonObjectArray(pa.ExtensionArray):  # type: ignore[misc] # pyarrow has no types
    """An Arrow column of pickled Python objects.

    Examples:
        >>> from ray.data.extensions import ArrowPythonObjectArray
        >>> ArrowPythonObjectArray.from_objects([{1}, None]).to_pylist()
        [{1}, None]
    """

    @staticmethod
    def from_objects(objects: Iterable[object]) -> pa.Array:
        """Return a column of these objects.

        Args:
            objects: The objects; ``None`` is a missing one.
        """
        return from_objects(list(objects))

    def to_numpy(self, zero_copy_only: bool = False, writable: bool = False) -> np.ndarray:
        """Return an array of the objects.

        Args:
            zero_copy_only: Has no effect.
            writable: Has no effect: the array may be written to.
        """
        return _object_array(_objects(self))


class PythonObjectType(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types
    """Any Python value, pickled: what no Arrow type fits.

    Examples:
        >>> import ray
        >>> from ray.data.extensions import ArrowPythonObjectType
        >>> rows = ray.data.from_items([{"x": complex(0, 1)}, {"x": complex(2, 0)}])
        >>> isinstance(rows.schema().base_schema.field("x").type, ArrowPythonObjectType)
        True
        >>> rows.take_all()[1]["x"]  # Arrow itself has no such numbers
        (2+0j)
    """

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), "heliostat.python_object")

    def __arrow_ext_class__(self) -> type[PythonObjectArray]:
        return PythonObjectArray

    def __arrow_ext_scalar_class__(self) -> type[PythonObjectScalar]:
        return PythonObjectScalar

    def to_pandas_dtype(self) -> PythonObjectDtype:
        """Return the type of a column of pandas."""
        from heliostat.data.extensions.object_extension import PythonObjectDtype

        return PythonObjectDtype()

    def __hash__(self) -> int:
        return hash(self.extension_name)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> PythonObjectType:
        return cls()


@functools.cache
def _register() -> None:
    """Let Arrow make these types again when it reads files. Unpickling finds them by class."""
    for kind in (VariableShapedTensorType(pa.int64(), 1), PythonObjectType()):
        with contextlib.suppress(pa.ArrowKeyError):  # registered by a copy of this module
            pa.register_extension_type(kind)


_register()


def is_tensor(kind: pa.DataType) -> bool:
    """Whether rows of that Arrow type are arrays."""
    return isinstance(kind, pa.FixedShapeTensorType | VariableShapedTensorType)


def is_array(kind: pa.DataType) -> bool:
    """Whether a column of that type is laid out as a numpy array is."""
    if isinstance(kind, pa.FixedShapeTensorType):
        kind = kind.value_type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


# --- to Arrow --------------------------------------------------------------------------------------


def from_numpy(array: np.ndarray) -> pa.Array:
    """An Arrow column with one row for each entry of the first axis."""
    if array.ndim == 0:
        raise ValueError("a column needs one value per row; got a single value")
    if array.dtype == object:
        return from_list(list(array))
    if array.ndim == 1:
        return _from_vector(array)
    if array.dtype.kind not in "biuf":
        return from_list(array.tolist())
    shape = array.shape[1:]
    flat = np.ascontiguousarray(array).reshape(-1)
    return _fixed(_from_vector(flat), shape, len(array))


def _from_vector(array: np.ndarray) -> pa.Array:
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "M" and array.dtype.str[-3:] == "[D]":
        array = array.astype("datetime64[s]")  # Arrow's dates have no unit that numpy knows
    if array.dtype.kind in "US":
        return pa.array(array.tolist())
    return pa.array(np.ascontiguousarray(array))


def _fixed(values: pa.Array, shape: tuple[int, ...], rows: int) -> pa.Array:
    width = int(np.prod(shape))
    kind = pa.fixed_shape_tensor(values.type, list(shape))
    if width == 0 or rows == 0:
        storage = pa.array([[]] * rows, pa.list_(values.type, width))
    else:
        storage = pa.FixedSizeListArray.from_arrays(values, width)
    return pa.ExtensionArray.from_storage(kind, storage)


_PLAIN = frozenset((int, float, bool, str, bytes, type(None)))  # what Arrow takes as it is


def from_list(values: list[Value]) -> pa.Array:
    """An Arrow column of Python values: arrays become tensors, what Arrow cannot hold is pickled."""
    kinds = set(map(type, values))
    if _PLAIN.issuperset(kinds):
        try:
            if kinds == {int}:
                with contextlib.suppress(OverflowError):
                    return pa.array(np.fromiter(values, np.int64, len(values)))
            return pa.array(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return from_objects(values)
    first = next((v for v in values if v is not None), None)
    if hasattr(first, "detach") and hasattr(first, "numpy"):  # a torch tensor
        values = [v if v is None else np.asarray(v.detach().cpu()) for v in values]
        first = next(v for v in values if v is not None)
    if any(isinstance(v, np.ndarray) and v.ndim == 0 for v in values):
        values = [v[()] if isinstance(v, np.ndarray) and v.ndim == 0 else v for v in values]
    elif isinstance(first, np.ndarray):
        made = _from_arrays(values)
        if made is not None:
            return made
    if isinstance(first, set | frozenset):
        values = [sorted(v) if isinstance(v, set | frozenset) else v for v in values]
    if isinstance(first, np.datetime64) and all(_is_time(v) for v in values):
        return _from_vector(np.array(values, dtype="datetime64"))
    try:
        return _from_values(values, first)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return from_objects(values)


def _is_time(value: object) -> bool:
    return value is None or isinstance(value, np.datetime64)


def _from_values(values: list[object], first: object) -> pa.Array:
    """An Arrow array in which NaN stays NaN, and None, NaT and NA are null."""
    if isinstance(first, list | tuple | dict):
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError):
            return pa.array(values)
    made = pa.array(values, from_pandas=True)
    if made.null_count and any(isinstance(v, float | np.floating) and v != v for v in values):
        return pa.array(values)  # raises where NaN is beside values of another type
    return made


def _from_arrays(values: list[object]) -> pa.Array | None:
    """A tensor column, or None where the rows are too different for one."""
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    if len(arrays) != len(values):
        return None
    if len({(a.shape, a.dtype) for a in arrays}) == 1:
        stacked = np.stack(arrays)
        return from_numpy(stacked) if stacked.dtype.kind in "biuf" else None
    if len({a.ndim for a in arrays}) != 1:
        return None
    dtype = np.result_type(*arrays) if all(a.dtype.kind in "biuf" for a in arrays) else None
    if dtype is None or dtype.kind not in "biuf":
        return None
    flat = np.concatenate([a.reshape(-1).astype(dtype, copy=False) for a in arrays])
    return _variable(_from_vector(flat), [a.shape for a in arrays])


def _variable(
    values: pa.Array, shapes: list[tuple[int, ...]], nulls: list[bool] | None = None
) -> pa.Array:
    kind = VariableShapedTensorType(values.type, len(shapes[0]))
    sizes = np.array([int(np.prod(shape)) for shape in shapes], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    storage = pa.StructArray.from_arrays(
        [data, pa.array([list(s) for s in shapes], pa.list_(pa.int64()))],
        fields=list(kind.storage_type),
        mask=pa.array(nulls) if nulls and any(nulls) else None,
    )
    return pa.ExtensionArray.from_storage(kind, storage)


def from_objects(values: list[object]) -> pa.Array:
    """A column of pickled values."""
    from heliostat import cloudpickle

    data = [None if v is None else cloudpickle.dumps(v, protocol=5) for v in values]
    return pa.ExtensionArray.from_storage(PythonObjectType(), pa.array(data, pa.large_binary()))


def to_common(types: set[pa.DataType]) -> Callable[[pa.ChunkedArray], pa.ChunkedArray]:
    """Return the function that makes tensor columns of those types columns of one type."""
    if len(set(map(_dimensions, types))) > 1:
        return lambda column: from_objects(to_list(column))
    numbers = np.result_type(*(t.value_type.to_pandas_dtype() for t in types))
    return functools.partial(as_variable, value_type=pa.from_numpy_dtype(numbers))


def _dimensions(kind: pa.DataType) -> int:
    """Dimensions of each row's array of a tensor type."""
    return kind.ndim if isinstance(kind, VariableShapedTensorType) else len(kind.shape)


def as_variable(column: pa.ChunkedArray, value_type: pa.DataType | None = None) -> pa.Array:
    """A tensor column as one whose rows may have any shape, of numbers of that type."""
    value_type = value_type or column.type.value_type
    if column.type == VariableShapedTensorType(value_type, _dimensions(column.type)):
        return column
    rows = list(to_numpy(column))
    some = [r for r in rows if r is not None]
    if not some:
        return pa.nulls(len(rows), VariableShapedTensorType(value_type, _dimensions(column.type)))
    flat = np.concatenate([r.reshape(-1) for r in some])
    nothing = (0,) * some[0].ndim
    shapes = [nothing if r is None else r.shape for r in rows]
    return _variable(_from_vector(flat).cast(value_type), shapes, [r is None for r in rows])


# --- from Arrow ------------------------------------------------------------------------------------


def to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """The column as one array; read-only and without a copy where it lies in one piece."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            column = column.chunk(0)
        elif column.num_chunks == 0:
            column = pa.array([], column.type)
        else:
            return _join([to_numpy(chunk) for chunk in column.chunks])
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        flat = column.storage.flatten().to_numpy(zero_copy_only=False)
        if column.null_count:  # flatten leaves null rows out
            rows = iter(flat.reshape(len(column) - column.null_count, *kind.shape))
            return _object_array(
                [next(rows) if valid.as_py() else None for valid in column.is_valid()]
            )
        return flat.reshape(len(column), *kind.shape)
    if isinstance(kind, VariableShapedTensorType):
        return _object_array(_variable_rows(column))
    if isinstance(kind, PythonObjectType):
        return _object_array(_objects(column))
    if isinstance(kind, pa.BaseExtensionType):
        return to_numpy(column.storage)
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    return column.to_numpy(zero_copy_only=False)


def stacked(column: pa.ChunkedArray) -> np.ndarray:
    """The column as :func:`to_numpy` gives it, but lists of numbers of one length as rows of a matrix.

    A number that is missing in a list is NaN. A column without any value is NaN as 32-bit floats.
    """
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan, np.float32)
    width = _list_width(column)
    if width is None:
        return to_numpy(column)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    flat = _join([c.flatten().to_numpy(zero_copy_only=False) for c in chunks])
    return flat.reshape(len(column), width)


def _list_width(column: pa.ChunkedArray) -> int | None:
    """The length of the lists of a column; None if they differ, or the column has no lists."""
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (is_list or pa.types.is_fixed_size_list(kind)) or column.null_count or not len(column):
        return None
    inner = kind.value_type
    if not (
        pa.types.is_integer(inner) or pa.types.is_floating(inner) or pa.types.is_boolean(inner)
    ):
        return None
    found = pc.min_max(pc.list_value_length(column))
    shortest, longest = found["min"].as_py(), found["max"].as_py()
    return int(longest) if shortest == longest else None


def _join(parts: list[np.ndarray]) -> np.ndarray:
    full = [p for p in parts if len(p)] or parts[:1]
    if len(full) == 1:
        return full[0]
    if len({p.shape[1:] for p in full}) > 1 or any(p.dtype == object for p in full):
        return _object_array([row for part in full for row in part])
    return np.concatenate(full)


def _variable_rows(column: pa.ChunkedArray) -> list[np.ndarray | None]:
    data, shapes = column.storage.field("data"), column.storage.field("shape")
    if column.null_count:
        return [
            None
            if not row.is_valid
            else np.asarray(row["data"].values).reshape(row["shape"].as_py())
            for row in column.storage
        ]
    return [
        data[i].values.to_numpy(zero_copy_only=False).reshape(shape)
        for i, shape in enumerate(shapes.to_pylist())
    ]


def _objects(column: pa.ChunkedArray) -> list[Value]:
    return [None if v is None else pickle.loads(v) for v in column.storage.to_pylist()]


def _object_array(values: list[object]) -> np.ndarray:
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def to_list(column: pa.ChunkedArray) -> list[Value]:
    """Python values, one a row; tensors as arrays."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return list(to_numpy(column))
    if _is_shared(kind):
        return next(lists(column, max(1, len(column))), [])
    values: list[object] = column.to_pylist()
    return values


def lists(column: pa.ChunkedArray, rows: int) -> Iterator[list[Value]]:
    """Lists of the Python values of ``rows`` rows each, the last of fewer."""
    if _is_shared(column.type):
        yield from _of_dictionary(column, rows)
        return
    for at in range(0, len(column), rows):
        yield to_list(column.slice(at, rows))


def _is_shared(kind: pa.DataType) -> bool:
    """Whether a column is a dictionary of texts: rows may share these, as nobody can change them."""
    return bool(pa.types.is_dictionary(kind)) and kind.value_type in (
        pa.string(),
        pa.large_string(),
    )


def _of_dictionary(column: pa.ChunkedArray, rows: int) -> Iterator[list[Value]]:
    """Lists of a dictionary's values: each is made once, and not for each row."""
    if not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([column])
    if sum(len(chunk.dictionary) for chunk in column.chunks) > len(column):
        yield from lists(column.cast(column.type.value_type), rows)
        return
    values: list[Value] = []  # of all dictionaries, with a None behind each
    numbers = [np.empty(0, np.int64)]
    for chunk in column.chunks:
        begin = len(values)
        values += [*chunk.dictionary.to_pylist(), None]
        indices = chunk.indices.cast(pa.int64())
        if indices.null_count:
            indices = indices.fill_null(len(values) - 1 - begin)
        numbers.append(indices.to_numpy() + begin)
    shared, places = np.array(values, dtype=object), np.concatenate(numbers)
    for at in range(0, len(places), rows):
        found: list[Value] = shared[places[at : at + rows]].tolist()
        yield found
