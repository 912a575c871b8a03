"""``ray._private.client_mode_hook``: where Ray lets its client take over calls. No driver here is one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

from heliostat._private import missing

__all__ = [
    "client_mode_hook",
    "client_mode_should_convert",
    "client_mode_wrap",
    "disable_client_hook",
]

F = TypeVar("F", bound=Callable[..., Any])


def client_mode_hook(func: F | None = None, **options: Any) -> Any:
    """Return the function, or without one a decorator that does."""
    return client_mode_hook if func is None else func


def client_mode_wrap(func: F) -> F:
    """Return the function."""
    return func


def client_mode_should_convert(*args: Any, **kwargs: Any) -> bool:
    """``False``."""
    return False


@contextlib.contextmanager
def disable_client_hook() -> Iterator[None]:
    """Nothing is to be disabled."""
    yield


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.client_mode_hook.{name}"))
