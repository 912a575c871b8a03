"""Random expressions of columns: their text for ``ray.data.expressions`` and their value for a row."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

from . import values
from .known import Inapplicable, Known, Row, need
from .values import is_nan, literal

# (operator, operands...) — ("col", name), ("lit", value), or an entry of OPS with expressions.
Expr = tuple[Any, ...]


def _nulls(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, None where an operand is."""
    return lambda *v: None if any(x is None for x in v) else function(*v)


def _and(a: Any, b: Any) -> Any:
    if any(v is not None and not v for v in (a, b)):  # NumPy's truth values, too
        return False
    return None if a is None or b is None else True


def _or(a: Any, b: Any) -> Any:
    if a or b:
        return True
    return None if a is None or b is None else False


# name: (text with {0} {1}, value, kind of the result, kinds of the operands)
OPS: dict[str, tuple[str, Callable[..., Any], str, tuple[str, ...]]] = {
    "int+": ("({0} + {1})", _nulls(lambda a, b: a + b), "int", ("int", "int")),
    "int-": ("({0} - {1})", _nulls(lambda a, b: a - b), "int", ("int", "int")),
    "int*": ("({0} * {1})", _nulls(lambda a, b: a * b), "int", ("int", "small")),
    "abs": ("{0}.abs()", _nulls(abs), "int", ("int",)),
    "str.len": ("{0}.str.len()", _nulls(len), "int", ("str",)),
    "list.len": ("{0}.list.len()", _nulls(len), "int", ("list",)),
    "field": ('{0}.struct.field("x")', _nulls(lambda v: v["x"]), "int", ("struct",)),
    "year": ("{0}.dt.year()", _nulls(lambda v: v.year), "int", ("ts",)),
    "hour": ("{0}.dt.hour()", _nulls(lambda v: v.hour), "int", ("ts",)),
    "float+": ("({0} + {1})", _nulls(lambda a, b: a + b), "float", ("float", "float")),
    "float-": ("({0} - {1})", _nulls(lambda a, b: a - b), "float", ("float", "int")),
    "float*": ("({0} * {1})", _nulls(lambda a, b: a * b), "float", ("float", "small")),
    "float/": ("({0} / {1})", _nulls(lambda a, b: a / b), "float", ("float", "power")),
    "int/": ("({0} / {1})", _nulls(lambda a, b: a / b), "float", ("int", "part")),
    "int/int": ("({0} / {1})", _nulls(lambda a, b: int(a / b)), "int", ("int", "divisor")),
    "upper": ("{0}.str.upper()", _nulls(lambda v: v.upper()), "str", ("ascii",)),
    "lower": ("{0}.str.lower()", _nulls(lambda v: v.lower()), "str", ("ascii",)),
    "strip": ("{0}.str.strip()", _nulls(lambda v: v.strip()), "str", ("str",)),
    "==": ("({0} == {1})", _nulls(lambda a, b: a == b), "bool", ("any", "any")),
    "!=": ("({0} != {1})", _nulls(lambda a, b: a != b), "bool", ("any", "any")),
    "<": ("({0} < {1})", _nulls(lambda a, b: a < b), "bool", ("any", "any")),
    ">=": ("({0} >= {1})", _nulls(lambda a, b: a >= b), "bool", ("any", "any")),
    ">": ("({0} > {1})", _nulls(lambda a, b: a > b), "bool", ("any", "any")),
    "mirrored <=": ("({1} <= {0})", _nulls(lambda a, b: b <= a), "bool", ("any", "any")),
    "is_null": ("{0}.is_null()", lambda v: v is None, "bool", ("column",)),
    "is_not_null": ("{0}.is_not_null()", lambda v: v is not None, "bool", ("column",)),
    "not_in": ("{0}.not_in([1, 5, 9])", lambda v: v not in (1, 5, 9), "bool", ("int",)),
    "is_in": ("{0}.is_in([0, 1, 2])", lambda v: v in (0, 1, 2), "bool", ("int",)),
    "starts": ('{0}.str.starts_with("a")', _nulls(lambda v: v.startswith("a")), "bool", ("str",)),
    "contains": ('{0}.str.contains("n")', _nulls(lambda v: "n" in v), "bool", ("str",)),
    "and": ("({0} & {1})", _and, "bool", ("bool", "bool")),
    "or": ("({0} | {1})", _or, "bool", ("bool", "bool")),
    "not": ("(~{0})", _nulls(lambda v: not v), "bool", ("bool",)),
}
# Operands that are literals.
CONSTANTS: dict[str, list[Any]] = {
    "small": [-3, -1, 0, 2, 3],
    "power": [0.5, 2.0, -4.0, 2, 8],
    "part": [0.5, 2.0, -4.0],
    "divisor": [2, -3, 8],
}
COMPARED = ("int", "float", "str", "ts", "big")
MADE = ("int", "float", "bool", "str")


