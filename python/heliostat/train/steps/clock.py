"""The clock of a rank: what its training function does, step by step.

The function is in exactly one phase at any time. What marks the phases (data loaders, the backward pass,
optimizers, ``report``) calls ``enter``; a step ends where the next batch is asked for, or, in a loop that
asks for none, after the optimizer's step; without an optimizer, after a report.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from heliostat.train.steps.messages import DATA, FORWARD, OPTIMIZER, PHASES, REPORT, Beat

T = TypeVar("T")

# Steps that wait for the next beat; older ones are not told.
_MAX_DONE = 4096
# Steps whose moments a device has not come to yet.
_MAX_OPEN = 64
# Phases of one step, such as those of micro-batches; of a longer one only the end counts.
_MAX_MARKS = 65_536


class Moments(Protocol):
    """Marks points in time, on the host or on a device that runs behind it."""

    def now(self) -> Any:
        """Return a mark of the point in time at which all work that was begun so far is done."""

    def has_come(self, moment: Any) -> bool:
        """Return whether that point in time has been reached."""

    def seconds(self, first: Any, second: Any) -> float:
        """Return the seconds between two marks that have been reached."""


class HostMoments:
    """Points in time as the host's clock tells them."""

    now = staticmethod(time.perf_counter)

    def has_come(self, moment: float) -> bool:
        """Return True: the host is never ahead of its own clock."""
        return True

    def seconds(self, first: float, second: float) -> float:
        """Return the seconds between two marks."""
        return second - first


class StepClock:
    """Step times of an attempt; written by the training function's thread, read by the control thread."""

    def __init__(self, moments: Moments | None = None) -> None:
        self.moments: Moments = moments or HostMoments()
        self._thread = threading.get_ident()
        self._phase = FORWARD
        self._since = time.monotonic()
        # When each phase of the open step began.
        self._marks: list[tuple[int, Any]] = [(FORWARD, self.moments.now())]
        self._open: deque[list[tuple[int, Any]]] = deque()
        self._done: deque[tuple[float, ...]] = deque(maxlen=_MAX_DONE)
        self._steps = 0
        self._has_data = self._has_optimizer = False
        # Whether the optimizer has stepped since the open step began.
        self._is_stepped = False

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is that of the training function."""
        return threading.get_ident() == self._thread

    @property
    def phase(self) -> int:
        """The number of the phase that the function is in."""
        return self._phase

    def use(self, moments: Moments) -> None:
        """Take moments from elsewhere, from the next step on."""
        self.moments = moments
        self._marks, self._open = [(self._phase, moments.now())], deque()

    # ---- the training function ----

    def enter(self, phase: int) -> int:
        """From now on the function does ``phase``; returns what it did."""
        before, self._phase, self._since = self._phase, phase, time.monotonic()
        if len(self._marks) >= _MAX_MARKS:
            self._marks.clear()
        self._marks.append((phase, self.moments.now()))
        return before

    @contextlib.contextmanager
    def within(self, phase: int) -> Iterator[None]:
        """``phase`` goes on as long as the block; nothing in other threads."""
        if not self.is_mine:
            yield
            return
        before = self.enter(phase)
        try:
            yield
        finally:
            self.enter(before)

    def batch_wanted(self) -> int:
        """The next batch is asked for; returns what the function did."""
        self._has_data = True
        if self._is_stepped:
            self._end_step()
        return self.enter(DATA)

    def optimizer_begins(self) -> None:
        """The optimizer takes a step."""
        self._has_optimizer = True
        self.enter(OPTIMIZER)

    def optimizer_ended(self) -> None:
        """Note that the optimizer has stepped: this ends the step unless the next batch does."""
        self._is_stepped = True
        self.enter(FORWARD)
        if not self._has_data:
            self._end_step()

    def reported(self) -> None:
        """A report is done; it ends the step of a function that steps no optimizer here."""
        if self.is_mine and not self._has_optimizer:
            self._end_step()

    def _end_step(self) -> None:
        now = self.moments.now()
        self._marks.append((self._phase, now))
        if len(self._open) < _MAX_OPEN:
            self._open.append(self._marks)
        self._marks = [(self._phase, now)]
        self._is_stepped = False
        self._steps += 1
        while self._open and self.moments.has_come(self._open[0][-1][1]):
            self._done.append(self._measured(self._open.popleft()))

    def _measured(self, marks: list[tuple[int, Any]]) -> tuple[float, ...]:
        spent = [0.0] * len(PHASES)
        seconds = self.moments.seconds
        phase, begun = marks[0]
        for following, moment in marks[1:]:
            spent[phase] += seconds(begun, moment)
            phase, begun = following, moment
        return tuple(spent)

    # ---- the control thread ----

    def beat(self) -> Beat:
        """Return the counts and times since the last beat."""
        now = time.monotonic()
        spent, count = [0.0] * len(PHASES), 0
        with contextlib.suppress(IndexError):
            while True:
                step = self._done.popleft()
                count += 1
                for phase, seconds in enumerate(step):
                    spent[phase] += seconds
        return Beat(self._steps, self._phase, now - self._since, count, tuple(spent))


_current: StepClock | None = None


def set_clock(clock: StepClock | None) -> None:
    """Make ``clock`` the one of this process."""
    global _current
    _current = clock


def current_clock() -> StepClock | None:
    """The clock of the training function that runs in this process."""
    return _current


def fetch(batches: T, following: Callable[[T], Any]) -> Any:
    """The next batch, for which the training function waits."""
    clock = _current
    if clock is None or not clock.is_mine or clock.phase == DATA:
        return following(batches)
    before = clock.batch_wanted()
    try:
        return following(batches)
    finally:
        clock.enter(before)


class Fetched:
    """The batches of another iterator, with the time that the training function waits for them."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return fetch(self._batches, next)


@contextlib.contextmanager
def reporting() -> Iterator[None]:
    """The training function reports within the block."""
    clock = _current
    if clock is None:
        yield
        return
    with clock.within(REPORT):
        yield
    clock.reported()
