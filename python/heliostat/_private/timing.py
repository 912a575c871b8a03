"""``ray.util.timer``: how long calls of a block took, and how much they did."""

from __future__ import annotations

import time
from collections import deque

__all__ = ["_Timer"]


class _Timer:
    """Times the blocks that it is entered around, one at a time.

    Args:
        window_size: How many of the latest blocks the means are of.
    """

    def __init__(self, window_size: int = 10) -> None:
        self._seconds: deque[float] = deque(maxlen=window_size)
        self._units: deque[float] = deque(maxlen=window_size)
        self._began: float | None = None
        self._total_time = 0.0
        self.count = 0

    def __enter__(self) -> None:
        assert self._began is None, "this timer is running already"
        self._began = time.time()

    def __exit__(self, *raised: object) -> None:
        assert self._began is not None, "this timer is not running"
        self.push(time.time() - self._began)
        self._began = None

    def push(self, time_delta: float) -> None:
        """Add a block that took so many seconds."""
        self._seconds.append(time_delta)
        self._total_time += time_delta
        self.count += 1

    def push_units_processed(self, n: float) -> None:
        """Add what a block did."""
        self._units.append(n)

    def has_units_processed(self) -> bool:
        return bool(self._units)

    @property
    def mean(self) -> float:
        """Seconds a block; 0 before the first."""
        return sum(self._seconds) / len(self._seconds) if self._seconds else 0.0

    @property
    def mean_units_processed(self) -> float:
        return sum(self._units) / len(self._units) if self._units else 0.0

    @property
    def mean_throughput(self) -> float:
        """Units a second; 0 where no time has passed."""
        seconds = sum(self._seconds)
        return sum(self._units) / seconds if seconds else 0.0
