"""An attempt, as the driver runs it: start the group, start the function, wait how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import heliostat as ray
from heliostat.train.controller.failures import RankFailure
from heliostat.train.controller.replacing import Replacer
from heliostat.train.controller.resizing import Resizer
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
    """The end of an attempt: its results, or its failure."""

    values: dict[int, Any] = field(default_factory=dict)
    failures: list[RankFailure] = field(default_factory=list)
    # Ranks whose processes can run the next attempt.
    reusable: set[int] = field(default_factory=set)
    unwound: bool = False
    # A node went before a checkpoint had come: the functions were told to end without one.
    overdue: bool = False
    coordinator_error: Exception | None = None
    failed_at: float | None = None
    # Losses of replica groups that were still being replaced when the attempt failed.
    not_replaced: list[RankFailure] = field(default_factory=list)


class EventStream:
    """The coordinator's events: one long call at a time, kept from attempt to attempt."""

    def __init__(self, coordinator: Any, on_events: Callable[[list[Any]], None]) -> None:
        self._coordinator = coordinator
        self._on_events = on_events
        self._fetched_at = 0.0
        self.pending: Any = None

    def listen(self) -> float:
        """Have a call under way if one is due; returns in how many seconds the next is due."""
        wait = self._fetched_at + _EVENT_PERIOD_S - time.monotonic()
        if self.pending is None and wait <= 0:
            self.pending = self._coordinator.events.remote(_EVENT_WAIT_S)
        return wait if self.pending is None else _TICK_S

    def take(self) -> None:
        """Hand on what the finished call has brought. Raises RayError without a coordinator."""
        ref, self.pending = self.pending, None
        self._fetched_at = time.monotonic()
        self._on_events(ray.get(ref))

    def drain(self) -> None:
        """Fetch what has happened by now, without waiting for more."""
        try:
            rest = ray.get(self._coordinator.events.remote(0))
            # A long call that was answered before this one brought what happened before.
            if self.pending is not None and ray.wait([self.pending], timeout=0)[0]:
                self.take()
            self._on_events(rest)
        except ray.exceptions.RayError:
            self.pending = None  # the coordinator is gone with what it had not told


