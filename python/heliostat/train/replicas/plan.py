"""The samples of each step and the group that trains on them, so that none is lost or counted
twice. Pure.

Invariant **TRAIN-SAMPLES-1**: in an epoch every sample is in exactly one complete step (with
``drop_last``: but for a rest that is smaller than a batch). What a group was given that died within
the step was not counted; it is given out again with the next steps. All members hold the same plan, and
a newcomer gets it with the state.

Samples are named by their place in the order of the epoch; what lies there says the shuffling.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

# Places from the first up to but not including the last.
Span = tuple[int, int]


@dataclass
class SamplePlan:
    """The position of a run in its data.

    Attributes:
        total: Samples of an epoch.
        batch: Samples of a group in one step.
        groups: Groups of a whole quorum.
        keeps_batch: A step has ``batch * groups`` samples also while groups are missing.
        drop_last: Leave out the rest of an epoch that is smaller than a batch.
    """

    total: int
    batch: int
    groups: int
    keeps_batch: bool = False
    drop_last: bool = False
    epoch: int = 0
    position: int = 0
    owed: list[Span] = field(default_factory=list)

    def shares(self, groups: Sequence[int]) -> dict[int, list[Span]]:
        """Return the samples of each of ``groups`` in the next step; empty when the epoch is over."""
        full = self.batch * (self.groups if self.keeps_batch else len(groups))
        spans = _take([*self.owed, (self.position, self.total)], full)
        count = _count(spans)
        if not count or (self.drop_last and count < self.batch * len(groups)):
            return {}
        shares, rest = {}, spans
        for index, group in enumerate(sorted(groups)):
            shares[group] = _take(rest, -(-count // (len(groups) - index)) if count else 0)
            count -= _count(shares[group])
            rest = _skip(rest, _count(shares[group]))
        return shares

    def done(self, shares: dict[int, list[Span]], counted: Collection[int]) -> None:
        """End the step with these shares; only the groups in ``counted`` contributed to it."""
        given = sum(_count(spans) for spans in shares.values())
        before = _count(self.owed)
        self.owed = _skip(self.owed, min(given, before))
        self.position += max(0, given - before)
        self.owed += [s for g, spans in sorted(shares.items()) if g not in counted for s in spans]

    def next_epoch(self) -> None:
        """Begin anew."""
        self.epoch, self.position, self.owed = self.epoch + 1, 0, []

    def state_dict(self) -> dict[str, object]:
        """The plan's position."""
        return {"epoch": self.epoch, "position": self.position, "owed": list(self.owed)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Stand where another plan stood."""
        self.epoch = int(state["epoch"])
        self.position = int(state["position"])
        self.owed = [(a, b) for a, b in state["owed"]]


def places(spans: Sequence[Span]) -> list[int]:
    """All places of ``spans``."""
    return [place for first, last in spans for place in range(first, last)]


def part(spans: Sequence[Span], index: int, of: int) -> list[Span]:
    """The ``index``-th of ``of`` parts of about the same size."""
    count = _count(spans)
    first, last = count * index // of, count * (index + 1) // of
    return _take(_skip(spans, first), last - first)


def _count(spans: Sequence[Span]) -> int:
    return sum(last - first for first, last in spans)


def _take(spans: Sequence[Span], count: int) -> list[Span]:
    """The first ``count`` places."""
    taken = []
    for first, last in spans:
        if count <= 0:
            break
        if first < last:
            taken.append((first, min(last, first + count)))
            count -= last - first
    return taken


def _skip(spans: Sequence[Span], count: int) -> list[Span]:
    """All but the first ``count`` places."""
    rest = []
    for first, last in spans:
        if last - first > count:
            rest.append((first + count, last))
        count = max(0, count - (last - first))
    return rest
