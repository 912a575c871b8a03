"""The quorum of replica groups: its members, newcomers, and steps in which a member dies. Pure.

Invariant **TRAIN-QUORUM-1**: a round is complete for every living member or for none. A member counts
a round as complete when all members of its quorum have voted, and a vote is given only by who holds
the whole average. When a quorum breaks, every living member first gives it up (from then on it
counts nothing more in it) and says how far it has come. If one has counted the round, all hold its
average, and it is complete; if none has, all make it anew in the next quorum, without the dead.

Groups are let in at an edge only: when all members stand between the same two steps.
"""

from __future__ import annotations

from heliostat.train.replicas.messages import (
    Abort,
    Action,
    Admission,
    Admit,
    Announce,
    Arrival,
    Dissolve,
    End,
    Form,
    Formation,
    Join,
    Progress,
    Refuse,
    Waiting,
)


class Quorum:
    """The decisions of one attempt. Each method takes an event and returns what is to be done."""

    def __init__(self, groups: int, size: int, least: int, is_elastic: bool = False) -> None:
        self._size = size
        self._least = least
        self._incarnations = [0] * groups
        self._waiting: dict[int, Waiting] = {}
        self._members: set[int] = set()
        self._addresses: dict[int, object] = {}
        # Groups that have been lost and are not in again.
        self._lost: set[int] = set()
        # Groups that came when the others trained already, and have not been in yet.
        self._opened: set[int] = set()
        self._arrivals: dict[int, Arrival] = {}
        self._finished: dict[int, Progress] = {}
        # While a quorum that broke is given up: who has answered, and what.
        self._answers: dict[int, Progress] | None = None
        # At the end nobody waits for groups that are being replaced; an elastic run goes on without any.
        self._given_up = is_elastic
        self._over = False
        self.number = 0
        # The signature of the model, by shard.
        self._signatures: dict[int, tuple[int, Join]] = {}

    # ---- what can be asked ----

    @property
    def members(self) -> tuple[int, ...]:
        """The groups of the quorum."""
        return tuple(sorted(self._members))

    @property
    def is_settling(self) -> bool:
        """Whether a quorum is being given up."""
        return self._answers is not None

    @property
    def is_finishing(self) -> bool:
        """Whether some function has made all of its steps: nobody is let in any more."""
        return bool(self._finished)

    @property
    def waits_for_replacements(self) -> bool:
        """Whether all members are through, and wait for groups that are being replaced."""
        return self._is_gathered() and bool(self._missing_at_the_end())

    def incarnation(self, rank: int) -> int:
        """The number of times that the group of ``rank`` has been lost."""
        return self._incarnations[rank // self._size]

    def is_member(self, rank: int) -> bool:
        """Whether ``rank`` is in the quorum."""
        return rank // self._size in self._members

    def ranks(self, group: int) -> range:
        """The ranks of a group."""
        return range(group * self._size, (group + 1) * self._size)

    # ---- events ----

    def join(self, rank: int, incarnation: int, join: Join) -> list[Action]:
        """``rank`` wants to be let in."""
        group = rank // self._size
        if self._over or self._finished or self._is_stale(rank, incarnation):
            return [End(rank)]
        shard = rank % self._size
        first, other = self._signatures.setdefault(shard, (rank, join))
        difference = _difference(other, first, join, rank)
        if difference:
            return [Refuse(rank, difference)]
        waiting = self._waiting.setdefault(group, Waiting())
        waiting.ranks[rank] = join
        if len(waiting.ranks) < self._size:
            return []
        if not self._members:
            return self._start()
        actions: list[Action] = [Announce(r, self.number) for r in self._living()]
        return actions + self._gather()

    def opened(self, group: int) -> None:
        """Add a group, the next by number: it is let in when its ranks ask, and not awaited."""
        assert group == len(self._incarnations)
        self._incarnations.append(0)
        self._opened.add(group)

    def lost(self, group: int) -> list[Action]:
        """The workers of ``group`` are gone; others take their place with the next incarnation."""
        if self._over:
            return []
        self._incarnations[group] += 1
        self._lost.add(group)
        self._waiting.pop(group, None)
        for rank in self.ranks(group):
            self._arrivals.pop(rank, None)
            self._addresses.pop(rank, None)
        if group not in self._members:
            return self._gather() if self._members else self._start()
        self._members.discard(group)
        if not self._members:
            return self._dissolve("no replica group is left that holds the state")
        if len(self._members) < self._least:
            return self._dissolve(
                f"{len(self._members)} replica groups are left, and min_replicas={self._least}"
            )
        if self._answers is not None:
            for rank in self.ranks(group):
                self._answers.pop(rank, None)
            return self._settle()
        return self._give_up()

    def failed(self, rank: int, incarnation: int, quorum: int) -> list[Action]:
        """``rank`` cannot reach some member of ``quorum``."""
        if self._is_stale(rank, incarnation) or not self.is_member(rank):
            return []
        if quorum != self.number or self._answers is not None:
            return []
        return self._give_up()

    def answer(self, rank: int, incarnation: int, quorum: int, progress: Progress) -> list[Action]:
        """``rank`` has given ``quorum`` up."""
        if self._is_stale(rank, incarnation) or not self.is_member(rank):
            return []
        if quorum != self.number or self._answers is None:
            return []
        self._answers[rank] = progress
        return self._settle()

    def edge(self, rank: int, incarnation: int, arrival: Arrival) -> list[Action]:
        """``rank`` stands between two steps, and waits for the others."""
        if self._over or self._is_stale(rank, incarnation) or not self.is_member(rank):
            return [End(rank)]
        self._arrivals[rank] = arrival
        return self._gather()

    def finish(self, rank: int, incarnation: int, progress: Progress) -> list[Action]:
        """The training function of ``rank`` has returned: nobody is let in any more."""
        if self._is_stale(rank, incarnation) or not self.is_member(rank):
            return []
        self._finished[rank] = progress
        waiting = [r for w in self._waiting.values() for r in w.ranks]
        self._waiting.clear()
        actions: list[Action] = [End(r) for r in waiting]
        return actions + (self._settle() if self._answers is not None else self._gather())

    def give_up_waiting(self) -> list[Action]:
        """Groups that are being replaced are not waited for at the end any longer."""
        self._given_up = True
        return self._gather()

    # ---- the beginning ----

    def _start(self) -> list[Action]:
        """Form the first quorum when everybody is there who still can be."""
        there = self._complete()
        away = self._lost | self._opened
        expected = [
            g for g in range(len(self._incarnations)) if g not in away or g in self._waiting
        ]
        if self._over or self.number or not there or len(there) < len(expected):
            return []
        if len(there) < self._least:
            return []
        donor = min(there)
        self._take_in(there)
        newcomers = tuple(g for g in sorted(there) if g != donor)
        self.number += 1
        return self._admit(Arrival(0), donor if newcomers else None, newcomers)

    def _complete(self) -> list[int]:
        return [g for g, w in self._waiting.items() if len(w.ranks) == self._size]

    def _take_in(self, groups: list[int]) -> None:
        for group in groups:
            for rank, join in self._waiting.pop(group).ranks.items():
                self._addresses[rank] = join.address
            self._members.add(group)
            self._lost.discard(group)
            self._opened.discard(group)

    def _admit(self, at: Arrival, donor: int | None, newcomers: tuple[int, ...]) -> list[Action]:
        admission = Admission(
            self.number,
            self.members,
            dict(self._addresses),
            at.step,
            at.round,
            donor,
            newcomers,
            at.counts,
        )
        return [Admit(rank, admission) for rank in self._living()]

    # ---- a quorum that breaks ----

    def _give_up(self) -> list[Action]:
        self._answers = {}
        aborts: list[Action] = [Abort(rank, self.number) for rank in self._living()]
        return aborts + self._settle()

    def _settle(self) -> list[Action]:
        """Form the next quorum when everybody has answered."""
        assert self._answers is not None
        if self._over or any(rank not in self._answers for rank in self._living()):
            return []
        # A group that has finished has seen the last round complete, whatever became of it since.
        known = [*self._answers.values(), *self._finished.values()]
        progress = max(known, key=lambda p: (p.round, p.vote is not None), default=Progress(0))
        self._answers = None
        self.number += 1
        groups = tuple(
            g for g in self.members if not any(r in self._finished for r in self.ranks(g))
        )
        ranks = [r for g in groups for r in self.ranks(g)]
        addresses = {r: self._addresses[r] for r in ranks}
        formation = Formation(self.number, groups, addresses, progress, bool(self._complete()))
        forms: list[Action] = [Form(rank, formation) for rank in self._living()]
        return forms + self._gather()

    # ---- the edge ----

    def _gather(self) -> list[Action]:
        """Answer those at the edge when all members are there."""
        if not self._is_gathered():
            return []
        arrivals = list(self._arrivals.values())
        if len({a.step for a in arrivals}) > 1:
            return self._refuse_all()
        if self._missing_at_the_end():
            return []
        newcomers = self._complete()
        donor = min(self._members)
        self._take_in(newcomers)
        if newcomers or not arrivals[0].last:
            # Also where nobody is let in after all: who waited has announced itself for this number.
            self.number += 1
        first = arrivals[0]
        at = Arrival(first.step, first.round, max(a.counts for a in arrivals))
        self._arrivals.clear()
        return self._admit(at, donor if newcomers else None, tuple(sorted(newcomers)))

    def _is_gathered(self) -> bool:
        living = self._living()
        if self._over or self._answers is not None or not living:
            return False
        return all(rank in self._arrivals for rank in living)

    def _missing_at_the_end(self) -> list[int]:
        """Groups that are being replaced, when all members are through and wait for them."""
        if self._given_up or self._finished or not all(a.last for a in self._arrivals.values()):
            return []
        there = self._complete()
        return [g for g in self._lost - self._opened if g not in there]

    def _refuse_all(self) -> list[Action]:
        steps: dict[int, list[int]] = {}
        for rank, arrival in sorted(self._arrivals.items()):
            steps.setdefault(arrival.step, []).append(rank)
        where = "; ".join(f"ranks {ranks} at step {step}" for step, ranks in sorted(steps.items()))
        ranks = list(self._arrivals)
        self._arrivals.clear()
        return [
            Refuse(
                rank,
                f"The ranks are at different steps: {where}. All of them have to take the "
                "same steps in the same order.",
            )
            for rank in ranks
        ]

    # ---- inside ----

    def _living(self) -> list[int]:
        """The ranks of the quorum whose functions run."""
        return [r for g in sorted(self._members) for r in self.ranks(g) if r not in self._finished]

    def _is_stale(self, rank: int, incarnation: int) -> bool:
        return incarnation != self._incarnations[rank // self._size]

    def _dissolve(self, text: str) -> list[Action]:
        self._over = True
        waiting = [r for w in self._waiting.values() for r in w.ranks]
        ends: list[Action] = [End(r) for r in [*waiting, *self._arrivals]]
        return [Dissolve(text), *ends]


def _difference(one: Join, one_rank: int, other: Join, other_rank: int) -> str:
    """The first parameter in which two models differ, in words; empty when there is none."""
    for (name, shape, kind), (name2, shape2, kind2) in zip(
        one.signature, other.signature, strict=False
    ):
        if (name, shape, kind) != (name2, shape2, kind2):
            return (
                f"The model of rank {other_rank} is not that of rank {one_rank}: the first parameter "
                f"that differs is {name2!r} with shape {list(shape2)} of {kind2}, where rank "
                f"{one_rank} has {name!r} with shape {list(shape)} of {kind}. Build the same model "
                "on every rank."
            )
    if len(one.signature) != len(other.signature):
        longer, rank = (
            (one, one_rank) if len(one.signature) > len(other.signature) else (other, other_rank)
        )
        name = longer.signature[min(len(one.signature), len(other.signature))][0]
        return (
            f"The models of ranks {one_rank} and {other_rank} differ: only rank {rank} has the "
            f"parameter {name!r}. Build the same model on every rank."
        )
    return ""