class AttemptRunner:
    """Waits for the workers of one attempt and for the coordinator's events, in one call."""

    def __init__(
        self,
        group: WorkerGroup,
        coordinator: Any,
        events: EventStream,
        unwind_s: float,
        on_tick: Callable[[], None],
        on_end: Callable[[Worker, str], None],
        on_note: Callable[[str], None],
        resizer: Resizer,
        replacer: Replacer | None = None,
        grace_until: Callable[[list[RankFailure]], float | None] = lambda failures: None,
    ) -> None:
        self._resizer = resizer
        # Until when those who are left may run after these failures; None: they are told to end.
        self._grace_until = grace_until
        self._group = group
        self._coordinator = coordinator
        self._unwind_s = unwind_s
        self._events = events
        self._on_tick = on_tick
        self._on_end = on_end
        self._on_note = on_note
        self._replacer = replacer
        self._dissolved: str | None = None
        # Losses of replica groups that are not in again, the latest last.
        self._losses: list[RankFailure] = []
        self._silent: list[tuple[int, str]] = []
        self._slow: list[int] = []
        # How many replica groups were replaced for being slow.
        self.retired = 0

    def silent(self, rank: int, seconds: float, stack: str = "") -> None:
        """A worker has shown no life for so long: it counts as dead."""
        text = (
            f"its process has answered nothing for {seconds:.0f} s, though it is there "
            "(RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S). It is stopped, or holds the "
            "interpreter's lock."
        )
        if stack:
            text += f"\nWhat it is doing:\n{stack.rstrip()}"
        self._silent.append((rank, text))

    def hung(self, rank: int, text: str) -> None:
        """A worker did not come to where all others wait: its replica group is replaced."""
        self._silent.append((rank, text))

    def slow(self, rank: int) -> None:
        """A worker is slower than the others: its replica group is replaced while they go on."""
        self._slow.append(rank)

    def admitted(self, groups: list[int]) -> None:
        """Replaced replica groups train again."""
        if self._replacer is not None:
            self._replacer.admitted(groups)
            group_of = self._replacer.group_of
            self._losses = [f for f in self._losses if group_of(f.rank) not in groups]

    def dissolved(self, text: str) -> None:
        """Too few replica groups are left: the attempt has failed."""
        self._dissolved = text

    def wait(self, refs: list[Any]) -> AttemptResult:
        """Wait until every rank has ended, or the first failure and what follows from it."""
        result = AttemptResult()
        ranks = {ref: rank for rank, ref in enumerate(refs)}
        deadline: float | None = None
        while ranks:
            patience = self._events.listen()
            if deadline is not None:
                patience = min(patience, deadline - time.monotonic())
            replacer = self._replacer
            due = replacer.tick(ranks) if replacer is not None and deadline is None else None
            if due is not None:
                patience = min(patience, due)
            watched = list(ranks)
            if deadline is None and not result.failures:
                look_s = self._resizer.tick()
                patience = patience if look_s is None else min(patience, look_s)
                watched += self._resizer.refs()
                if self._resizer.is_overdue:
                    result.overdue = True
                    deadline = time.monotonic() + self._unwind_s
                    self._tell_end(result)
            if replacer is not None:
                watched += replacer.infos
            if self._events.pending is not None:
                watched.append(self._events.pending)
            done, _ = ray.wait(watched, num_returns=1, timeout=max(0.001, patience))
            if len(done) == 1 and len(watched) > 1:
                # Whoever else is ready too: peers often fail within the same millisecond.
                done, _ = ray.wait(watched, num_returns=len(watched), timeout=0)
            for ref in done:
                if replacer is not None and ref in replacer.infos:
                    replacer.arrived(ref)
                elif ref not in ranks and self._resizer.take(ref):
                    continue
                elif ref in ranks:
                    self._take(ranks.pop(ref), ref, result, ranks)
            if self._events.pending is not None and self._events.pending in done:
                try:
                    self._events.take()
                except ray.exceptions.RayError as error:
                    result.coordinator_error = error
            self._take_silent(ranks, result)
            self._take_slow(ranks, result)
            if self._dissolved is not None and not result.failures:
                died = WorkerDiedError(self._dissolved)
                loss = self._losses.pop() if self._losses else RankFailure(0, died, "", True)
                result.failures.append(loss)
                result.failed_at = result.failed_at or time.time()
            self._on_tick()
            broken = bool(result.failures) or result.coordinator_error is not None
            if result.values and not broken and self._is_late(ranks) and deadline is None:
                deadline = time.monotonic() + self._unwind_s
            if broken and ranks and deadline is None and result.coordinator_error is None:
                grace = self._grace_until(result.failures)
                if grace is not None and not result.unwound and time.monotonic() < grace:
                    continue
            if (broken or result.unwound) and deadline is None:
                deadline = time.monotonic() + self._unwind_s
                if broken and ranks:
                    self._tell_end(result)
            if deadline is not None and time.monotonic() > deadline:
                break
        if result.failures:
            failed = {f.rank for f in result.failures}
            result.not_replaced = [f for f in self._losses if f.rank not in failed]
        # Some of a replica group that was started again on processes that were free.
        result.reusable.difference_update(ranks.values())
        return result

    def _take_silent(self, ranks: dict[Any, int], result: AttemptResult) -> None:
        for rank, text in self._silent:
            for ref in [ref for ref, other in ranks.items() if other == rank]:
                del ranks[ref]
                result.reusable.discard(rank)
                worker = self._group.workers[rank]
                died = WorkerDiedError(text)
                failure = RankFailure(rank, died, "", True, worker.info)
                if self._is_replaced(failure, worker, result, ranks, False):
                    continue
                result.failed_at = result.failed_at or time.time()
                if not (result.failures or result.unwound):
                    result.failures.append(failure)
                self._on_end(worker, "died")
        self._silent.clear()

    def _take_slow(self, ranks: dict[Any, int], result: AttemptResult) -> None:
        slow, self._slow = self._slow, []
        ended = result.failures or result.values or result.coordinator_error or self._dissolved
        for rank in slow:
            ref = next((ref for ref, other in ranks.items() if other == rank), None)
            if self._replacer is None or ended or ref is None:
                continue
            worker = self._group.workers[rank]
            del ranks[ref]
            if self._replacer.retire(rank, ranks):
                self.retired += 1
                self._on_end(worker, "ended")
            else:
                ranks[ref] = rank
                self._on_note(f"rank {rank} stays: too few replica groups could go on without it")

    def _is_late(self, ranks: dict[Any, int]) -> bool:
        """Whether only replica groups are waited for that were lost before the training was over.

        They were waited for at its end already, and could not be replaced in time.
        """
        return self._replacer is not None and self._replacer.are_late(ranks.values())

    def _is_replaced(
        self,
        failure: RankFailure,
        worker: Worker,
        result: AttemptResult,
        ranks: dict[Any, int],
        reusable: bool,
    ) -> bool:
        """Whether the others go on while the replica group of a rank that failed is replaced.

        Once a function has returned, nobody is there for long whose state a newcomer could take.
        """
        ended = result.failures or result.values or result.coordinator_error or self._dissolved
        if self._replacer is None or ended:
            return False
        self._on_end(worker, "died" if failure.died else "failed")
        if not self._replacer.lost(failure, ranks, reusable):
            return False
        self._losses.append(failure)
        return True

    def _take(self, rank: int, ref: Any, result: AttemptResult, ranks: dict[Any, int]) -> None:
        worker = self._group.workers[rank]
        result.reusable.discard(rank)
        try:
            outcome: Outcome = ray.get(ref)
        except Exception as error:
            text = str(error).strip() or type(error).__name__
            died = WorkerDiedError(text)
            died.__cause__ = error
            failure = RankFailure(rank, died, "", True, worker.info)
            if self._is_replaced(failure, worker, result, ranks, False):
                return
            result.failed_at = result.failed_at or time.time()
            # Peers may tell of their broken connections before the news of the death is here.
            is_known = any(f.died for f in result.failures)
            if is_known or (result.unwound and not result.failures):
                self._on_end(worker, "ended")
                return
            result.failures.append(failure)
            self._on_end(worker, "died")
            return
        if outcome.reusable:
            result.reusable.add(rank)
        if outcome.note:
            self._on_note(outcome.note)
        if outcome.ok:
            result.values[rank] = outcome.value
            self._on_end(worker, "finished")
        elif outcome.unwound:
            self._on_end(worker, "ended")
            if self._replacer is None:
                result.unwound = True
            elif not (result.failures or result.values or result.coordinator_error):
                self._replacer.unwound(rank, ranks, outcome)
        else:
            raised = outcome.error or RuntimeError("the training function failed")
            failure = RankFailure(rank, raised, outcome.traceback, False, worker.info)
            if not self._is_replaced(failure, worker, result, ranks, outcome.reusable):
                self._failed(failure, worker, result)

    def _failed(self, failure: RankFailure, worker: Worker, result: AttemptResult) -> None:
        result.failed_at = result.failed_at or time.time()
        if result.unwound:  # the others were told to end, and this rank noticed it in its own way
            self._on_end(worker, "ended")
            return
        result.failures.append(failure)
        self._on_end(worker, "failed")

    def _tell_end(self, result: AttemptResult) -> None:
        try:
            self._coordinator.end.remote()
        except Exception as error:
            result.coordinator_error = result.coordinator_error or error
