"""Looks after calls that do not complete: names who is missing, with stacks, and ends deadlocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import heliostat as ray
from heliostat.train.coordinator.attempt import (
    REPORT,
    Attempt,
    looks_blocked_in_collective,
    ranks_text,
)
from heliostat.train.coordinator.rendezvous import Round
from heliostat.train.coordinator.steps import StepMonitor
from heliostat.train.errors import MissingRankError
from heliostat.train.messages import Reply
from heliostat.train.settings import TrainSettings
from heliostat.train.worker.stack_reader import Place, stack_of
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_PERIOD_S = 0.25
# The driver hears of each rank's reports once in so many looks.
_LOOKS_A_TELL = 4
# How long a worker may take to send its stack. One that holds the interpreter lock cannot.
_STACK_S = 2.0
# ... and another process of its node, which may have to start, to take it then.
_OUTSIDE_S = 10.0
_NO_STACK = "(no answer: its process is alive, but its interpreter is busy or blocked)"


class Watch:
    """Watches one attempt. Costs nothing per report: it looks at open rounds now and then."""

    def __init__(
        self,
        attempt: Attempt,
        settings: TrainSettings,
        emit: Callable[[str, dict[str, Any]], None],
        complete: Callable[[Attempt, str, Round], Awaitable[None]],
        steps: StepMonitor,
    ) -> None:
        self._attempt = attempt
        self._settings = settings
        self._emit = emit
        self._complete = complete
        self._steps = steps
        self._telling: set[asyncio.Task[None]] = set()
        # The work done at the end of the training, and the time of the last progress.
        self._last: tuple[Any, float] = (None, 0.0)
        # Per rank: its beats when last looked at, and for how long they have been no more since.
        self._quiet: dict[int, tuple[int, float]] = {}
        self._looks = 0

    async def run(self) -> None:
        """Look until the attempt is over."""
        while not self._attempt.over:
            await asyncio.sleep(_PERIOD_S)
            self._look_for_silent_workers()
            self._steps.look(time.monotonic())
            self._looks += 1
            if self._looks % _LOOKS_A_TELL == 0:
                self.tell_reports()
            await self._look_for_standstill()
            await self._look_for_the_last()
            for kind, meeting in self._attempt.meetings.items():
                for round_ in list(meeting.rounds.values()):
                    missing = meeting.missing(round_)
                    if missing:
                        await self._look(kind, round_, missing)

    def tell_reports(self) -> None:
        """Have the driver know which ranks have reported, and when."""
        ranks, self._attempt.reported = self._attempt.reported, {}
        if ranks:
            self._emit("reported", {"attempt": self._attempt.number, "ranks": ranks})

    def _look_for_silent_workers(self) -> None:
        """Tell the driver of workers that hang as a whole: not even their control thread runs.

        Time counts by looks, not by the clock: a machine that slept or a coordinator that was held up
        says nothing of the workers.
        """
        settings = self._settings
        for rank, beats in self._attempt.beats.items():
            before, quiet_s = self._quiet.get(rank, (beats, 0.0))
            quiet_s = quiet_s + _PERIOD_S if beats == before else 0.0
            self._quiet[rank] = beats, quiet_s
            limit_s = settings.health_interval_s + settings.health_timeout_s
            if limit_s < quiet_s <= limit_s + _PERIOD_S:  # once
                task = asyncio.ensure_future(self._tell_silent(rank, quiet_s))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

    async def _tell_silent(self, rank: int, seconds: float) -> None:
        stacks = await self._from_outside([rank])
        self._emit("silent", {"rank": rank, "seconds": seconds, "stack": stacks.get(rank, "")})

    async def _look_for_standstill(self) -> None:
        """Name the ranks for which others wait in a collective operation, long before its time is over."""
        found = self._steps.standstill(time.monotonic(), self._settings.collective_warn_s)
        if found is None:
            return
        waiting, missing, seconds = found
        gone = self._attempt.meetings[REPORT].gone
        missing = [rank for rank in missing if rank not in gone]
        if not missing or self._is_open(waiting):
            return
        stacks = await self._stacks([*missing, *waiting])
        text = f"{ranks_text(missing).capitalize()} {'has' if len(missing) == 1 else 'have'} not joined "
        text += f"a collective operation in which {ranks_text(waiting)} "
        text += f"{'waits' if len(waiting) == 1 else 'wait'} for {seconds:.0f} s."
        self._emit("missing", {"ranks": missing, "text": text + _listed(stacks)})

    async def _look_for_the_last(self) -> None:
        """Name the ranks that do not return, though others have, and that make no steps or reports."""
        attempt, now = self._attempt, time.monotonic()
        absent = attempt.meetings[REPORT].gone
        last = [rank for rank in range(attempt.world_size) if rank not in absent]
        done = (frozenset(attempt.returned), attempt.next_report, self._steps.steps)
        if not last or not attempt.returned or done != self._last[0]:
            self._last = done, now
            return
        if now - self._last[1] < self._settings.collective_warn_s:
            return
        self._last = done, now
        stacks = await self._stacks(last)
        left = sorted(attempt.returned)
        text = (
            f"{ranks_text(last).capitalize()} {'has' if len(last) == 1 else 'have'} not returned "
        )
        text += f"from the training function, which {ranks_text(left)} left at least "
        text += f"{self._settings.collective_warn_s:g} s ago."
        self._emit("missing", {"ranks": last, "text": text + _listed(stacks)})

    def _is_open(self, waiting: list[int]) -> bool:
        """Whether some of them wait in a call to the coordinator, which is looked after by itself."""
        return any(rank in self._attempt.blocked for rank in waiting)

    async def _look(self, kind: str, round_: Round, missing: list[int]) -> None:
        attempt, settings = self._attempt, self._settings
        now = time.monotonic()
        age = now - round_.opened_at
        if age > _PERIOD_S and attempt.everyone_blocked():
            text = (
                "No rank can go on, since they wait for each other in different calls: "
                f"{attempt.describe_blocked()}. All ranks have to make the same calls in the same "
                "order."
            )
            self._fail(kind, round_, text, missing)
        elif age > settings.collective_timeout_s:
            stacks = await self._stacks(missing)
            self._fail(kind, round_, self._describe(kind, round_, missing, age, stacks), missing)
        elif now - round_.warned_at > settings.collective_warn_s:
            round_.warned_at = now
            stacks = await self._stacks(missing)
            text = self._describe(kind, round_, missing, age, stacks)
            self._emit("missing", {"ranks": missing, "text": text})
        elif kind == REPORT and now - round_.asked_at > settings.solo_report_s:
            await self._excuse_silent(round_, missing)

    async def _excuse_silent(self, round_: Round, missing: list[int]) -> None:
        """Release ranks that wait at a report for ranks which never report (Ray hangs here).

        The others wait in a collective operation for the reporting rank, so they will not come.
        """
        meeting = self._attempt.meetings[REPORT]
        if any(r in meeting.seen for r in missing):
            return
        for look in range(2):
            stacks = await self._stacks(missing)
            if not all(looks_blocked_in_collective(stacks[r]) for r in missing):
                round_.asked_at = time.monotonic()  # look again after a while
                return
            if look == 0:
                await asyncio.sleep(min(1.0, self._settings.solo_report_s))
        if not meeting.missing(round_):
            return
        text = (
            f"Only {ranks_text(sorted(round_.arrived))} called report(); "
            f"{ranks_text(missing)} {'waits' if len(missing) == 1 else 'wait'} in a collective operation "
            "and never did. From now on "
            "report() does not wait for them. Call report() on every rank (with checkpoint=None "
            "where there is none) to keep the ranks in step."
        )
        self._emit("excused", {"ranks": missing, "text": text})
        for done in meeting.excuse(missing):
            await self._complete(self._attempt, REPORT, done)

    async def explain_collective(
        self, rank: int, stack: str, seconds: float
    ) -> tuple[str, list[int]]:
        """Say who is missing in a collective operation that ``rank`` has waited in for too long.

        Returns the text, with the stack of every rank, and the ranks that are missing.
        """
        attempt = self._attempt
        attempt.timed_out[rank] = stack
        gone = attempt.meetings[REPORT].gone
        others = [r for r in range(attempt.world_size) if r not in gone and r != rank]
        stacks = {**await self._stacks(others), **attempt.timed_out}
        waiting = [
            r for r in stacks if r in attempt.timed_out or looks_blocked_in_collective(stacks[r])
        ]
        missing = sorted(r for r in stacks if r not in waiting)
        where = f"a collective operation within {seconds:g} s (TorchConfig(timeout_s=...))"
        if missing:
            text = f"{ranks_text(missing).capitalize()} did not join {where}; "
            text += (
                f"{ranks_text(sorted(waiting))} {'waits' if len(waiting) == 1 else 'wait'} there."
            )
        elif gone:
            text = f"{ranks_text(sorted(gone)).capitalize()} left the training function without joining "
            text += f"{where}."
        else:
            text = f"No rank could finish {where}: all wait, in different ones, or the network is gone."
        text += _listed({r: stacks[r] for r in sorted(stacks, key=lambda r: (r in waiting, r))})
        self._emit("missing", {"ranks": missing, "text": text, "failed": True})
        return text, missing

    async def _stacks(self, ranks: list[int]) -> dict[int, str]:
        attempt = self._attempt
        for rank in ranks:
            attempt.stacks.pop(rank, None)
            attempt.commands[rank].put_nowait("stack")
        deadline = time.monotonic() + _STACK_S
        while time.monotonic() < deadline and any(r not in attempt.stacks for r in ranks):
            await asyncio.sleep(0.02)
        silent = await self._from_outside([r for r in ranks if r not in attempt.stacks])
        return {r: attempt.stacks.get(r) or silent.get(r) or _NO_STACK for r in ranks}

    async def _from_outside(self, ranks: list[int]) -> dict[int, str]:
        """The stacks of ranks that do not answer, taken by other processes of their nodes."""
        places = self._attempt.places
        asked = [r for r in ranks if r in places]
        found = await asyncio.gather(*(_taken(places[r]) for r in asked))
        return {rank: text for rank, text in zip(asked, found, strict=True) if text}

    def _describe(
        self, kind: str, round_: Round, missing: list[int], age: float, stacks: dict[int, str]
    ) -> str:
        call = f"report() number {round_.index + 1}" if kind == REPORT else "a collective"
        there = ranks_text(sorted(round_.arrived))
        text = f"{ranks_text(missing).capitalize()} did not arrive at {call} after {age:.0f} s; "
        text += f"{there} {'waits' if len(round_.arrived) == 1 else 'wait'} there."
        return text + _listed(stacks)

    def _fail(self, kind: str, round_: Round, text: str, missing: list[int]) -> None:
        self._emit("missing", {"ranks": missing, "text": text, "failed": True})
        self._attempt.settle(kind, round_, Reply(error=MissingRankError(text)))


def _listed(stacks: dict[int, str]) -> str:
    return "".join(
        f"\nWhat rank {rank} is doing:\n{stack.rstrip()}" for rank, stack in stacks.items()
    )


async def _taken(place: Place) -> str:
    """A stack from outside; "" where it cannot be had in time."""
    there = NodeAffinitySchedulingStrategy(place.node_id, soft=False)
    ref = ray.remote(stack_of).options(num_cpus=0, scheduling_strategy=there).remote(place)
    try:
        return await asyncio.wait_for(_text(ref), _OUTSIDE_S)
    except (asyncio.TimeoutError, ray.exceptions.RayError):
        return ""


async def _text(ref: Any) -> str:
    found: str = await ref
    return found
