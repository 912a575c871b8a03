"""The counts of a replica's requests, under Ray's names.

Numbers are kept here and told once a second while they change: telling each would cost as much as a
short request.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from heliostat.serve.context import ReplicaID
from heliostat.serve.replica.admission_gate import AdmissionGate
from heliostat.util.metrics import Counter, Gauge, Histogram

_EVERY_S = 1.0
_BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 1000, 2000, 5000, 10_000, 60_000]
_TAGS = ("route", "deployment", "replica", "application")
_ANSWER_TAGS = ("route", "method", "application", "status_code")
# How many milliseconds answers took, by route, method and code.
Answered = defaultdict[tuple[str, str, int], list[float]]
# Latencies are counted in steps of a tenth: a quantile is right to a twentieth.
_STEP = math.log(1.1)


@dataclass(frozen=True)
class Figures:
    """The work of a replica in some seconds: latencies as counts by step."""

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

    def __init__(self, replica: ReplicaID, gate: AdmissionGate) -> None:
        self._gate = gate  # which counts most calls of handles
        key = replica.deployment_id
        self._own = {
            "deployment": key.name,
            "replica": replica.unique_id,
            "application": key.app_name,
        }
        self._errors: Counts[str] = Counts()
        self._latencies: defaultdict[str, list[float]] = defaultdict(list)  # not told yet
        self._answered: Answered = defaultdict(list)
        self.ongoing = 0  # requests that are processed now
        self._taken_at = perf_counter()
        self._taken: Counts[int] = Counts()
        self._taken_errors = 0
        self.telling: asyncio.TimerHandle | None = None  # what has come together is told then
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
        self._http = _Answers("http", "a status of 400 or more")
        self._rpc: _Answers | None = None  # once there is a call
        self._calls: Answered = defaultdict(list)
        self._open_calls = 0

    def request(self, route: str) -> _Request:
        """Counts what is done within it."""
        return _Request(self, route)

    def begin(self) -> None:
        """A request is processed from now on."""
        self.ongoing += 1
        if self.telling is None:
            self.tell_soon()

    def end(self, route: str, seconds: float, *, has_failed: bool) -> None:
        """Count a request that has ended."""
        self.ongoing -= 1
        if has_failed:
            self._errors[route] += 1
            self._taken_errors += 1
        self._latencies[route].append(seconds * 1e3)
        if self.telling is None:
            self.tell_soon()

    def take(self) -> Figures:
        """Return the counts since the last call."""
        self.tell()
        now = perf_counter()
        taken, self._taken = self._taken, Counts()
        errors, self._taken_errors = self._taken_errors, 0
        seconds, self._taken_at = now - self._taken_at, now
        ongoing = self.ongoing + self._gate.running
        return Figures(seconds, sum(taken.values()), errors, ongoing, dict(taken))

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request over HTTP that was answered with that status, in that time."""
        self._answered[route, method, status].append(seconds * 1e3)

    def call(self) -> None:
        """A call of gRPC is answered from now on."""
        self._open_calls += 1

    def called(self, route: str, method: str, code: int, seconds: float) -> None:
        """A call of that method, ``/package.Service/Method``, has ended with that code, in that time."""
        self._open_calls -= 1
        self._calls[route, method, code].append(seconds * 1e3)

    def tell_soon(self) -> None:
        """Have :meth:`tell` called in a while."""
        if self.telling is None:
            self.telling = asyncio.get_running_loop().call_later(_EVERY_S, self.tell)
        self._gate.is_told = True

    def tell(self) -> None:
        """Tell what has come together."""
        if self.telling is not None:
            self.telling.cancel()
            self.telling = None
        self._gate.is_told = False
        for route, took_ms, has_failed in self._gate.take_ended():
            self._latencies[route].append(took_ms)
            if has_failed:
                self._errors[route] += 1
                self._taken_errors += 1
        self._now.set(self.ongoing + self._gate.running, self._own)
        for route, number in self._errors.items():
            self._failed.inc(number, {**self._own, "route": route})
        self._errors.clear()
        application = self._own["application"]
        self._http.tell(application, self._answered, lambda status: status >= 400)
        if self._calls or self._open_calls:
            self._rpc = self._rpc or _Answers("grpc", "a code that is not 0")
        if self._rpc is not None:
            self._rpc.open.set(self._open_calls, self._own)
            self._rpc.tell(application, self._calls, lambda code: code != 0)
        for route, values in self._latencies.items():
            tags = {**self._own, "route": route}
            self._count.inc(len(values), tags)
            self._latency._observe_each(values, tags)
            self._taken.update(math.ceil(math.log(max(one, 1e-3)) / _STEP) for one in values)
        self._latencies.clear()


class _Answers:
    """The counts of answers over a protocol."""

    def __init__(self, protocol: str, error: str) -> None:
        what = f"Requests over {protocol} that were answered"
        self._all = Counter(f"serve_num_{protocol}_requests", f"{what}.", _ANSWER_TAGS)
        self._took = Histogram(
            f"serve_{protocol}_request_latency_ms",
            "From when a request reached its replica until it was answered, with the time it waited there.",
            list(_BOUNDS_MS),
            _ANSWER_TAGS,
        )
        self._errors = Counter(
            f"serve_num_{protocol}_error_requests",
            f"{what} with {error}.",
            (*_ANSWER_TAGS, "error_code"),
        )
        if protocol == "grpc":  # those of HTTP are counted by the servers
            self.open = Gauge(
                "serve_num_ongoing_grpc_requests", "Calls that this replica has.", _TAGS[1:]
            )

    def tell(self, application: str, answered: Answered, is_error: Callable[[int], bool]) -> None:
        """Tell of those, and forget them."""
        for (route, method, code), took in answered.items():
            tags = {
                "route": route,
                "method": method,
                "status_code": str(code),
                "application": application,
            }
            self._all.inc(len(took), tags)
            self._took._observe_each(took, tags)
            if is_error(code):
                self._errors.inc(len(took), {**tags, "error_code": str(code)})
        answered.clear()


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
