"""Operators that are more than one function of pyarrow."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Union

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from heliostat.data.aliases import Function

Operand = Union["pa.Array", "pa.ChunkedArray", "pa.Scalar", "pc.Expression"]


def of(
    function: Function, values: list[Operand], args: tuple[object, ...], kwargs: dict[str, object]
) -> Operand:
    """``function(*values, *args, **kwargs)``, also of a column that has no type as all is missing."""
    if len(values) > 1 and function is not add:
        values = [_first(*values), *values[1:]]
    try:
        return function(*values, *args, **kwargs)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, AttributeError):
        typed = [v.type for v in values if not _is_open(v) and not pa.types.is_null(v.type)]
        if len(typed) == len(values) or any(map(_is_open, values)):
            raise
    if typed:  # what the values would be, such as truth values beside truth values
        with contextlib.suppress(pa.ArrowException):
            known = (v.cast(typed[0]) if pa.types.is_null(v.type) else v for v in values)
            return function(*known, *args, **kwargs)
    return pa.nulls(max(len(v) for v in values if not isinstance(v, pa.Scalar)))


def _first(a: object, b: object) -> pa.Array:
    """The first operand: pyarrow looks at it alone to see whether there are references."""
    return pc.scalar(a) if _is_open(b) and isinstance(a, pa.Scalar) else a


def add(a: object, b: object) -> pa.Array:
    """The sum; of texts, the one after the other."""
    if any(map(_is_text, (a, b))) and all(_is_text(v) or _is_open(v) for v in (a, b)):
        return pc.binary_join_element_wise(_first(a, b), b, "")
    return pc.add(_first(a, b), b)


def floor_divide(a: Operand, b: Operand) -> Operand:
    """``a // b`` as Python means it: rounded down, also below zero. Integers stay integers."""
    if _is_open(a) or _is_open(b):  # pyarrow's quotient of integers is cut, that of floats is not
        a = pc.cast(a, pa.float64()) if not _is_open(a) else a.cast(pa.float64())
        return pc.floor(pc.divide(a, b))
    if not (_is_whole(a) and _is_whole(b)):
        return pc.floor(pc.divide(a, b))
    cut = pc.divide(a, b)  # towards zero
    rest = pc.subtract(a, pc.multiply(cut, b))
    # Cut up rather than down where something is left and the signs differ.
    high = pc.and_(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(b, 0)))
    return pc.subtract(cut, pc.cast(high, cut.type))


def modulo(a: object, b: object) -> pa.Array:
    """``a % b`` as Python means it: of the sign of ``b``."""
    return pc.subtract(a, pc.multiply(floor_divide(a, b), b))


def _is_open(value: object) -> bool:
    """Whether it is a reference to a column whose type is not known."""
    return isinstance(value, pc.Expression)


def _is_text(value: Operand) -> bool:
    if _is_open(value):
        return False
    return bool(pa.types.is_string(value.type) or pa.types.is_large_string(value.type))


def _is_whole(value: Operand) -> bool:
    return bool(pa.types.is_integer(value.type))
