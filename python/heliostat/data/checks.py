"""Checks of arguments at the call, so that no task fails by them: each error says what is wanted."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from numbers import Real


def integers(**given: object) -> None:
    """Refuse what is not an integer; ``None`` was not given.

    Raises:
        TypeError: One is something else.
    """
    for name, value in given.items():
        if value is None:
            continue
        try:
            operator.index(value)  # type: ignore[arg-type] # raises for what has no index
        except TypeError:
            raise TypeError(f"`{name}` must be an integer, got {value!r}.") from None


def number(name: str, value: object) -> None:
    """Refuse what is not a number.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(value, Real):
        raise TypeError(f"`{name}` must be a number, got {value!r}.")


def shape(given: object) -> None:
    """Refuse what is not the shape of an array.

    Raises:
        TypeError: It is something else.
    """
    if not isinstance(given, tuple | list):
        raise TypeError(f"`shape` must be a tuple of integers, such as (2, 3), got {given!r}.")
    for size in given:
        integers(shape=size)


def names(name: str, given: object) -> list[str]:
    """The columns that an argument names: one, or several in a list.

    Raises:
        TypeError: It is something else.
    """
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Iterable) or isinstance(several, bytes | dict):
        raise TypeError(f"`{name}` must be a column's name or a list of names, got {given!r}.")
    return list(several)
