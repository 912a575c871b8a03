"""The loop of an execution: starts tasks within the budget, yields blocks as they come.

It is a generator: whoever takes its blocks drives it, and a consumer that is slow slows it down.
What bounds memory:

- The blocks that exist because of this execution, and those its running tasks are expected to make,
  stay below a fraction of the object store; beyond it no task begins, except one at a time so that
  the pipeline always moves (the operator nearest to the end that has something to do).
- A task pauses when a few of its blocks have not been taken.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.data.context import DataContext
from heliostat.data.exceptions import ExecutionTimeoutError
from heliostat.data.execute import small_sides, summaries
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.measurements import Measurements
from heliostat.data.execute.page_row import ExecutionRow
from heliostat.data.execute.physical import Physical
from heliostat.data.execute.planner import Planner
from heliostat.data.execute.progress import Progress
from heliostat.data.execute.stall import Stall, waits
from heliostat.data.execute.stats import ExecutionStats, OperatorStats
from heliostat.data.execute.stats_summary import summary_of
from heliostat.data.plan.operators import Bundle, Operator
from heliostat.data.plan.optimize import optimized

if TYPE_CHECKING:
    import pyarrow as pa


WAIT_S = 1.0  # how long one wait lasts at most: progress is shown, free CPUs are counted again


class Executor:
    """An execution of a plan."""

    def __init__(
        self,
        plan: Operator,
        context: DataContext,
        label: str = "Dataset",
        number: int | None = None,  # of executions with these settings; None: the next one
        taker: str = "",  # what measurements call whoever deals the blocks out
    ) -> None:
        self.stats = ExecutionStats()
        self._plan, self._context, self._label, self._number = plan, context, label, number
        self._taker = taker
        self._operators: list[Physical] = []
        self._limits: Limits | None = None
        self._sides: list[OperatorStats] = []  # of what was executed before
        self.outside_bytes = 0.0  # of blocks that a consumer has taken and still uses

    def run(self) -> Generator[Bundle, None, None]:
        """Yield the plan's blocks. Closing the iterator ends the execution."""
        begin_unless_begun()
        self._limits = limits = Limits(self._context)
        if self._number is None:
            self._number = self._context._next_execution()
        planner = Planner(limits, self._context, self._number)
        progress = Progress(self._label, self._context)
        measured = Measurements(self._label, limits, self._taker)
        self.stats.dataset = measured.dataset
        told, outcome, why = ExecutionRow(measured.dataset), "STOPPED", ""
        try:
            plan = optimized(self._plan) if self._context._optimizes else self._plan
            last = planner.make(small_sides.resolved(plan, self._run_side))
            self._operators = planner.operators
            made = [o.stats for o in self._operators if o.name != "Input"]
            self.stats.operators = [*self._sides, *made]
            self.stats.budget_bytes = int(limits.store_bytes)
            for operator in self._operators:
                operator.prepare()
            yield from self._loop(last, progress, measured, told)
            outcome = "FINISHED"
        except Exception as error:
            outcome, why = "FAILED", f"{type(error).__name__}: {error}"
            raise
        finally:
            self.stats.ended = time.monotonic()
            for operator in planner.operators:
                operator.close()
            progress.close(self._operators)
            measured.close(self._operators, self.stats)
            told.close(self._operators, self.stats, outcome, why)
            if outcome == "FINISHED" and self._context.enable_stats_summary_collection:
                summaries.keep(summary_of(self.stats, measured.dataset, self._label))

    def _run_side(self, plan: Operator) -> Iterator[Bundle]:
        """A part of the plan that has to be there before the rest is planned."""
        executor = Executor(plan, self._context, self._label, self._number)
        yield from executor.run()
        self._sides += [stats for stats in executor.stats.operators if stats.tasks]

    def _loop(
        self, last: Physical, progress: Progress, measured: Measurements, told: ExecutionRow
    ) -> Iterator[Bundle]:
        still_since, stall = time.monotonic(), Stall(self._label)
        while True:
            begun = time.monotonic()
            moved = self._poll(0)
            self._move()
            started = self._start(bool(last.outbox))
            self.stats.pass_s = time.monotonic() - begun
            if last.outbox:
                bundle = last.outbox.popleft()
                last.stats.taken([bundle])
                self.stats.rows += bundle.rows
                progress.yielded(bundle)
                measured.show(self._operators, self.stats)
                told.show(self._operators, self.stats)
                yield bundle
                still_since = time.monotonic()  # what the consumer takes is its own
                continue
            if last.done:
                return
            progress.show(self._operators)
            measured.show(self._operators, self.stats)
            told.show(self._operators, self.stats)
            if moved or started or self._poll(WAIT_S):
                still_since = time.monotonic()
                stall.moved()
            else:
                still_s = time.monotonic() - still_since
                self._check_progress(still_s)
                stall.still(still_s, self._operators)

    def _check_progress(self, still_s: float) -> None:
        """End an execution in which nothing has moved for too long."""
        timeout_s = self._context.execution_no_progress_timeout_s
        if timeout_s <= 0 or still_s < timeout_s:
            return
        raise ExecutionTimeoutError(
            f"No block of the dataset has moved and no task has begun or ended for {still_s:.0f} s "
            f"(the limit is {timeout_s:g} s). {waits(self._operators)} If its functions may "
            "take that long, or the cluster that long to have room, set a larger "
            "`ds.context.execution_no_progress_timeout_s`, or -1 for no limit; "
            "RAY_DATA_EXECUTION_NO_PROGRESS_TIMEOUT_S is its default."
        )

    def _poll(self, timeout: float) -> bool:
        """Tell operators what is ready; whether anything was."""
        waiting = [(w, o) for o in self._operators if not o.stopped for w in o.waiting()]
        if not waiting:
            return False
        waitables = [w for w, _ in waiting]
        ready, _ = ray.wait(
            waitables, num_returns=1 if timeout else len(waitables), timeout=timeout
        )
        owners = {id(w): o for w, o in waiting}
        for waitable in ready:
            owners[id(waitable)].on_ready(waitable)
        return bool(ready)

    def _move(self) -> None:
        """Let operators work, sources first, and pass their blocks on."""
        for operator in self._operators:
            if operator.stopped:
                continue
            for port, source in enumerate(operator.sources):
                operator.inboxes[port].extend(source.outbox)
                operator.stats.received(source.outbox)
                source.stats.taken(source.outbox)
                source.outbox.clear()
                operator.complete[port] = operator.complete[port] or source.done
            operator.work()

    def _start(self, busy_after: bool) -> bool:
        """Start tasks while the budget lasts; whether any was.

        ``busy_after``: there is something for the consumer.
        """
        assert self._limits is not None
        budget = self._limits.store_bytes
        held = sum(o.held_bytes() for o in self._operators) + self.outside_bytes
        self.stats.peak_bytes = max(self.stats.peak_bytes, int(held))
        some = False
        for operator in reversed(self._operators):
            operator.over_budget = 0.0
            while operator.wants_to_start():
                expected = operator.expected_bytes()
                others_first = busy_after or operator.held_back or operator.running()
                if held + expected > budget and others_first:
                    operator.over_budget = held + expected - budget
                    break
                operator.start()
                held += expected
                some = True
            self._count_wait(operator)
            busy_after = busy_after or (operator.running() > 0 and not operator.held_back)
        return some

    def _count_wait(self, operator: Physical) -> None:
        """Count the time in which the budget is what the next task waits for."""
        if not operator.over_budget and operator.over_since is None:
            return
        now = time.monotonic()
        if operator.over_since is not None:
            operator.stats.unaffordable_s += now - operator.over_since
        operator.over_since = now if operator.over_budget else None


def execute(
    plan: Operator, context: DataContext, label: str = "Dataset", number: int | None = None
) -> tuple[Generator[Bundle, None, None], ExecutionStats]:
    """The plan's blocks, made as they are taken, and what is known of the execution."""
    executor = Executor(plan, context, label, number)
    return executor.run(), executor.stats


def blocks(bundles: Iterator[Bundle]) -> Iterator[pa.Table]:
    """The tables of bundles."""
    for bundle in bundles:
        yield bundle.cut(ray.get(bundle.ref))
