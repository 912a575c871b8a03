"""Health of the controller itself, under the names of Ray's ``ControllerHealthMetrics``.

Ray's controller looks at everything in a loop; this one acts when it hears something. So a "control loop"
here is one time that it has acted, and statistics of work that it does not do are zeros: it compresses no
reports, and nodes, servers and applications have no loops of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import resource
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

# The number of past values in statistics.
_ACTS, _REPORTS = 100, 2000
# The sleep of the loop that measures delays, in seconds.
EXPECTED_SLEEP_S = 0.1


def statistics(values: list[float]) -> dict[str, float]:
    """Mean, standard deviation and bounds; zeros of none."""
    if not values:
        return {"mean": 0.0, "std": 0.0, "min": 0.0, "max": 0.0}
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / len(values))
    return {"mean": mean, "std": spread, "min": min(values), "max": max(values)}


class Health:
    """The counts of one controller."""

    def __init__(self) -> None:
        self._began, self._began_at = time.monotonic(), time.time()
        self._acts = 0
        self._acted_at = 0.0
        self._durations: deque[float] = deque(maxlen=_ACTS)
        self._slept = 0.0
        # Milliseconds that reports of handles and replicas took here, and how many there were.
        self._took: dict[str, deque[float]] = {
            whose: deque(maxlen=_REPORTS) for whose in ("handle", "replica")
        }
        self._reports = dict.fromkeys(self._took, 0)
        self._reporting_s = 0.0
        # The share of late reports, once so many seconds of reports were there.
        self._marks: deque[tuple[float, float]] = deque(maxlen=_ACTS)

    def acted(self, seconds: float) -> None:
        """The controller has acted for so long."""
        self._acts += 1
        self._acted_at = time.time()
        self._durations.append(seconds)
        self._marks.append((time.monotonic(), self._reporting_s))

    async def sleep(self) -> None:
        """Sleep for ``EXPECTED_SLEEP_S``, or longer where the loop is held up."""
        began = time.monotonic()
        await asyncio.sleep(EXPECTED_SLEEP_S)
        self._slept = time.monotonic() - began

    @contextlib.contextmanager
    def report(self, whose: str) -> Iterator[None]:
        """Within it a report of load is taken in, of a ``"handle"`` or a ``"replica"``."""
        began = time.perf_counter()
        yield
        took = time.perf_counter() - began
        self._took[whose].append(took * 1e3)
        self._reports[whose] += 1
        self._reporting_s += took

    def row(self) -> dict[str, Any]:
        """The figures in the form of JSON."""
        now = time.monotonic()
        since, before = self._marks[0] if self._marks else (self._began, 0.0)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            **_NOT_DONE,
            "timestamp": time.time(),
            "controller_start_time": self._began_at,
            "uptime_s": now - self._began,
            "last_control_loop_time": self._acted_at,
            "num_control_loops": self._acts,
            "loop_duration_s": statistics(list(self._durations)),
            "loops_per_second": self._acts / max(now - self._began, 1e-9),
            "last_sleep_duration_s": self._slept,
            "expected_sleep_duration_s": EXPECTED_SLEEP_S,
            "event_loop_delay_s": max(0.0, self._slept - EXPECTED_SLEEP_S),
            "num_asyncio_tasks": len(asyncio.all_tasks()),
            "deployment_state_update_duration_s": statistics(list(self._durations)),
            "handle_ingest_duration_ms": statistics(list(self._took["handle"])),
            "replica_ingest_duration_ms": statistics(list(self._took["replica"])),
            "handle_reports_received": self._reports["handle"],
            "replica_reports_received": self._reports["replica"],
            "ingest_reports_received": sum(self._reports.values()),
            "ingest_cpu_fraction": (self._reporting_s - before) / max(now - since, 1e-9),
            "process_memory_mb": usage.ru_maxrss / 1024,
        }


def unknown() -> dict[str, Any]:
    """The metrics where no controller runs: all counts are 0, and durations are not known."""
    return dict.fromkeys(_DURATIONS) | dict.fromkeys(_NUMBERS, 0)


_NOT_DONE = {
    key: statistics([])
    for key in (
        "application_state_update_duration_s",
        "proxy_state_update_duration_s",
        "node_update_duration_s",
        "handle_metrics_delay_ms",
        "replica_metrics_delay_ms",
        "metrics_decompress_duration_ms",
        "columnar_decode_duration_ms",
    )
}

_DURATIONS = (
    *_NOT_DONE,
    "loop_duration_s",
    "deployment_state_update_duration_s",
    "handle_ingest_duration_ms",
    "replica_ingest_duration_ms",
)
_NUMBERS = (
    "timestamp",
    "controller_start_time",
    "uptime_s",
    "last_control_loop_time",
    "num_control_loops",
    "loops_per_second",
    "last_sleep_duration_s",
    "expected_sleep_duration_s",
    "event_loop_delay_s",
    "num_asyncio_tasks",
    "handle_reports_received",
    "replica_reports_received",
    "ingest_reports_received",
    "ingest_cpu_fraction",
    "process_memory_mb",
)
