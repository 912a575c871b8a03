"""A selector for the event loop of an async actor, which reads the runtime's connections itself.

With any other, a thread of the runtime would read them and wake the loop, and two wake-ups are most of
what a call costs.
"""

from __future__ import annotations

import math
import selectors
import time

from heliostat import _heliostat


class PollingSelector(selectors.EpollSelector):
    """Selects among the loop's descriptors, and serves the runtime before it sleeps and after."""

    def __init__(self) -> None:
        super().__init__()
        self._runtime_fd = _heliostat._loop_fd()
        self.register(self._runtime_fd, selectors.EVENT_READ)
        self._watches = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As any selector's; what the runtime has for the loop it announces by ``notify_fd``."""
        if timeout is not None and timeout <= 0:
            _heliostat._loop_passes()
            return self._of_the_loop(super().select(0))
        limit = _heliostat._loop_sleeps()
        if limit == 0:
            return self._of_the_loop(super().select(0))
        self._watch(limit > 0)
        if limit < 0:
            return super().select(timeout)
        if timeout is not None:
            limit = min(limit, timeout)
        began = time.monotonic()
        events = []
        try:
            events = super().select(None if math.isinf(limit) else limit)
        finally:
            mine = self._of_the_loop(events)
            _heliostat._loop_woke(time.monotonic() - began, len(mine) < len(events))
        return mine or self._of_the_loop(super().select(0))

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

    def _of_the_loop(
        self, events: list[tuple[selectors.SelectorKey, int]]
    ) -> list[tuple[selectors.SelectorKey, int]]:
        return [event for event in events if event[0].fd != self._runtime_fd]
