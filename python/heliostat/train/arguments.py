"""Looking at what a user passed: each fault is one ValueError that says what to write instead."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable

DEPRECATED = "DEPRECATED"


def expect(name: str, value: object, kind: type) -> None:
    """Raise ValueError where an argument is neither of the class it should be nor None."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(
            f"{name} must be a {kind.__name__}, not {type(value).__name__}: "
            f"{name}={kind.__name__}(...)."
        )


def refuse_deprecated(owner: str, **values: object) -> None:
    """Raise DeprecationWarning for options of Ray's first Train generation, as Ray does."""
    for name, value in values.items():
        if value not in (DEPRECATED, None):
            raise DeprecationWarning(
                f"`{name}` of `{owner}` belongs to the first generation of Ray Train and has no "
                f"effect any more. Remove it."
            )


def whole(value: object) -> int | None:
    """The value as an int where it is a whole number, numpy's included; else None."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type] # it says what is none
    except TypeError:
        return None


def is_amount(value: object) -> bool:
    """Whether the value is a finite number from 0 up."""
    if isinstance(value, bool):
        return False
    try:
        amount = float(value)  # type: ignore[arg-type] # it says what is none
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, str | bytes) and math.isfinite(amount) and amount >= 0


def seconds(name: str, value: object, *, above_zero: bool = False) -> None:
    """Raise ValueError where a duration is not a finite number from 0 up (or above 0)."""
    if not is_amount(value) or (above_zero and not float(value)):  # type: ignore[arg-type] # an amount
        kind = "a positive number of seconds" if above_zero else "a number of seconds from 0 up"
        raise ValueError(f"{name}={value!r} must be {kind}.")


def check_folder_name(option: str, name: object) -> None:
    """Raise ValueError where ``name`` cannot be the name of a folder inside another."""
    if not isinstance(name, str):
        raise ValueError(f"{option}={name!r} must be a string, not {type(name).__name__}.")
    if not name.strip() or name in (".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{option}={name!r} names a folder: it must not be empty or hold '/'.")
    if len(name.encode(errors="surrogatepass")) > 200:
        raise ValueError(
            f"{option}={name[:40] + '...'!r} is too long: take 200 characters or less."
        )


def hooks(asked: str | Iterable[str], known: Collection[str], library: str) -> set[str]:
    """The names of a library's hooks, which begin with "on_", for names without that.

    Raises:
        ValueError: The library has no such hook.
    """
    names = [asked] if isinstance(asked, str) else list(asked)
    wrong = [name for name in names if f"on_{name}" not in known]
    if wrong:
        there = sorted(name.removeprefix("on_") for name in known)
        raise ValueError(f"{library} has no hook {wrong[0]!r}; it has {there}.")
    return {f"on_{name}" for name in names}
