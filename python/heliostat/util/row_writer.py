"""The record that a library keeps in the cluster of a thing that it runs, for the head's page.

A row outlives the driver that has written it, and goes when many others have begun after it.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import heliostat as ray
from heliostat.experimental import internal_kv

# Rows that a cluster keeps of one kind.
KEPT = 100
# The most of a core that rows may take: those that are large are written less often.
SHARE = 0.01


class RowWriter:
    """The row of one run.

    Args:
        namespace: Of the rows of this kind, such as ``_data_runs``; helio-dashboard reads them.
        name: What users call the run.
        every_s: The shortest time between two rows, in seconds; the last one is written at once.
        run_id: Of a run that another process may go on with, under the same key; None: an id of its own.
    """

    def __init__(
        self, namespace: str, name: str, every_s: float, *, run_id: str | None = None
    ) -> None:
        self._namespace, self._name, self._every_s = namespace, name, every_s
        self.run_id = run_id or uuid.uuid4().hex[:12]
        self.started_at = time.time()
        begun_ns = time.time_ns() if run_id is None else 0
        self._key = f"{begun_ns:020d}-{self.run_id}"
        self._written_at = time.monotonic()
        self._costs_s = 0.0  # of the processor, for the last row
        self._has_begun = False

    @property
    def is_due(self) -> bool:
        """Whether it is time for another row."""
        return time.monotonic() - self._written_at >= max(self._every_s, self._costs_s / SHARE)

    @property
    def has_begun(self) -> bool:
        """Whether there is a row."""
        return self._has_begun

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Count the time of the block, which makes a row, to the cost of telling."""
        began = time.thread_time()
        yield
        self._costs_s = time.thread_time() - began

    def write(self, seen: dict[str, Any], *, is_over: bool = False) -> None:
        """Write what the dashboard shows; an error here must not end the run."""
        self._written_at = time.monotonic()
        about = {
            "name": self._name,
            "run_id": self.run_id,
            "job_id": ray.get_runtime_context().get_job_id(),
            "is_over": is_over,
            "started_at": self.started_at,
            "written_at": time.time(),
            "seen": seen,
        }
        # Names come from users: what is not a number of JSON, or not UTF-8, must not hide the rest.
        try:
            text = json.dumps(about, ensure_ascii=False, default=str, allow_nan=False)
        except (ValueError, TypeError):
            text = json.dumps(_finite(about), ensure_ascii=False, default=str)
        with contextlib.suppress(ray.exceptions.RayError):
            if not self._has_begun:
                self._make_room()
                self._has_begun = True
            internal_kv._internal_kv_put(
                self._key, text.encode(errors="replace"), namespace=self._namespace
            )

    def remove(self) -> None:
        """Forget the row."""
        with contextlib.suppress(ray.exceptions.RayError):
            internal_kv._internal_kv_del(self._key, namespace=self._namespace)

    def _make_room(self) -> None:
        known = sorted(internal_kv._internal_kv_list(b"", namespace=self._namespace))
        for old in known[: max(0, len(known) - KEPT + 1)]:
            internal_kv._internal_kv_del(old, namespace=self._namespace)


class Past:
    """Points over time, at most ``most`` of them: of a long run every second, fourth, … one stays."""

    def __init__(self, most: int) -> None:
        self._most, self._step, self._seen = most, 1, 0
        self.points: list[list[float | None]] = []

    def add(self, *point: float | None) -> None:
        """Add a point, the time first."""
        if self._seen % self._step == 0:
            self.points.append(list(point))
            if len(self.points) >= self._most:
                self.points = self.points[::2]
                self._step *= 2
        self._seen += 1


def _finite(value: Any) -> Any:
    """The value without numbers that JSON cannot say."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {str(key): _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return value
