"""Decorators that say what a method is, as programs written for RLlib use them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def override(parent_cls: type) -> Callable[[T], T]:
    """Return a decorator for a method that replaces one of a base class.

    Args:
        parent_cls: The base class.

    Raises:
        NameError: The base class has no such method.
    """

    def decorated(method: T) -> T:
        name = getattr(method, "__name__", None) or getattr(
            getattr(method, "fget", None), "__name__", ""
        )
        if name and not hasattr(parent_cls, name):
            raise NameError(
                f"{name}() overrides nothing: {parent_cls.__name__} has no such method."
            )
        return method

    return decorated


def _same(obj: T) -> T:
    return obj


DeveloperAPI = ExperimentalAPI = OldAPIStack = _same
OverrideToImplementCustomLogic = OverrideToImplementCustomLogic_CallToSuperRecommended = _same


def PublicAPI(*arguments: Any, **keywords: Any) -> Any:
    """Return the class or function as it is; it takes ``stability=...`` as well.

    Args:
        *arguments: The class or function.
        **keywords: Has no effect.
    """
    return arguments[0] if arguments else _same
