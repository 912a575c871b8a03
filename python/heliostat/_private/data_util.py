"""``ray.data._internal.util``: what sources, sinks and aggregations of others take from it."""

from __future__ import annotations

import importlib
import logging
import random
import re
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30

logger = logging.getLogger("heliostat")


def _check_import(obj: Any, *, module: str, package: str) -> None:
    """Raise ImportError with the package to install if a module that a source needs is not there."""
    try:
        importlib.import_module(module)
    except ImportError as missing:
        raise ImportError(
            f"{type(obj).__name__} needs the module `{module}`, and it cannot be imported ({missing}): "
            f"pip install {package}"
        ) from missing


def is_nan(value: object) -> bool:
    """Whether a value is the float NaN."""
    return isinstance(value, float) and value != value


def is_null(value: object) -> bool:
    """Whether a value is None or the float NaN."""
    return value is None or is_nan(value)


def call_with_retry(
    f: Callable[..., T],
    description: str,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: float = 32,
    *args: Any,
    **kwargs: Any,
) -> T:
    """Call a function again while it raises errors that may pass, with waits that double.

    Args:
        f: The function.
        description: What it does, for the log, such as "read the file".
        match: Parts of messages, or patterns of them, of errors that may pass. None: any error.
        max_attempts: How many calls there are at most, from 1.
        max_backoff_s: The longest wait, in seconds.
        args, kwargs: What the function is called with.

    Raises:
        Exception: What the last call raised, or the first that does not match.
    """
    if max_attempts < 1:
        raise ValueError(f"max_attempts={max_attempts} must be at least 1.")
    for attempt in range(1, max_attempts + 1):
        try:
            return f(*args, **kwargs)
        except Exception as error:
            said = "".join(traceback.format_exception(error))
            if attempt == max_attempts or not (
                match is None or any(_is_in(one, said) for one in match)
            ):
                raise
            wait_s = min(2 ** (attempt - 1), max_backoff_s) * random.uniform(0.8, 1.2)
            logger.debug(
                "To %s failed (%s of %s), again in %.1f s",
                description,
                attempt,
                max_attempts,
                wait_s,
            )
            time.sleep(wait_s)
    raise AssertionError("unreachable")


def _is_in(pattern: str, text: str) -> bool:
    try:
        return pattern in text or re.search(pattern, text) is not None
    except re.error:
        return False
