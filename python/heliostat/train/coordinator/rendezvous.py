"""The ranks that have arrived at each call of an attempt. Pure: no clock, no I/O, no waiting.

Invariant **TRAIN-BARRIER-1**: a round completes as soon as every rank has arrived, has left its
training function, or is excused; whoever is missing can be named at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Round:
    """The n-th call of one kind by each rank."""

    index: int
    arrived: dict[int, Any] = field(default_factory=dict)
    opened_at: float = 0.0
    warned_at: float = 0.0
    # The time at which the missing ranks were last asked whether they will come.
    asked_at: float = 0.0


@dataclass
class Rendezvous:
    """The sequence of calls of one kind (reports, collectives) that all ranks make together."""

    world_size: int
    rounds: dict[int, Round] = field(default_factory=dict)
    # Ranks whose training function has returned: they count as arrived everywhere.
    gone: set[int] = field(default_factory=set)
    # Ranks that do not take part (they never report while others do).
    excused: set[int] = field(default_factory=set)
    # Ranks that have arrived at least once.
    seen: set[int] = field(default_factory=set)

    def grow(self, world_size: int) -> None:
        """Add ranks, up to so many; the new ones do not take part until they are let in."""
        self.gone.update(range(self.world_size, world_size))
        self.world_size = world_size

    def arrive(self, rank: int, index: int, payload: Any, now: float) -> Round:
        """Note that ``rank`` makes its call number ``index``; the round may be complete now.

        Raises:
            ValueError: The rank is already there, or does not exist.
        """
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is not in a group of {self.world_size}")
        round_ = self.rounds.get(index)
        if round_ is None:
            round_ = self.rounds[index] = Round(index, opened_at=now, warned_at=now, asked_at=now)
        if rank in round_.arrived:
            raise ValueError(f"rank {rank} arrived twice at call {index}")
        round_.arrived[rank] = payload
        self.seen.add(rank)
        return round_

    def missing(self, round_: Round) -> list[int]:
        """The ranks for which the round waits."""
        absent = self.gone | self.excused
        return [r for r in range(self.world_size) if r not in round_.arrived and r not in absent]

    def is_complete(self, round_: Round) -> bool:
        """Whether nobody is missing."""
        if len(round_.arrived) == self.world_size:
            return True
        return not self.missing(round_)

    def close(self, round_: Round) -> None:
        """Forget a round that has been dealt with."""
        self.rounds.pop(round_.index, None)

    def leave(self, *ranks: int) -> list[Round]:
        """``ranks`` will not come any more; returns the rounds that this completes."""
        self.gone.update(ranks)
        return self._completed()

    def withdraw(self, rank: int) -> None:
        """Forget what ``rank`` brought to rounds that are still open."""
        for round_ in self.rounds.values():
            round_.arrived.pop(rank, None)

    def excuse(self, ranks: Iterable[int]) -> list[Round]:
        """``ranks`` do not take part; returns the rounds that this completes."""
        self.excused.update(ranks)
        return self._completed()

    def _completed(self) -> list[Round]:
        open_rounds = sorted(self.rounds.values(), key=lambda r: r.index)
        return [r for r in open_rounds if r.arrived and self.is_complete(r)]
