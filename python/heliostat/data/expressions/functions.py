"""Functions and classes of Arrow arrays that are called with expressions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import tensors
from heliostat.data.exceptions import user_error
from heliostat.data.expressions.expr import Expr


def udf(return_dtype: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function of Arrow arrays callable with expressions: ``@udf(DataType.int64())``.

    The function gets a ``pyarrow.ChunkedArray`` for each argument that is an expression. It returns
    one value for each row: an array of pyarrow, of either kind, or of numpy, or a list. A class is
    called with its constructor's arguments first; each worker then makes one instance, in an actor.

    Args:
        return_dtype: Type of the values that it returns.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isclass(function):
            return _callable(function, function.__name__, return_dtype, keeps_state=False)

        @functools.wraps(function, updated=())
        def construct(*args: Any, **kwargs: Any) -> Callable[..., Expr]:
            made = _Instance(function, args, kwargs)
            return _callable(made, function.__name__, return_dtype, keeps_state=True)

        return construct

    return decorate


pyarrow_udf = udf


def _callable(
    function: Callable[..., Any], name: str, return_dtype: Any, *, keeps_state: bool
) -> Callable[..., Expr]:
    def call(*args: Any, **kwargs: Any) -> Expr:
        def evaluate(table: Any) -> Any:
            rows = table.num_rows
            given = [_values(value, table) for value in args]
            named = {key: _values(value, table) for key, value in kwargs.items()}
            try:
                made = function(*given, **named)
            except Exception as error:
                raise user_error(error, name) from error
            if isinstance(made, np.ndarray):
                made = tensors.from_numpy(made)
            elif not isinstance(made, pa.Array | pa.ChunkedArray):
                made = tensors.from_list(list(made))
            if len(made) != rows:
                raise ValueError(
                    f"{name} returned {len(made)} values for {rows} rows; it must return "
                    "one for each."
                )
            return pc.cast(made, return_dtype)

        inputs = tuple(v for v in (*args, *kwargs.values()) if isinstance(v, Expr))
        return Expr(
            evaluate,
            f"{name}({', '.join(map(repr, args))})",
            inputs=inputs,
            keeps_state=keeps_state,
            declared=return_dtype,
        )

    return functools.update_wrapper(call, function) if not keeps_state else call


def _values(value: Any, table: Any) -> Any:
    if not isinstance(value, Expr):
        return value
    column = value.column(table)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


class _Instance:
    """An object of the user's class, made when it is first called in a process."""

    def __init__(self, kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._kind, self._args, self._kwargs = kind, args, kwargs
        self._made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._made is None:
            self._made = self._kind(*self._args, **self._kwargs)
        return self._made(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}
