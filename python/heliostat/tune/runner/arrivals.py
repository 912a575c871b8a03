"""Answers to open calls as they come, without a look at those that are still open."""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

# How long answers gather before they are taken, so that a turn of the loop takes many: for each open call,
# and at most.
GATHER_S, GATHER_MAX_S = 2e-5, 0.02


class Arrivals:
    """Keeps what open calls were answered until it is taken. A call costs the same however many are open."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._come: list[tuple[Any, Any]] = []

    def expect(self, ref: Any) -> None:
        """Listen to a call's answer."""
        ref._on_completed(functools.partial(self._add, ref))

    def _add(self, ref: object, value: object) -> None:
        """Called once for each call, with its value or its error, from any thread."""
        with self._changed:
            self._come.append((ref, value))
            if len(self._come) == 1:
                self._changed.notify()

    def take(self, timeout_s: float, open_calls: int = 1) -> list[tuple[Any, Any]]:
        """Wait for answers, and return those that have come in their order; none after ``timeout_s`` seconds.

        Args:
            timeout_s: How long the first is waited for.
            open_calls: How many calls there are; the more, the longer others are waited for.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._come, timeout_s):
                return []
        time.sleep(min(GATHER_MAX_S, GATHER_S * open_calls))
        with self._changed:
            come, self._come = self._come, []
        return come
