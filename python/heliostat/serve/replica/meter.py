"""What a replica counts of its requests, under Ray's names.

Numbers are kept here and told once a second while they change: telling each would cost as much as a
short request.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter as Counts
from dataclasses import dataclass
from time import perf_counter

from heliostat.serve.context import ReplicaID
from heliostat.util.metrics import Counter, Gauge, Histogram

_EVERY_S = 1.0
_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 1000, 2000, 5000, 10_000, 60_000]
_TAGS = ("route", "deployment", "replica", "application")
_HTTP_TAGS = ("route", "method", "application", "status_code")
# Latencies are counted in steps of a tenth: a quantile is right to a twentieth.
_STEP = math.log(1.1)


@dataclass(frozen=True)
class Figures:
    """What a replica did in some seconds: latencies as counts by step."""

    seconds: float
    requests: int
    errors: int
    ongoing: int
    latencies: dict[int, int]


def quantile(latencies: dict[int, int], part: float) -> float | None:
    """The milliseconds below which that part of them is; None of none."""
    left = part * sum(latencies.values())
    for step in sorted(latencies):
        left -= latencies[step]
        if left <= 0:
            return math.exp((step - 0.5) * _STEP)
    return None


class Meter:
    """The metrics of one replica."""

    def __init__(self, replica: ReplicaID) -> None:
        key = replica.deployment_id
        self._own = {
            "deployment": key.name,
            "replica": replica.unique_id,
            "application": key.app_name,
        }
        self._requests: Counts[str] = Counts()
        self._errors: Counts[str] = Counts()
        self._latencies: list[tuple[str, float]] = []
        self._answered: list[tuple[str, str, str, float]] = []
        self._ongoing = 0
        self._taken_at = perf_counter()
        self._taken: Counts[int] = Counts()
        self._taken_errors = 0
        self._telling: asyncio.TimerHandle | None = None
        self._count = Counter(
            "serve_deployment_request_counter", "Requests that this replica has processed.", _TAGS
        )
        self._failed = Counter(
            "serve_deployment_error_counter", "Exceptions that requests have raised.", _TAGS
        )
        self._latency = Histogram(
            "serve_deployment_processing_latency_ms",
            "How long requests were processed.",
            list(_BOUNDS_MS),
            _TAGS,
        )
        self._now = Gauge(
            "serve_replica_processing_queries", "Requests that are processed now.", _TAGS[1:]
        )
        self._answers = Counter(
            "serve_num_http_requests", "HTTP requests that were answered.", _HTTP_TAGS
        )
        self._took = Histogram(
            "serve_http_request_latency_ms",
            "From when a request reached its replica until it was answered, with the time it waited there.",
            list(_BOUNDS_MS),
            _HTTP_TAGS,
        )
        self._refusals = Counter(
            "serve_num_http_error_requests",
            "HTTP requests that were answered with a status of 400 or more.",
            (*_HTTP_TAGS, "error_code"),
        )

    def request(self, route: str) -> _Request:
        """Counts what is done within it."""
        return _Request(self, route)

    def begin(self) -> None:
        """A request is processed from now on."""
        self._ongoing += 1
        self._tell_soon()

    def end(self, route: str, seconds: float, *, has_failed: bool) -> None:
        """It is over."""
        self._ongoing -= 1
        self._requests[route] += 1
        if has_failed:
            self._errors[route] += 1
        self._latencies.append((route, seconds * 1e3))
        self._taken[math.ceil(math.log(max(seconds * 1e3, 1e-3)) / _STEP)] += 1
        self._taken_errors += has_failed
        self._tell_soon()

    def take(self) -> Figures:
        """What was done since this was called the last time."""
        now = perf_counter()
        taken, self._taken = self._taken, Counts()
        errors, self._taken_errors = self._taken_errors, 0
        seconds, self._taken_at = now - self._taken_at, now
        return Figures(seconds, sum(taken.values()), errors, self._ongoing, dict(taken))

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """It came over HTTP and was answered so, in that time."""
        self._answered.append((route, method, str(status), seconds * 1e3))

    def _tell_soon(self) -> None:
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_EVERY_S, self.tell)

    def tell(self) -> None:
        """Tell what has come together."""
        self._telling = None
        self._now.set(self._ongoing, self._own)
        for metric, counts in ((self._count, self._requests), (self._failed, self._errors)):
            for route, number in counts.items():
                metric.inc(number, {**self._own, "route": route})
            counts.clear()
        answered, self._answered = self._answered, []
        for route, method, status, value in answered:
            tags = {
                "route": route,
                "method": method,
                "status_code": status,
                "application": self._own["application"],
            }
            self._answers.inc(1, tags)
            self._took.observe(value, tags)
            if int(status) >= 400:
                self._refusals.inc(1, {**tags, "error_code": status})
        latencies, self._latencies = self._latencies, []
        for route, value in latencies:
            self._latency.observe(value, {**self._own, "route": route})


class _Request:
    __slots__ = ("_began", "_meter", "_route")

    def __init__(self, meter: Meter, route: str) -> None:
        self._meter = meter
        self._route = route

    def __enter__(self) -> None:
        self._meter.begin()
        self._began = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        has_failed = kind is not None and issubclass(kind, Exception)
        self._meter.end(self._route, perf_counter() - self._began, has_failed=has_failed)
