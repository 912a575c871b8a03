"""The share of their replicas that declared applications have."""

from __future__ import annotations

import math

from heliostat.serve.options import AutoscalingConfig


class Capacity:
    """``target_capacity`` of the last configuration, and whether it has grown last."""

    def __init__(self, percent: float | None = None, *, is_growing: bool = False) -> None:
        self._percent = percent
        self._is_growing = is_growing

    @property
    def percent(self) -> float | None:
        """The share in percent; ``None``: all replicas."""
        return self._percent

    def set(self, percent: float | None, *, is_takeover: bool) -> None:
        """Take in what a configuration says; ``is_takeover``: it declares other applications."""
        before, self._percent = self._percent, percent
        if percent is None:
            self._is_growing = False
        elif is_takeover:  # what it declares is about to take over
            self._is_growing = True
        elif before != percent:
            self._is_growing = before is not None and before < percent

    def number(self, replicas: int, *, is_declared: bool) -> int:
        """Return the share of so many replicas."""
        return _share(replicas, self._percent if is_declared else None)

    def bounds(self, scaling: AutoscalingConfig, *, is_declared: bool) -> tuple[int, int]:
        """Return the fewest and the most replicas that autoscaling may choose."""
        low = scaling.min_replicas
        is_limited = is_declared and self._percent is not None
        if is_limited and self._is_growing and scaling.initial_replicas is not None:
            low = scaling.initial_replicas
        return (
            self.number(low, is_declared=is_declared),
            self.number(scaling.max_replicas, is_declared=is_declared),
        )

    def saved(self) -> tuple[float | None, bool]:
        """Return the state for a later machine."""
        return self._percent, self._is_growing


def _share(number: int, percent: float | None) -> int:
    """Return the share of a number of replicas, half and more of one rounded up; 0 only for 0 % or none."""
    if percent is None or percent == 0 or number == 0:
        return number if percent is None else 0
    return max(1, math.floor(number * percent / 100 + 0.5))
