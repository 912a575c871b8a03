"""Operators that are more than one function of pyarrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def add(a: Any, b: Any) -> Any:
    """The sum; of texts, the one after the other."""
    if _is_text(a) and _is_text(b):
        return pc.binary_join_element_wise(a, b, "")
    return pc.add(a, b)


def floor_divide(a: Any, b: Any) -> Any:
    """``a // b`` as Python means it: rounded down, also below zero. Integers stay integers."""
    if not (_is_whole(a) and _is_whole(b)):
        return pc.floor(pc.divide(a, b))
    cut = pc.divide(a, b)  # towards zero
    rest = pc.subtract(a, pc.multiply(cut, b))
    # Cut up rather than down where something is left and the signs differ.
    high = pc.and_(pc.not_equal(rest, 0), pc.not_equal(pc.less(rest, 0), pc.less(b, 0)))
    return pc.subtract(cut, pc.cast(high, cut.type))


def modulo(a: Any, b: Any) -> Any:
    """``a % b`` as Python means it: of the sign of ``b``."""
    return pc.subtract(a, pc.multiply(floor_divide(a, b), b))


def _is_text(value: Any) -> bool:
    return bool(pa.types.is_string(value.type) or pa.types.is_large_string(value.type))


def _is_whole(value: Any) -> bool:
    return bool(pa.types.is_integer(value.type))
