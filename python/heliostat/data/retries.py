"""Errors of storage that pass: what failed is tried again, after pauses that grow."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

from heliostat.data.context import DataContext

logger = logging.getLogger("heliostat.data")

ATTEMPTS_MAX = 10
PAUSE_S_MAX = 32.0
T = TypeVar("T")


def passes(error: BaseException) -> bool:
    """Whether an error is one of ``retried_io_errors``: a part of its class and message, or a pattern."""
    said = f"{type(error).__name__}: {error}"
    return any(
        one in said or _found(one, said) for one in DataContext.get_current().retried_io_errors
    )


def _found(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False


def wait_after(error: BaseException, attempt: int, what: str) -> None:
    """Warn of an attempt, from 1, that failed, and wait before the next one."""
    logger.warning("%s failed and is tried again (%d): %s", what, attempt, error)
    time.sleep(random.random() * min(2.0**attempt, PAUSE_S_MAX))


def retried(call: Callable[[], T], what: str, also: tuple[type[BaseException], ...] = ()) -> T:
    """Call a function, again after an error that passes.

    Args:
        call: The function; it begins anew each time.
        what: What it does, such as "a write", for the log.
        also: Errors that pass, besides those of the settings.

    Raises:
        Exception: Its error, where that does not pass or it was the last attempt.
    """
    attempt = 0
    while True:
        try:
            return call()
        except Exception as error:
            attempt += 1
            if attempt >= ATTEMPTS_MAX or not (isinstance(error, also) or passes(error)):
                raise
            wait_after(error, attempt, what)
