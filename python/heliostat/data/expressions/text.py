"""Expressions as text, such as ``"x > 5 and name in ['a', 'b']"``. Deprecated by Ray."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heliostat.data.expressions.expr import Expr, col

if TYPE_CHECKING:
    from heliostat.data.aliases import Function, Value


_OPERATORS: dict[type, Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.And: operator.and_,
    ast.Or: operator.or_,
}

# Functions that a text may call, with how many values each takes.
_FUNCTIONS: dict[str, tuple[int, Function]] = {
    "is_in": (2, lambda of, values: of.is_in(values)),
    "is_nan": (1, lambda of: of != of),  # NaN alone differs from itself
    "is_not_null": (1, lambda of: of.is_not_null()),
    "is_null": (1, lambda of: of.is_null()),
    "is_valid": (1, lambda of: of.is_not_null()),
}


def parse(text: str) -> Expr:
    """The expression that a text such as ``"x > 5 and name in ['a', 'b']"`` means.

    Raises:
        ValueError: It means none.
    """
    try:
        made = _made(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"Invalid syntax in the expression {text!r}: {error}") from error
    if not isinstance(made, Expr):
        raise ValueError(f"{text!r} names no column")
    return made


def _made(node: ast.AST) -> Value:
    if isinstance(node, ast.Name):
        return col(node.id)
    if isinstance(node, ast.Attribute):  # a column that is named "user.age"
        return col(ast.unparse(node))
    if isinstance(node, ast.Call):
        return _called(node)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_made(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp):
        inner = _made(node.operand)
        return ~inner if isinstance(node.op, ast.Not | ast.Invert) else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_made(node.left), _made(node.right))
    if isinstance(node, ast.BoolOp):
        return functools.reduce(_OPERATORS[type(node.op)], [_made(v) for v in node.values])
    if isinstance(node, ast.Compare):
        return functools.reduce(operator.and_, _comparisons(node))
    raise ValueError(f"cannot use {ast.unparse(node)!r} in an expression")


def _called(node: ast.Call) -> Value:
    name = ast.unparse(node.func)
    if name not in _FUNCTIONS:
        raise ValueError(
            f"cannot call {name}() in a text: there are {', '.join(_FUNCTIONS)}. As an expression it may be "
            "there: `from ray.data.expressions import col`."
        )
    wanted, function = _FUNCTIONS[name]
    values = [_made(value) for value in node.args]
    if len(values) != wanted or node.keywords:
        raise ValueError(
            f"{name}() takes {wanted} value{'s' * (wanted > 1)}: {ast.unparse(node)!r}"
        )
    if not isinstance(values[0], Expr):
        raise ValueError(f"{name}() takes a column first: {ast.unparse(node)!r}")
    return function(*values)


def _comparisons(node: ast.Compare) -> Sequence[Expr]:
    left = _made(node.left)
    made = []
    for sign, following in zip(node.ops, node.comparators, strict=True):
        right = _made(following)
        if isinstance(sign, ast.In):
            made.append(left.is_in(right))
        elif isinstance(sign, ast.NotIn):
            made.append(left.not_in(right))
        elif type(sign) in _OPERATORS:
            made.append(_OPERATORS[type(sign)](left, right))
        else:
            raise ValueError(f"cannot use {ast.unparse(node)!r} in an expression")
        left = right
    return made
