"""Pauses before failed attempts are tried again. Pure."""

from __future__ import annotations

_FIRST_S, _MOST_S = 1.0, 10.0


class Pauses:
    """None at first, then each is twice as long as the one before, until something has come of a try."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def next_s(self) -> float:
        """Seconds to wait now."""
        pause_s = self._next_s
        self._next_s = min(max(2 * pause_s, _FIRST_S), _MOST_S)
        return pause_s

    def over(self) -> None:
        """Something has come of it."""
        self._next_s = 0.0
