"""Functions and classes of Arrow arrays that are called with expressions."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat import cloudpickle
from heliostat.data import tensors
from heliostat.data.datatype import DataType, as_arrow
from heliostat.data.exceptions import user_error
from heliostat.data.expressions.expr import Expr

if TYPE_CHECKING:
    from heliostat.data.aliases import Function, Value


def udf(return_dtype: object) -> Callable[[Function], Function]:
    """Make a function of Arrow arrays callable with expressions: ``@udf(DataType.int64())``.

    The function gets a ``pyarrow.ChunkedArray`` for each argument that is an expression. It returns
    one value for each row: an array of pyarrow, of either kind, or of numpy, or a list. A class is
    called with its constructor's arguments first; each worker then makes one instance, in an actor.

    Args:
        return_dtype: Type of the values that it returns, a ``DataType`` or pyarrow's. Of a Python
            class, ``DataType(int)``, they keep the type that they have.

    Returns:
        A decorator; what it returns is called with expressions and returns one.

    Examples:
        >>> import ray
        >>> import pyarrow.compute as pc
        >>> from ray.data.datatype import DataType
        >>> from ray.data.expressions import col, udf
        >>> @udf(DataType.string())
        ... def shout(words):
        ...     return pc.utf8_upper(words)
        >>> ray.data.from_items([{"word": "hi"}]).with_column("loud", shout(col("word"))).take_all()
        [{'word': 'hi', 'loud': 'HI'}]
    """

    def decorate(function: Callable[..., object]) -> Function:
        if not inspect.isclass(function):
            return _callable(function, function.__name__, return_dtype, keeps_state=False)

        @functools.wraps(function, updated=())
        def construct(*args: object, **kwargs: object) -> Callable[..., Expr]:
            made = _Instance(function, args, kwargs)
            return _callable(made, function.__name__, return_dtype, keeps_state=True)

        return construct

    return decorate


pyarrow_udf = udf


def _callable(
    function: Callable[..., object], name: str, return_dtype: object, *, keeps_state: bool
) -> Callable[..., Expr]:
    def call(*args: object, **kwargs: object) -> Expr:
        return UDFExpr(function, name, return_dtype, args, kwargs, keeps_state)

    return functools.update_wrapper(call, function) if not keeps_state else call


class UDFExpr(Expr):
    """A function of the user's, called with arrays in the place of expressions."""

    is_pure = False  # it may count its calls, or write

    def __init__(
        self,
        function: Function,
        label: str,
        return_dtype: DataType | pa.DataType,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        keeps_state: bool,
    ) -> None:
        super().__init__(*(v for v in (*args, *kwargs.values()) if isinstance(v, Expr)))
        self._function, self._label = function, label
        is_class = isinstance(return_dtype, DataType) and return_dtype.is_python_type()
        self._return = None if is_class else as_arrow(return_dtype)
        self._args, self._kwargs, self._keeps_state = args, kwargs, keeps_state

    def __getstate__(self) -> dict[str, object]:
        # Only cloudpickle can pickle functions of a script, and a plan with them can go anywhere.
        return {**self.__dict__, "_function": cloudpickle.dumps(self._function)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _function=pickle.loads(state["_function"]))

    @property
    def keeps_state(self) -> bool:
        """Whether it, or an operand, has an object that is to be made once a worker."""
        return self._keeps_state or super().keeps_state

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """Return the function's values, as the type that was declared.

        Raises:
            ValueError: It is not one value for each row.
        """
        given = [_values(value, table) for value in self._args]
        named = {key: _values(value, table) for key, value in self._kwargs.items()}
        rows = table.num_rows
        try:
            made = self._function(*given, **named)
        except Exception as error:
            raise user_error(error, self._label, f"{rows} rows") from error
        if isinstance(made, np.ndarray):
            made = tensors.from_numpy(made)
        elif isinstance(made, list | tuple):
            made = tensors.from_list(list(made))
        elif not isinstance(made, pa.Array | pa.ChunkedArray):
            raise ValueError(
                f"{self._label} returned {type(made)} for {rows} rows; it must return an array or a "
                "list with one value for each."
            )
        if len(made) != rows:
            raise ValueError(
                f"{self._label} returned {len(made)} values for {rows} rows; it must return "
                "one for each."
            )
        return made if self._return is None else pc.cast(made, self._return)

    def rebuilt(self, *operands: Expr) -> Expr:
        """The same call with other operands."""
        left = list(operands)
        args = tuple(left.pop(0) if isinstance(v, Expr) else v for v in self._args)
        kwargs = {k: left.pop(0) if isinstance(v, Expr) else v for k, v in self._kwargs.items()}
        return UDFExpr(self._function, self._label, self._return, args, kwargs, self._keeps_state)

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """The type that its author declared; None: that of the values."""
        return self._return

    def text(self) -> str:
        """The expression as its author wrote it."""
        return f"{self._label}({', '.join(map(repr, self._args))})"


def _values(value: object, table: pa.Table) -> pa.ChunkedArray:
    if not isinstance(value, Expr):
        return value
    column = value.column(table)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


class _Instance:
    """An object of the user's class, made when it is first called in a process."""

    def __init__(
        self, kind: pa.DataType, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        self._kind, self._args, self._kwargs = kind, args, kwargs
        self._made: Function | None = None

    def __call__(self, *args: object, **kwargs: object) -> Value:
        if self._made is None:
            self._made = self._kind(*self._args, **self._kwargs)
        return self._made(*args, **kwargs)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_made": None}
