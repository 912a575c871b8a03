"""One attempt, as the driver runs it: start the group, start the function, wait how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import heliostat as ray
from heliostat.train.controller.failures import RankFailure
from heliostat.train.errors import WorkerDiedError
from heliostat.train.group.worker_group import Worker, WorkerGroup
from heliostat.train.messages import Outcome

# The driver looks at its timers this often; everything else arrives as an event.
_TICK_S = 0.5
# The driver fetches events at most this often, so that a loop which reports back to back is not
# slowed down by being watched.
_EVENT_PERIOD_S = 0.05
_EVENT_WAIT_S = 30.0


@dataclass
class AttemptResult:
    """How an attempt ended."""

    values: dict[int, Any] = field(default_factory=dict)
    failures: list[RankFailure] = field(default_factory=list)
    # Ranks whose processes can run the next attempt.
    reusable: set[int] = field(default_factory=set)
    unwound: bool = False
    coordinator_error: Exception | None = None
    failed_at: float | None = None


class AttemptRunner:
    """Waits for the workers of one attempt and for the coordinator's events, in one call."""

    def __init__(
        self,
        group: WorkerGroup,
        coordinator: Any,
        unwind_s: float,
        on_events: Callable[[list[Any]], None],
        on_tick: Callable[[], None],
        on_end: Callable[[Worker, str], None],
    ) -> None:
        self._group = group
        self._coordinator = coordinator
        self._unwind_s = unwind_s
        self._on_events = on_events
        self._on_tick = on_tick
        self._on_end = on_end
        self._listening: Any = None
        self._fetched_at = 0.0

    def wait(self, refs: list[Any]) -> AttemptResult:
        """Wait until every rank has ended, or the first failure and what follows from it."""
        result = AttemptResult()
        ranks = {ref: rank for rank, ref in enumerate(refs)}
        deadline: float | None = None
        while ranks:
            self._listen()
            watched = list(ranks) + ([self._listening] if self._listening is not None else [])
            done, _ = ray.wait(watched, num_returns=1, timeout=self._patience(deadline))
            if len(done) == 1 and len(watched) > 1:
                # Whoever else is ready too: peers often fail within the same millisecond.
                done, _ = ray.wait(watched, num_returns=len(watched), timeout=0)
            for ref in done:
                if ref in ranks:
                    self._take(ranks.pop(ref), ref, result)
            if self._listening is not None and self._listening in done:
                self._hear(result)
            self._on_tick()
            broken = bool(result.failures) or result.coordinator_error is not None
            if (broken or result.unwound) and deadline is None:
                deadline = time.monotonic() + self._unwind_s
                if broken and ranks:
                    self._tell_end(result)
            if deadline is not None and time.monotonic() > deadline:
                break
        return result

    def _patience(self, deadline: float | None) -> float:
        if deadline is not None:
            return max(0.0, min(_TICK_S, deadline - time.monotonic()))
        if self._listening is None:
            return max(0.001, self._fetched_at + _EVENT_PERIOD_S - time.monotonic())
        return _TICK_S

    def _take(self, rank: int, ref: Any, result: AttemptResult) -> None:
        worker = self._group.workers[rank]
        try:
            outcome: Outcome = ray.get(ref)
        except Exception as error:
            result.failed_at = result.failed_at or time.time()
            if result.failures or result.unwound:
                self._on_end(worker, "ended")
                return
            text = str(error).strip() or type(error).__name__
            died = WorkerDiedError(text)
            died.__cause__ = error
            result.failures.append(RankFailure(rank, died, "", True, worker.info))
            self._on_end(worker, "died")
            return
        if outcome.reusable:
            result.reusable.add(rank)
        if outcome.ok:
            result.values[rank] = outcome.value
            self._on_end(worker, "finished")
        elif outcome.unwound:
            result.unwound = True
            self._on_end(worker, "ended")
        else:
            self._failed(rank, worker, outcome, result)

    def _failed(self, rank: int, worker: Worker, outcome: Outcome, result: AttemptResult) -> None:
        error = outcome.error or RuntimeError("the training function failed")
        result.failed_at = result.failed_at or time.time()
        if result.unwound:  # the others were told to end, and this rank noticed it in its own way
            self._on_end(worker, "ended")
            return
        result.failures.append(RankFailure(rank, error, outcome.traceback, False, worker.info))
        self._on_end(worker, "failed")

    def _tell_end(self, result: AttemptResult) -> None:
        try:
            self._coordinator.end.remote()
        except Exception as error:
            result.coordinator_error = result.coordinator_error or error

    # ---- events ----

    def _listen(self) -> None:
        due = time.monotonic() - self._fetched_at >= _EVENT_PERIOD_S
        if self._listening is None and due:
            self._listening = self._coordinator.events.remote(_EVENT_WAIT_S)

    def _hear(self, result: AttemptResult) -> None:
        try:
            self._on_events(ray.get(self._listening))
        except ray.exceptions.RayError as error:
            result.coordinator_error = error
        self._listening = None
        self._fetched_at = time.monotonic()

    def drain(self) -> None:
        """Fetch what has happened since the last look, without waiting for more."""
        try:
            last = self._coordinator.events.remote(0)
            if self._listening is not None:
                # The long call and the short one share the queue: the long one is served first.
                done, _ = ray.wait([self._listening], timeout=0.05)
                if done:
                    self._on_events(ray.get(self._listening))
                    self._listening = None
            self._on_events(ray.get(last))
        except ray.exceptions.RayError:
            self._listening = None  # the coordinator is gone with what it had not told
