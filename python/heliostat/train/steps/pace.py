"""The search for slow ranks. Pure: no clock, no I/O.

In synchronous training all ranks take as long for a step, since the fast ones wait for the slow. What tells
them apart is a rank's **own** time: the step without what it waits for others. A rank is compared with the
median of the others' own times.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from heliostat.train.steps.messages import COMMUNICATION, PHASES, Beat, StepTimes

# Times are means over about so many seconds, and over no fewer steps.
WINDOW_S, MIN_STEPS = 15.0, 3
# Without an option to replace it, a rank is named that is so many times slower, for so long.
NAMED_FACTOR, NAMED_AFTER_S = 1.5, 30.0
# A rank that was slow is so until it has fallen this far back towards the others.
_RECOVERED = 0.5
# How often a rank is replaced: one that is slow again has samples or a machine that are.
MAX_REPLACEMENTS = 3


@dataclass
class _Rank:
    """The latest beats of one rank."""

    steps: int = 0
    beats: deque[tuple[float, Beat]] = field(default_factory=deque)
    # The last beat, and when it came.
    last: tuple[float, Beat] | None = None
    slow_since: float | None = None
    is_named: bool = False

    def forget(self) -> None:
        """Forget what was measured: another process has the rank now."""
        self.beats.clear()
        self.last = None
        self.steps, self.slow_since, self.is_named = 0, None, False


@dataclass(frozen=True)
class Slow:
    """A rank that is slower than the others.

    Attributes:
        text: One sentence for the user.
        replace: It is to be replaced.
    """

    rank: int
    text: str
    replace: bool


class Pace:
    """The steps of all ranks of one attempt."""

    def __init__(
        self,
        world_size: int,
        factor: float | None = None,
        after_s: float = NAMED_AFTER_S,
        replacements: dict[int, int] | None = None,
    ) -> None:
        """A rank that is ``factor`` times slower for ``after_s`` seconds is replaced.

        ``replacements``: how often each rank has been, in this attempt and those before.
        """
        self._ranks = [_Rank() for _ in range(world_size)]
        self._replaces = factor is not None
        self._factor = factor if factor is not None else NAMED_FACTOR
        self._after_s = after_s if factor is not None else NAMED_AFTER_S
        self._replacements = replacements if replacements is not None else {}
        # The last times that every rank has had, also of ranks that are being replaced.
        self._shown: dict[int, StepTimes] = {}

    def beat(self, rank: int, beat: Beat, now: float) -> None:
        """A rank tells of its steps."""
        mine = self._ranks[rank]
        mine.steps = beat.steps
        mine.last = now, beat
        if beat.count:
            mine.beats.append((now, beat))
        known = sum(told.count for _, told in mine.beats)
        while len(mine.beats) > 1 and now - mine.beats[1][0] > WINDOW_S:
            known -= mine.beats[0][1].count
            if known < MIN_STEPS:
                break
            mine.beats.popleft()
        times = self._of(rank)
        if times is not None:
            self._shown[rank] = times

    def grow(self, world_size: int) -> None:
        """Add ranks, up to so many."""
        self._ranks += [_Rank() for _ in range(len(self._ranks), world_size)]

    def forget(self, ranks: Iterable[int]) -> None:
        """These ranks are being replaced."""
        for rank in ranks:
            self._ranks[rank].forget()

    @property
    def steps(self) -> int:
        """Steps that all ranks have made together, as far as they have told."""
        return sum(rank.steps for rank in self._ranks)

    def times(self) -> list[StepTimes]:
        """The mean step of each rank of which one is known."""
        return [self._shown[rank] for rank in sorted(self._shown)]

    def look(self, now: float) -> Slow | None:
        """The rank that is to be named, or replaced, now; at most one.

        None while any rank has told of too few steps: after a replacement all are measured anew.
        """
        known = [self._of(rank) for rank in range(len(self._ranks))]
        times = [t for t in known if t is not None]
        if len(times) < max(2, len(known)):
            for rank in self._ranks:
                rank.slow_since = None
            return None
        for each in times:
            self._judge(each, compared(each, times), now)
        due = [
            t
            for t in times
            if (since := self._ranks[t.rank].slow_since) is not None and now - since > self._after_s
        ]
        if not due:
            return None
        slowest = max(due, key=lambda t: t.own)
        return self._due(slowest, compared(slowest, times))

    def standstill(self, now: float, after_s: float) -> tuple[list[int], list[int], float] | None:
        """Ranks that have waited for others for so long, those others, and the seconds of the first.

        None unless some wait and others do not. Who has stopped to tell does what it did last.
        """
        waits: dict[int, float] = {}
        others: list[int] = []
        for rank, mine in enumerate(self._ranks):
            if mine.last is None:
                return None
            at, beat = mine.last
            if beat.phase == COMMUNICATION:
                waits[rank] = beat.phase_s + now - at
            else:
                others.append(rank)
        longest = max(waits.values(), default=0.0)
        if not others or not waits or min(waits.values()) < after_s:
            return None
        return sorted(waits), others, longest

    def replaced(self, rank: int) -> None:
        """A rank that ``look`` has named is being replaced."""
        self._replacements[rank] = self._replacements.get(rank, 0) + 1
        for each in self._ranks:  # the others' times were those of waiting for it
            each.forget()

    def _judge(self, times: StepTimes, ratio: float, now: float) -> None:
        mine = self._ranks[times.rank]
        if ratio >= self._factor:
            if mine.slow_since is None:
                mine.slow_since = now
        elif ratio < 1 + (self._factor - 1) * _RECOVERED:
            mine.slow_since = None
            mine.is_named = False

    def _due(self, times: StepTimes, ratio: float) -> Slow | None:
        mine = self._ranks[times.rank]
        text = f"{described(times, ratio)}, for more than {self._after_s:g} s"
        replaced = self._replacements.get(times.rank, 0)
        if self._replaces and replaced < MAX_REPLACEMENTS:
            return Slow(times.rank, text, True)
        if mine.is_named:
            return None
        mine.is_named = True
        if self._replaces:
            text += (
                f". It was replaced {replaced} times and is not again: look at its samples "
                "and at its machine"
            )
        return Slow(times.rank, text, False)

    def _of(self, rank: int) -> StepTimes | None:
        mine = self._ranks[rank]
        count = sum(beat.count for _, beat in mine.beats)
        if count < MIN_STEPS:
            return None
        sums = [0.0] * len(PHASES)
        for _, beat in mine.beats:
            for phase, seconds in enumerate(beat.spent):
                sums[phase] += seconds
        return StepTimes(rank, mine.steps, tuple(s / count for s in sums))


def compared(times: StepTimes, all_times: list[StepTimes]) -> float:
    """The ratio of a rank's own time to the others' median; 1 where there are no others."""
    others = [t.own for t in all_times if t.rank != times.rank]
    median = statistics.median(others) if others else times.own
    return times.own / median if median > 0 else 1.0


def slowest(all_times: list[StepTimes]) -> StepTimes | None:
    """The rank with the longest steps of its own; None where there are not two to compare."""
    return max(all_times, key=lambda t: t.own) if len(all_times) > 1 else None


def described(times: StepTimes, ratio: float) -> str:
    """``rank 3 takes 210 ms of its own for a step (data 150 ms), 2.1 times ...``."""
    phase = times.longest
    return (
        f"rank {times.rank} takes {milliseconds(times.own)} of its own for a step (most of it "
        f"{PHASES[phase]}, {milliseconds(times.spent[phase])}), {ratio:.1f} times the median of the "
        "others"
    )


def sentence(all_times: list[StepTimes]) -> str:
    """Return a sentence about the slowest rank; "" where there is nothing to compare."""
    last = slowest(all_times)
    if last is None:
        return ""
    total = milliseconds(max(t.total for t in all_times))
    waits = milliseconds(min(t.spent[COMMUNICATION] for t in all_times))
    ratio = compared(last, all_times)
    text = described(last, ratio)
    if ratio < 1.1:
        text = f"the ranks are even: none takes more than {milliseconds(last.own)} of its own for a step"
    return f"{text}; steps take {total}, at least {waits} of it communication"


def milliseconds(seconds: float) -> str:
    """``2.4 ms`` or ``3.1 s``."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
