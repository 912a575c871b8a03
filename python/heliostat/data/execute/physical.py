"""The operators that the loop of an execution drives: each has an inbox and an outbox."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from heliostat.data.execute.stats import OperatorStats
from heliostat.data.plan.operators import Bundle

if TYPE_CHECKING:
    from heliostat.data.aliases import Waitable


class Physical:
    """An operator at work. Nothing here waits: the loop does, for all of them."""

    cpus: float = 1.0  # of each of its tasks
    gpus: float = 0.0
    memory: float = 0.0  # bytes that each of its tasks asks for
    counts_inbox = True  # whether blocks that wait in it are part of the memory budget

    def __init__(self, name: str, sources: list[Physical]) -> None:
        self.name = name
        self.sources: list[Physical] = sources
        self.stats = OperatorStats(name)
        self.inboxes: list[deque[Bundle]] = [deque() for _ in sources]
        self.complete = [False for _ in sources]  # no more will come
        self.outbox: deque[Bundle] = deque()
        self.stopped = False  # nobody wants more
        self.held_back = False  # the blocks of others are wanted first: no task beyond the budget
        self.over_budget = 0.0  # bytes by which its next task would be, when that was last asked
        self.over_since: float | None = None  # when that began, by `time.monotonic()`

    @property
    def inputs_done(self) -> bool:
        """Whether all inputs have come."""
        return all(self.complete)

    @property
    def done(self) -> bool:
        """Whether everything has been put out and taken."""
        return (self.stopped or self._finished()) and not self.outbox

    def _finished(self) -> bool:
        return self.inputs_done and not any(self.inboxes)

    # --- for the loop ---

    def prepare(self) -> None:
        """The execution begins."""

    def work(self) -> None:
        """Do what needs no task."""

    def wants_to_start(self) -> bool:
        """Whether a task could begin if the budget allows."""
        return False

    def start(self) -> None:
        """Begin a task."""

    def expected_bytes(self) -> float:
        """The bytes that the next task will likely put into the store."""
        return 0.0

    def waiting(self) -> list[Waitable]:
        """Refs and generators whose readiness means news for this operator."""
        return []

    def on_ready(self, waitable: Waitable) -> None:
        """Called when a reference of the operator is ready."""

    def running(self) -> int:
        """Tasks at work."""
        return 0

    def unsorted(self) -> tuple[int, int]:
        """(blocks, bytes) that it has made and that others have to come before."""
        return 0, 0

    def input_bytes(self) -> float:
        """Bytes of the blocks that its running tasks work on."""
        return 0.0

    def held_bytes(self) -> float:
        """Bytes of blocks that exist, or soon will, because of this operator."""
        inboxes = sum(b.cost for q in self.inboxes for b in q) if self.counts_inbox else 0
        return inboxes + sum(b.cost for b in self.outbox)

    def backlog(self) -> tuple[int, int]:
        """(blocks, bytes) that wait for it, or for whoever is next."""
        waiting = [*(b for inbox in self.inboxes for b in inbox), *self.outbox]
        return len(waiting), sum(b.size for b in waiting)

    def waits_for(self) -> str:
        """Return the reason why it waits, as the rest of a sentence about it."""
        open_ = [s.name for s, c in zip(self.sources, self.complete, strict=True) if not c]
        if open_:
            return f"waits for blocks of {' and of '.join(open_)}"
        return "waits for its consumer" if self.outbox else "has nothing to wait for"

    def stop(self) -> None:
        """Stop, because no more is wanted: let go of everything."""
        self.stopped = True
        for inbox in self.inboxes:
            inbox.clear()

    def close(self) -> None:
        """The execution is over."""


class InputOperator(Physical):
    """Blocks that are there already."""

    def __init__(self, bundles: tuple[Bundle, ...]) -> None:
        super().__init__("Input", [])
        self.outbox.extend(replace(bundle, given=True) for bundle in bundles)


class LimitOperator(Physical):
    """Passes the first rows on, then says that no more are wanted."""

    def __init__(self, name: str, source: Physical, rows: int) -> None:
        super().__init__(name, [source])
        self._left = rows

    def work(self) -> None:
        """Pass blocks on."""
        inbox = self.inboxes[0]
        while inbox and self._left > 0:
            bundle = inbox.popleft()
            if bundle.rows > self._left:
                bundle = bundle.slice(0, self._left)
            self._left -= bundle.rows
            self.outbox.append(bundle)
        if self._left <= 0:
            inbox.clear()
            self.complete[0] = True
            stop_all(self.sources)


class UnionOperator(Physical):
    """The blocks of its sources, one source after the other."""

    def __init__(self, sources: list[Physical]) -> None:
        super().__init__("Union", sources)

    def work(self) -> None:
        """Pass on what is next in order."""
        for number, (inbox, complete) in enumerate(zip(self.inboxes, self.complete, strict=True)):
            self.outbox.extend(inbox)
            inbox.clear()
            if not complete:
                want_first(self.sources, number)
                return


class MixOperator(Physical):
    """The blocks of its sources by turns: next is the source whose rows are the furthest behind.

    It waits for that one although others have blocks, so that the order does not depend on time.
    """

    def __init__(
        self, sources: list[Physical], weights: tuple[float, ...], ends_with_shortest: bool
    ) -> None:
        super().__init__("Mix", sources)
        self._shares = [weight / sum(weights) for weight in weights]
        self._rows = [0] * len(sources)
        self._ends_with_shortest = ends_with_shortest

    def work(self) -> None:
        """Pass on what is next in order."""
        while left := [
            i for i in range(len(self.sources)) if self.inboxes[i] or not self.complete[i]
        ]:
            if self._ends_with_shortest and len(left) < len(self.sources):
                break
            total = sum(self._rows)
            behind = {i: self._shares[i] * total - self._rows[i] for i in left}
            following = max(left, key=lambda i: (behind[i], self._shares[i], -i))
            if not self.inboxes[following]:
                want_first(self.sources, following)
                return
            bundle = self.inboxes[following].popleft()
            self._rows[following] += bundle.rows
            self.outbox.append(bundle)
        if left:
            for inbox in self.inboxes:
                inbox.clear()
            self.complete = [True for _ in self.complete]
            stop_all(self.sources)


def want_first(sources: list[Physical], number: int) -> None:
    """Have the blocks of one of these come before those of the others."""
    for i, source in enumerate(sources):
        _hold_back(source, i != number)


def _hold_back(operator: Physical, held_back: bool) -> None:
    if operator.held_back != held_back:
        operator.held_back = held_back
        for source in operator.sources:
            _hold_back(source, held_back)


def stop_all(operators: list[Physical]) -> None:
    """Stop these and everything before them."""
    for operator in operators:
        if not operator.stopped:
            operator.outbox.clear()
            operator.stop()
            stop_all(operator.sources)
