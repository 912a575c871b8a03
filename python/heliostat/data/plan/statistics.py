"""Conclusions from the statistics of some rows about a condition: whether any row, and whether
every row, meets it.

Only what is certain counts: where statistics are missing, or a part of the condition is none of the
comparisons below, any answer is possible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from heliostat.data.expressions import fields
from heliostat.data.expressions.expr import AliasExpr, Call, ColumnExpr, Expr, LiteralExpr

if TYPE_CHECKING:
    from heliostat.data.aliases import Function, Value


Answers = frozenset[bool | None]  # those that a condition may give for a row
ANY: Answers = frozenset([True, False, None])
EXACT_MAX = 2**53  # integers up to it are the same number as a float

_MIRRORED: dict[Function, Function] = {
    pc.less: pc.greater,
    pc.less_equal: pc.greater_equal,
    pc.greater: pc.less,
    pc.greater_equal: pc.less_equal,
    pc.equal: pc.equal,
    pc.not_equal: pc.not_equal,
}


@dataclass(frozen=True)
class Range:
    """The known bounds of a column's values in some rows. None: unknown."""

    rows: int
    nulls: int | None = None
    least: Value = None
    most: Value = None

    @property
    def is_bounded(self) -> bool:
        """Whether the least and the greatest value are known, and comparable with others."""
        bounds = (self.least, self.most)
        return all(b is not None and b == b for b in bounds)  # NaN bounds nothing


def may_hold(condition: Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether some row may meet the condition."""
    return True in answers(condition, ranges)


def surely_holds(condition: Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether every row meets the condition."""
    return answers(condition, ranges) == {True}


def answers(condition: Expr, ranges: Mapping[str, Range]) -> Answers:
    """Return the values that the condition may have for one of the rows: true, false, or unknown
    (None).
    """
    if isinstance(condition, AliasExpr):
        return answers(condition.operands[0], ranges)
    if not isinstance(condition, Call):
        return ANY
    function, operands = condition.function, condition.operands
    if function in (pc.and_kleene, pc.or_kleene):
        both = product(*(answers(o, ranges) for o in operands))
        combined: Callable[..., bool | None] = _and if function is pc.and_kleene else _or
        return frozenset(combined(a, b) for a, b in both)
    if function is pc.invert:
        return frozenset(None if a is None else not a for a in answers(operands[0], ranges))
    if function in _MIRRORED:
        return _of_comparison(function, operands[0], operands[1], ranges)
    if not isinstance(operands[0], ColumnExpr) or condition.kwargs:
        return ANY
    found = ranges.get(operands[0].name)
    if found is None:
        return ANY
    if function in (pc.is_null, pc.is_valid):
        return _of_nulls(found, function is pc.is_null)
    if function is fields.is_in:
        hits = [True in _compared(pc.equal, found, value) for value in condition.args[0]]
        return frozenset([False, True]) if any(hits) else frozenset([False])
    return ANY


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _of_nulls(found: Range, wanted: bool) -> Answers:
    if found.nulls is None:
        return frozenset([True, False])
    some_null, some_there = found.nulls > 0, found.nulls < found.rows
    return frozenset(a for a, there in ((wanted, some_null), (not wanted, some_there)) if there)


def _of_comparison(
    function: Function, left: Expr, right: Expr, ranges: Mapping[str, Range]
) -> Answers:
    if isinstance(left, LiteralExpr):
        left, right, function = right, left, _MIRRORED[function]
    if (
        not isinstance(left, ColumnExpr)
        or not isinstance(right, LiteralExpr)
        or left.name not in ranges
    ):
        return ANY
    return _compared(function, ranges[left.name], right.value)


def _compared(function: Function, found: Range, value: Value) -> Answers:
    """Return the values that a comparison of the column with a constant may have."""
    if value is None:
        # `is_in` finds a missing value, a comparison gives none: that one is right for neither.
        return ANY
    if found.nulls is not None and found.nulls == found.rows:
        return frozenset([None])
    unknown: list[bool | None] = [] if found.nulls == 0 else [None]
    if not found.is_bounded or not _comparable(found, value):
        return frozenset([True, False, *unknown])
    least, most = found.least, found.most
    only = least == most == value
    inside = least <= value <= most
    # NaN is in no statistics: all comparisons with it are false, but for `!=`.
    may_be_nan = isinstance(least, float)
    true, false = {
        pc.less: (least < value, most >= value),
        pc.less_equal: (least <= value, most > value),
        pc.greater: (most > value, least <= value),
        pc.greater_equal: (most >= value, least < value),
        pc.equal: (inside, not only),
        pc.not_equal: (not only or may_be_nan, inside),
    }[function]
    if may_be_nan and function is not pc.not_equal:
        false = True
    return frozenset([*([True] if true else []), *([False] if false else []), *unknown])


def _comparable(found: Range, value: Value) -> bool:
    """Whether Python compares the constant with the bounds as pyarrow does."""
    kinds = {type(found.least), type(found.most), type(value)}
    if kinds == {int, float}:
        numbers = (found.least, found.most, value)
        return all(math.isfinite(n) and abs(n) <= EXACT_MAX for n in numbers)
    if kinds == {float}:
        return not math.isnan(value)
    if len(kinds) > 1 or kinds & {bytes}:
        return False
    zones = {getattr(v, "tzinfo", None) for v in (found.least, found.most, value)}
    return len(zones) == 1
