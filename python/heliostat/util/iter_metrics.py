"""Counts and values that the functions of an iterator share. Deprecated, as it is in Ray."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

__all__ = ["MetricsContext", "SharedMetrics"]


class _Timer:
    """The number of times that ``with timer:`` was entered, and the seconds inside."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._start = 0.0

    def __enter__(self) -> _Timer:
        self._start = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.push(time.monotonic() - self._start)

    def push(self, seconds: float) -> None:
        """Count a time that was taken elsewhere."""
        self.count += 1
        self.total += seconds

    @property
    def mean(self) -> float:
        """Seconds each time; 0 before the first."""
        return self.total / self.count if self.count else 0.0


class MetricsContext:
    """``LocalIterator.get_metrics()`` inside of an iterator's functions: their common notes.

    ``counters`` begin at 0, ``timers`` are used as ``with metrics.timers["x"]:``, ``info`` holds anything;
    ``current_actor`` is the actor whose item is at hand, if :meth:`ParallelIterator.gather_async` brought it.
    """

    def __init__(self) -> None:
        self.counters: dict[str, int] = defaultdict(int)
        self.timers: dict[str, _Timer] = defaultdict(_Timer)
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None

    def save(self) -> dict[str, Any]:
        """Counters and notes, to be pickled; timers are not kept."""
        return {"counters": dict(self.counters), "info": dict(self.info), "timers": None}

    def restore(self, values: dict[str, Any]) -> None:
        """Go on from what :meth:`save` gave."""
        self.counters.clear()
        self.counters.update(values["counters"])
        self.timers.clear()
        self.info = values["info"]


class SharedMetrics:
    """The context of an iterator, which a union makes that of all its parts."""

    def __init__(
        self,
        metrics: MetricsContext | None = None,
        parents: list[SharedMetrics] | None = None,
    ) -> None:
        self.parents = parents or []
        self.metrics = metrics or MetricsContext()
        self.set(self.metrics)

    def set(self, metrics: MetricsContext) -> None:
        """Have this and all its parts use that context."""
        self.metrics = metrics
        for parent in self.parents:
            parent.set(metrics)

    def get(self) -> MetricsContext:
        """The context."""
        return self.metrics
