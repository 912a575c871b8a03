"""Kinds of column, random values of each, their Python text, and when two values are the same."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from typing import Any

import numpy as np

# Kinds that keys of sorts, groups and joins may have.
ORDERED = ("int", "big", "float", "str", "bool", "ts", "date", "decimal")
NUMERIC = ("int", "float")
NESTED = ("list", "struct", "deep", "tensor", "ragged")
KINDS = (*ORDERED, *NESTED, "bytes", "object")

TEXTS = ("a", "b", "b", "c", "", "é✓", "a,b", 'q"x', "two\nlines", "None", "nan", " 1 ", "Zz")
EPOCH = datetime.datetime(2020, 2, 27, 22, 0, 0)


def draw(kind: str, rng: random.Random, nan: bool = False) -> Any:
    """A value of a kind, never None; NaN and infinity only where ``nan`` allows them."""
    if kind == "int":
        return rng.choice([0, 1, 2, 3, rng.randint(-5, 5), rng.randint(-100_000, 100_000)])
    if kind == "big":  # beyond what a float holds exactly
        return rng.choice([-1, 1]) * (2**53 + rng.randint(1, 9))
    if kind == "float":
        special = [math.nan, math.nan, math.inf, -math.inf] if nan and rng.random() < 0.15 else []
        return rng.choice(special or [rng.randint(-8, 8) / 4, rng.randint(-4000, 4000) / 8])
    if kind == "str":
        return rng.choice(TEXTS)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "ts":
        fraction = rng.choice([0, 0, 500_000, 123_456])
        return EPOCH + datetime.timedelta(hours=rng.randint(0, 60), microseconds=fraction)
    if kind == "date":
        return EPOCH.date() + datetime.timedelta(days=rng.randint(-3, 400))
    if kind == "bytes":
        return bytes(rng.randrange(256) for _ in range(rng.randint(0, 4)))
    if kind == "list":
        return [rng.randint(0, 9) for _ in range(rng.choice([0, 1, 2, 2, 3]))]
    if kind == "struct":
        return {"x": rng.choice([None, 1, 2, 3]), "y": rng.choice(TEXTS)}
    if kind == "deep":
        parts = [{"q": rng.choice([None, 1, 2])} for _ in range(rng.choice([0, 1, 2, 3]))]
        return {"p": parts, "s": {"t": rng.choice([None, *TEXTS]), "u": [rng.choice(TEXTS)]}}
    if kind == "decimal":
        return decimal.Decimal(rng.choice([0, 100, 250, rng.randint(-99_999, 99_999)])) / 100
    if kind == "tensor":
        return np.array([[rng.randint(0, 9) / 2 for _ in range(2)] for _ in range(2)])
    if kind == "ragged":
        return np.array([[rng.randint(0, 9) for _ in range(2)] for _ in range(rng.randint(1, 3))])
    if kind == "object":
        return complex(rng.randint(0, 3), rng.randint(0, 3))
    raise ValueError(kind)


def literal(value: Any) -> str:
    """The Python text of a value, for a script that has imported what `plan.HEADER` imports."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, np.ndarray):
        return f"np.array({literal(value.tolist())})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        return f"({''.join(literal(v) + ', ' for v in value)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    return f"decimal.{value!r}" if isinstance(value, decimal.Decimal) else repr(value)


def is_nan(value: Any) -> bool:
    """Whether a value is a float that is not a number."""
    return isinstance(value, float | np.floating) and bool(value != value)


def is_negative_zero(value: Any) -> bool:
    """Whether a value is the float -0.0."""
    return isinstance(value, float | np.floating) and value == 0 and math.copysign(1, value) < 0


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' or numpy's missing value."""
    if value is None or is_nan(value):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return type(value).__name__ in ("NaTType", "NAType")


def _number(value: float) -> Any:
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def freeze(value: Any, exact: bool = True) -> Any:
    """A hashable form that is equal for the same values.

    Exact: integers are not floats, None is not NaN, lists are not arrays. Otherwise these are equal:
    what numpy and pandas make of columns that have missing values.
    """
    if is_missing(value):
        return ("nan",) if exact and is_nan(value) else ("null",)
    if isinstance(value, np.generic):
        value = _scalar(value)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return ("int", value) if exact else ("number", _number(float(value)))
    if isinstance(value, float):
        return ("float" if exact else "number", _number(value))
    if isinstance(value, datetime.datetime):
        return ("time", value.replace(tzinfo=None).isoformat(timespec="microseconds"))
    if isinstance(value, datetime.date):
        if exact:
            return ("date", value.isoformat())
        return freeze(datetime.datetime(value.year, value.month, value.day))
    if isinstance(value, np.ndarray):
        if exact:
            return ("array", value.shape, value.dtype.kind, freeze(value.tolist()))
        value = list(value)
    if isinstance(value, list | tuple):
        return ("list", *(freeze(v, exact) for v in value))
    if isinstance(value, dict):
        return ("dict", *sorted((k, freeze(v, exact)) for k, v in value.items()))
    return (type(value).__name__, value)


def _scalar(value: Any) -> Any:
    """The Python value of a numpy scalar."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]").item()
    return value.item()


def sort_key(value: Any) -> tuple[int, Any]:
    """Where a value comes in an ascending sort: NaN, then None, after all others."""
    if value is None:
        return (2, 0)
    if is_nan(value):
        return (1, 0)
    return (0, value)
