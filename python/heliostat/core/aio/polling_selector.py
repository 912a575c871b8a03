"""A selector for the event loop of an async actor, which reads the runtime's connections itself.

With any other, a thread of the runtime would read them and wake the loop, and two wake-ups are most of
what a call costs.
"""

from __future__ import annotations

import math
import selectors
import time

from heliostat import _heliostat

# How often a busy loop looks around at most. A call takes two turns of the loop, and looking costs
# as much as a short call.
_LOOKS_S = 200e-6

_Events = list[tuple[selectors.SelectorKey, int]]


class PollingSelector(selectors.EpollSelector):
    """Selects among the loop's descriptors, and serves the runtime before it sleeps and after."""

    def __init__(self) -> None:
        super().__init__()
        self._runtime_fd = _heliostat._loop_fd()
        self.register(self._runtime_fd, selectors.EVENT_READ)
        self._watches = True
        self._looks_at = 0.0  # when a busy loop looks around again
        self._found: _Events = []  # the loop's own, seen by `rest`

    def rest(self, timeout: float | None) -> bool:
        """Sleep until something comes, at most so long; whether the runtime may have something for the loop.

        The loop has to look for that next: nothing else announces it. What the loop's descriptors have is for
        the next :meth:`select`.
        """
        limit = _heliostat._loop_sleeps()
        if limit == 0:
            if self._is_due():
                self._found = self._of_the_loop(super().select(0))
            return True
        self._watch(limit > 0)
        if limit < 0:
            self._found = super().select(timeout)
            return False
        if timeout is not None:
            limit = min(limit, timeout)
        began = time.monotonic()
        events: _Events = []
        try:
            events = super().select(None if limit == math.inf else limit)
        finally:
            now = time.monotonic()
            self._looks_at = now + _LOOKS_S
            self._found = self._of_the_loop(events)
            _heliostat._loop_woke(now - began, len(self._found) < len(events))
        return True

    def has_found(self) -> bool:
        """Whether the next :meth:`select` has something already."""
        return bool(self._found)

    def select(self, timeout: float | None = None) -> _Events:
        """Wait for files like any selector, for a loop that :meth:`rest` puts to sleep.

        What the runtime has for the loop it announces by ``notify_fd``.
        """
        if self._found:
            found, self._found = self._found, []
            return found
        if timeout == 0:
            if not self._is_due():
                return []
            _heliostat._loop_passes()
        return self._of_the_loop(super().select(timeout))

    def _is_due(self) -> bool:
        """Whether a busy loop is to look at its own descriptors again."""
        now = time.monotonic()
        if now < self._looks_at:
            return False
        self._looks_at = now + _LOOKS_S
        return True

    def _watch(self, watches: bool) -> None:
        """Whether what comes for the runtime wakes the loop.

        Not while another thread reads it: the loop would wake again and again until that has got to it.
        """
        if watches != self._watches:
            self._watches = watches
            if watches:
                self.register(self._runtime_fd, selectors.EVENT_READ)
            else:
                self.unregister(self._runtime_fd)

    def _of_the_loop(self, events: _Events) -> _Events:
        return [event for event in events if event[0].fd != self._runtime_fd]
