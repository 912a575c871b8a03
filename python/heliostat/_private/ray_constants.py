"""``ray._private.ray_constants``: names of variables, ports and limits that programs take from there."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn, TypeVar

from heliostat._private import missing
from heliostat.core.session import logger

__all__ = [
    "DEFAULT_DASHBOARD_PORT",
    "DEFAULT_PORT",
    "ID_SIZE",
    "LOGGER_FORMAT",
    "RAY_ADDRESS_ENVIRONMENT_VARIABLE",
    "RAY_JOB_HEADERS",
    "RAY_NAMESPACE_ENVIRONMENT_VARIABLE",
    "RAY_RUNTIME_ENV_ENVIRONMENT_VARIABLE",
    "env_bool",
    "env_float",
    "env_integer",
]

T = TypeVar("T", int, float)

DEFAULT_PORT = 6379
DEFAULT_DASHBOARD_PORT = 8265
ID_SIZE = 28  # bytes of the id of an object, a node or a worker
LOGGER_FORMAT = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"
RAY_ADDRESS_ENVIRONMENT_VARIABLE = "RAY_ADDRESS"
RAY_JOB_HEADERS = "RAY_JOB_HEADERS"
RAY_NAMESPACE_ENVIRONMENT_VARIABLE = "RAY_NAMESPACE"
RAY_RUNTIME_ENV_ENVIRONMENT_VARIABLE = "RAY_RUNTIME_ENV"


def env_bool(key: str, default: bool) -> bool:
    """Whether the variable is ``1`` or ``true``, in any case of letters; the default where it is not set."""
    text = os.environ.get(key)
    return default if text is None else text.lower() in ("1", "true")


def env_integer(key: str, default: int) -> int:
    """The variable as a whole number; the default where it is not set or, with a warning, none."""
    return _number(key, default, int)


def env_float(key: str, default: float) -> float:
    """The variable as a number; the default where it is not set, and with a warning where it is none."""
    return _number(key, default, float)


def _number(key: str, default: T, kind: Callable[[str], T]) -> T:
    text = os.environ.get(key)
    if text is None:
        return default
    try:
        return kind(text)
    except ValueError:
        logger.warning("%s=%r is not a number of this kind: %r is taken.", key, text, default)
        return default


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.ray_constants.{name}"))