def draw(rng: random.Random, known: Known, kind: str, depth: int = 2) -> Expr:
    """A random expression of that kind."""
    if kind in CONSTANTS:
        return ("lit", rng.choice(CONSTANTS[kind]))
    if kind == "column":
        names = known.certain_names(*COMPARED, "bool", "list", "struct")
        need(names, "no column")
        return ("col", rng.choice(names))
    own = known.certain_names("str" if kind == "ascii" else kind)
    if kind == "ascii":  # the cases of other letters are a matter of Unicode's version
        own = [n for n in own if all((r[n] or "").isascii() for r in known.rows)]
    choices = [n for n, op in OPS.items() if op[2] == kind and depth > 0]
    if own and (not choices or rng.random() < 0.5):
        return ("col", rng.choice(own))
    rng.shuffle(choices)
    for name in choices:
        made = _called(rng, known, name, depth)
        if made and columns(made):
            return made
    need(kind in (*MADE, "ascii"), f"no expression of kind {kind}")
    text = "ascii" if kind == "ascii" else None
    return ("lit", text or values.draw(kind, rng))


def _called(rng: random.Random, known: Known, name: str, depth: int) -> Expr | None:
    """An operator of random operands, or None where an operand has no expression."""
    operands = OPS[name][3]
    if operands == ("any", "any"):
        return (name, *_compared(rng, known))
    if all(o in (*CONSTANTS, "column") or _possible(known, o, depth - 1) for o in operands):
        with contextlib.suppress(Inapplicable):
            return (name, *(draw(rng, known, o, depth - 1) for o in operands))
    return None


def _possible(known: Known, kind: str, depth: int) -> bool:
    if known.certain_names(kind):
        return True
    return kind in MADE and depth >= 0


def _compared(rng: random.Random, known: Known) -> tuple[Expr, Expr]:
    """A column and a value, or two columns of one kind."""
    names = known.certain_names(*COMPARED)
    if not names:
        return ("lit", rng.randint(0, 3)), ("lit", 1)
    name = rng.choice(names)
    kind = known.columns[name].kind
    others = known.certain_names(kind)
    if rng.random() < 0.3 and len(others) > 1:
        return ("col", name), ("col", rng.choice(others))
    present = [r[name] for r in known.rows if r[name] is not None and not is_nan(r[name])]
    value = rng.choice(present) if present and rng.random() < 0.7 else values.draw(kind, rng)
    return ("col", name), ("lit", value)


def text(expr: Expr) -> str:
    """The Python text."""
    if expr[0] == "col":
        return f'col("{expr[1]}")'
    if expr[0] == "lit":
        return f"lit({literal(expr[1])})"
    return OPS[expr[0]][0].format(*(text(e) for e in expr[1:]))


def value(expr: Expr, row: Row) -> Any:
    """The value for one row."""
    if expr[0] == "col":
        return row[expr[1]]
    if expr[0] == "lit":
        return expr[1]
    return OPS[expr[0]][1](*(value(e, row) for e in expr[1:]))


def columns(expr: Expr) -> set[str]:
    """The columns that the expression reads."""
    if expr[0] in ("col", "lit"):
        return {expr[1]} if expr[0] == "col" else set()
    return set().union(*(columns(e) for e in expr[1:]))


def check(expr: Expr, known: Known) -> None:
    """Raise Inapplicable unless the dataset has the columns, with certain values."""
    for name in columns(expr):
        known.column(name)
        need(known.certain(name), f"values of {name} are not certain")
