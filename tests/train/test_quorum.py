"""Replica groups without processes: random histories of deaths and newcomers, with a judge.

The judge counts every step and every sample: what living members hold as complete is the same, each
sample of an epoch is in exactly one complete step, and once deaths stop everybody gets to the end.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from typing import Any

import pytest

pytest.importorskip("heliostat.train.replicas")

from heliostat.train.coordinator.replicas import QuorumService
from heliostat.train.replicas.member import Member
from heliostat.train.replicas.messages import (
    Abort,
    Admission,
    Admit,
    Announce,
    Arrival,
    Dissolve,
    End,
    Form,
    Join,
    Progress,
    Refuse,
    Vote,
)
from heliostat.train.replicas.plan import SamplePlan, part, places
from heliostat.train.replicas.quorum import Quorum


class Rank:
    """A worker: what it does next is the world's choice, what it may do is its own."""

    def __init__(self, world: World, rank: int, incarnation: int) -> None:
        self.world, self.rank, self.incarnation = world, rank, incarnation
        self.group = rank // world.size
        self.member = Member()
        self.plan = world.new_plan()
        self.groups: tuple[int, ...] = ()
        self.shares: dict[int, Any] = {}
        self.ring = 0
        self.state = "new"
        self.step = 0
        self.log: list[tuple[int, frozenset[int], tuple[tuple[int, tuple[int, ...]], ...]]] = []
        self.inbox: deque[Any] = deque()
        self.admission: Admission | None = None
        self.over = False

    def moves(self) -> list[str]:
        """What this rank can do now."""
        moves = ["hear"] if self.inbox else []
        world, member = self.world, self.member
        can_go = {
            "admitted": self.has_state,
            "average": lambda: member.is_open or member.quorum > self.ring,
            "settling": lambda: member.is_open and member.quorum > self.ring,
        }
        if self.state in ("new", "step", "edge", "last") or can_go.get(self.state, bool)():
            moves.append("go")
        elif self.state == "voted":
            if world.all_voted(self):
                moves.append("counted")
            if world.is_broken(self) or not member.is_open or member.quorum != self.ring:
                moves.append("broken")
        return moves

    def has_state(self) -> bool:
        assert self.admission is not None
        if self.group not in self.admission.newcomers:
            return True
        key = (self.admission.quorum, self.rank % self.world.size)
        return key in self.world.states or self.donor_is_gone()

    def donor_is_gone(self) -> bool:
        assert self.admission is not None
        assert self.admission.donor is not None
        donor = self.world.ranks[self.admission.donor * self.world.size]
        return (self.admission.quorum, self.rank % self.world.size) not in self.world.states and (
            donor.incarnation != self.world.at_admission[self.admission.quorum, donor.rank]
            or donor.over
        )

    def do(self, move: str) -> None:
        if move == "hear":
            self.hear(self.inbox.popleft())
        elif move == "counted":
            vote = self.world.vote(self)
            if self.member.complete(self.ring, vote):
                self.round_done(vote)
            else:
                self.state = "settling"
        elif move == "broken":
            self.world.tell("failed", self, self.ring)
            self.state = "settling"
        else:
            getattr(self, f"in_{self.state}")()

    def hear(self, message: Any) -> None:
        if isinstance(message, Abort):
            progress = self.member.abort(message.quorum)
            self.world.cut.add((message.quorum, self.rank))
            if progress is not None:
                self.world.tell("answer", self, message.quorum, progress)
        elif isinstance(message, Form):
            self.member.form(message.formation)
        elif isinstance(message, Announce):
            self.member.announce(message.quorum)
        elif isinstance(message, Admit):
            assert self.state in ("joining", "waiting")
            self.admission = message.admission
            self.member.admit(message.admission, self.group in message.admission.newcomers)
            self.state = "admitted"
        elif isinstance(message, End):
            # The training is over without it, or it unwinds and is started again.
            if any(r.state == "finished" for r in self.world.ranks.values()):
                self.state = "unneeded"
            else:
                self.over = True
        elif isinstance(message, Refuse):
            raise AssertionError(message.text)

    # ---- the states ----

    def in_new(self) -> None:
        self.world.tell("join", self, Join((("w", (1,), "float"),), f"at {self.rank}"))
        self.state = "joining"

    def in_admitted(self) -> None:
        admission = self.admission
        assert admission is not None
        key = (admission.quorum, self.rank % self.world.size)
        if self.group in admission.newcomers:
            if self.donor_is_gone():
                self.over = True  # it unwinds, and is started again
                return
            plan, log, step = self.world.states[key]
            self.plan.load_state_dict(plan)
            self.log, self.step = list(log), step
        elif admission.donor == self.group:
            self.world.states[key] = (self.plan.state_dict(), list(self.log), self.step)
        assert self.step == admission.step
        self.groups = admission.groups
        self.state = "step"

    def in_step(self) -> None:
        self.shares = self.plan.shares(self.groups)
        if not self.shares:
            if self.plan.epoch + 1 < self.world.epochs:
                self.plan.next_epoch()
                return
            self.state = "last"
            return
        self.state = "average"

    def in_average(self) -> None:
        if not self.member.is_open:
            return
        if self.group not in self.member.groups:
            self.world.fail(f"rank {self.rank} is left out of its own quorum")
        self.ring = self.member.quorum
        self.world.voted.setdefault((self.ring, self.member.progress.round + 1), {})[self.rank] = (
            self.member.is_awaited
        )
        self.state = "voted"

    def in_settling(self) -> None:
        vote = self.member.outcome(self.step + 1)
        if vote is None:
            self.state = "average"
        else:
            if self.rank not in self.world.voted.get((self.ring, vote.round), {}):
                self.world.fail("a round counts for a rank that does not hold its average")
            self.round_done(vote)

    def round_done(self, vote: Vote) -> None:
        counted = frozenset(g for g, w in vote.weights.items() if w)
        given = tuple((g, tuple(places(s))) for g, s in sorted(self.shares.items()) if g in counted)
        self.log.append((self.plan.epoch, counted, given))
        self.plan.done(self.shares, counted)
        self.step += 1
        assert self.step == vote.round
        self.groups = tuple(sorted(vote.weights))
        self.state = "edge" if vote.edge else "step"

    def in_edge(self) -> None:
        self.world.tell("edge", self, Arrival(self.step, self.member.progress.round))
        self.state = "waiting"

    def in_last(self) -> None:
        if self.world.through.get(self.rank) == self.incarnation:
            self.world.tell("finish", self, self.member.progress)
            self.state = "finished"
            return
        self.world.through[self.rank] = self.incarnation
        self.world.tell("edge", self, Arrival(self.step, self.member.progress.round, last=True))
        self.state = "waiting"


class World:
    """Ranks, the coordinator's quorum and a driver that replaces groups."""

    epochs = 2

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice([1, 1, 2])
        self.count = self.random.choice([2, 3, 4])
        self.kills = self.random.randint(0, 8)
        self.keeps = self.random.random() < 0.5
        self.total = self.random.randint(10, 90)
        self.batch = self.random.randint(1, 6)
        self.quorum = Quorum(self.count, self.size, 1)
        self.ranks = {r: Rank(self, r, 0) for r in range(self.count * self.size)}
        self.voted: dict[tuple[int, int], dict[int, bool]] = {}
        self.cut: set[tuple[int, int]] = set()
        self.states: dict[Any, Any] = {}
        self.at_admission: dict[tuple[int, int], int] = {}
        self.rings: dict[int, tuple[int, ...]] = {}
        self.through: dict[int, int] = {}
        self.dead: set[int] = set()
        self.to_coordinator: dict[int, deque[Any]] = {r: deque() for r in self.ranks}
        self.losses: list[int] = []
        self.broken: set[int] = set()
        self.dissolved = False
        self.history: list[str] = []

    def new_plan(self) -> SamplePlan:
        return SamplePlan(self.total, self.batch, self.count, self.keeps)

    def fail(self, text: str) -> None:
        raise AssertionError(text + "\n" + "\n".join(self.history[-60:]))

    def tell(self, event: str, rank: Rank, *what: Any) -> None:
        self.to_coordinator[rank.rank].append((event, rank.rank, rank.incarnation, what))

    def ring_of(self, rank: Rank) -> list[int]:
        return [r for g in self.rings[rank.ring] for r in range(g * self.size, (g + 1) * self.size)]

    def all_voted(self, rank: Rank) -> bool:
        votes = self.voted.get((rank.ring, rank.step + 1), {})
        # Bytes that are under way arrive even though their sender has died or given up.
        return all(r in votes for r in self.ring_of(rank))

    def is_broken(self, rank: Rank) -> bool:
        return any(
            r in self.dead or (rank.ring, r) in self.cut or r // self.size in self.broken
            for r in self.ring_of(rank)
        )

    def vote(self, rank: Rank) -> Vote:
        votes = self.voted[rank.ring, rank.step + 1]
        edge = any(votes.values())
        return Vote(rank.step + 1, edge, dict.fromkeys(self.rings[rank.ring], 1))

    def act(self, actions: list[Any]) -> None:
        for action in actions:
            self.history.append(f"    -> {action}")
            if isinstance(action, Dissolve):
                self.dissolved = True
                continue
            rank = self.ranks[action.rank]
            if isinstance(action, Admit):
                self.rings[action.admission.quorum] = action.admission.groups
                self.at_admission[action.admission.quorum, action.rank] = rank.incarnation
            if isinstance(action, Form):
                self.rings[action.formation.quorum] = action.formation.groups
            if action.rank not in self.dead and rank.incarnation == self.quorum.incarnation(
                action.rank
            ):
                rank.inbox.append(action)

    def kill(self, rank: int) -> None:
        self.history.append(f"rank {rank} dies")
        self.dead.add(rank)
        group = rank // self.size
        if group not in self.broken:
            self.broken.add(group)
            self.losses.append(group)

    def moves(self) -> list[tuple[Any, ...]]:
        moves: list[tuple[Any, ...]] = []
        for rank in self.ranks.values():
            if rank.rank in self.dead or rank.over:
                continue
            moves += [("rank", rank, move) for move in rank.moves()]
        moves += [("deliver", rank) for rank, queue in self.to_coordinator.items() if queue]
        moves += [("lose", group) for group in self.losses]
        return moves

    def run(self) -> None:
        for _ in range(60_000):
            if self.dissolved:
                return
            for rank in self.ranks.values():
                if rank.over and rank.rank not in self.dead and rank.state != "finished":
                    self.kill(rank.rank)
            moves = self.moves()
            finished = any(r.state == "finished" for r in self.ranks.values())
            alive = [
                r.rank
                for r in self.ranks.values()
                if r.rank not in self.dead and r.state != "finished"
            ]
            if self.kills and not finished and alive and self.random.random() < 0.01:
                self.kills -= 1
                self.kill(self.random.choice(alive))
                continue
            if not moves:
                break
            self.make(self.random.choice(moves))
            self.judge()
        else:
            self.fail("it does not end")
        for rank in self.ranks.values():
            if rank.state not in ("finished", "unneeded"):
                states = {r.rank: (r.state, r.member.quorum, r.step) for r in self.ranks.values()}
                self.fail(f"rank {rank.rank} is stuck: {states}")
        self.judge_the_end()

    def make(self, move: tuple[Any, ...]) -> None:
        if move[0] == "rank":
            _, rank, what = move
            self.history.append(f"rank {rank.rank}.{rank.incarnation} {rank.state}: {what}")
            rank.do(what)
        elif move[0] == "deliver":
            event, rank, incarnation, what = self.to_coordinator[move[1]].popleft()
            self.history.append(f"{event} of {rank}.{incarnation} {what}")
            self.act(getattr(self.quorum, event)(rank, incarnation, *what))
        else:
            group = move[1]
            self.losses.remove(group)
            self.history.append(f"group {group} is lost")
            self.act(self.quorum.lost(group))
            if self.dissolved:
                return
            self.broken.discard(group)
            for rank in range(group * self.size, (group + 1) * self.size):
                self.dead.discard(rank)
                self.ranks[rank] = Rank(self, rank, self.quorum.incarnation(rank))

    def judge(self) -> None:
        """Members agree on every step that both hold as complete."""
        logs = [r.log for r in self.ranks.values() if r.rank not in self.dead and r.log]
        longest = max(logs, key=len, default=[])
        for log in logs:
            if log and log[-1] != longest[len(log) - 1]:
                self.fail(f"step {len(log)} differs: {log[-1]} and {longest[len(log) - 1]}")

    def judge_the_end(self) -> None:
        log = max((r.log for r in self.ranks.values()), key=len)
        for rank in self.ranks.values():
            if rank.state == "finished" and rank.log != log:
                self.fail(f"rank {rank.rank} has another history")
        for epoch in range(self.epochs):
            counted = Counter(
                place
                for of, _, given in log
                if of == epoch
                for _, where in given
                for place in where
            )
            if counted != Counter(range(self.total)):
                wrong = {p: counted[p] for p in range(self.total) if counted[p] != 1}
                self.fail(f"samples of epoch {epoch} are not counted once: {wrong}")


@pytest.mark.parametrize("first", range(0, 1500, 250))
def test_every_step_and_sample_counts_once_whoever_dies(first: int) -> None:
    """TRAIN-QUORUM-1, TRAIN-SAMPLES-1."""
    for seed in range(first, first + 250):
        world = World(seed)
        try:
            world.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_shares_cover_a_batch() -> None:
    plan = SamplePlan(10, 3, 3)
    shares = plan.shares((0, 1, 2))
    assert shares == {0: [(0, 3)], 1: [(3, 6)], 2: [(6, 9)]}
    plan.done(shares, {0, 2})
    assert plan.owed == [(3, 6)]
    assert plan.shares((0, 2)) == {0: [(3, 5)], 2: [(5, 6), (9, 10)]}
    assert [part([(0, 5)], i, 2) for i in range(2)] == [[(0, 2)], [(2, 5)]]


def test_a_whole_batch_is_kept_while_groups_are_missing() -> None:
    plan = SamplePlan(100, 4, 4, keeps_batch=True)
    assert plan.shares((0, 3)) == {0: [(0, 8)], 3: [(8, 16)]}


def test_the_rest_of_an_epoch_may_be_dropped() -> None:
    plan = SamplePlan(10, 4, 2, drop_last=True)
    plan.done(plan.shares((0, 1)), {0, 1})
    assert plan.shares((0, 1)) == {}


def test_another_model_is_refused_by_its_first_parameter() -> None:
    quorum = Quorum(2, 1, 1)
    quorum.join(0, 0, Join((("a", (2,), "float"), ("b", (3,), "float"))))
    refused = quorum.join(1, 0, Join((("a", (2,), "float"), ("b", (4,), "float"))))
    assert isinstance(refused[0], Refuse)
    assert "'b' with shape [4]" in refused[0].text
    shorter = quorum.join(1, 0, Join((("a", (2,), "float"),)))
    assert isinstance(shorter[0], Refuse)
    assert "only rank 0 has the parameter 'b'" in shorter[0].text


def test_too_few_groups_dissolve() -> None:
    quorum = Quorum(3, 1, 2)
    for rank in range(3):
        quorum.join(rank, 0, Join())
    assert not any(isinstance(a, Dissolve) for a in quorum.lost(0))
    assert isinstance(quorum.lost(1)[0], Dissolve)


@pytest.mark.parametrize("is_elastic", [False, True])
def test_who_is_waited_for_at_the_end(is_elastic: bool) -> None:
    """A group that is being replaced, where the number of groups is fixed; one that never was in, nowhere."""
    quorum = Quorum(2, 1, 1, is_elastic)
    quorum.opened(2)
    for rank in range(2):
        quorum.join(rank, 0, Join())
    assert quorum.members == (0, 1)
    quorum.lost(1)
    quorum.answer(0, 0, 1, Progress(0))
    told = quorum.edge(0, 0, Arrival(1, last=True))
    assert quorum.waits_for_replacements is not is_elastic
    if not is_elastic:
        quorum.lost(2)
        told = quorum.join(1, 1, Join())
    assert [a.rank for a in told if isinstance(a, Admit)] == ([0] if is_elastic else [0, 1])


def test_a_group_that_comes_later_is_let_in_at_an_edge() -> None:
    quorum = Quorum(1, 1, 1)
    quorum.join(0, 0, Join())
    quorum.opened(1)
    assert quorum.join(1, 0, Join()) == [Announce(0, 1)]
    told = quorum.edge(0, 0, Arrival(3, round=3))
    admitted = {a.rank: a.admission for a in told if isinstance(a, Admit)}
    assert sorted(admitted) == [0, 1]
    assert (admitted[1].donor, admitted[1].newcomers, admitted[1].step) == (0, (1,), 3)


def test_who_votes_late_hears_what_became_of_the_round() -> None:
    quorum = Quorum(3, 1, 1)
    for rank in range(3):
        quorum.join(rank, 0, Join())
    vote = Vote(1, False, {0: 1, 1: 1, 2: 1})
    quorum.lost(2)
    quorum.answer(0, 0, 1, Progress(1, vote))
    forms = quorum.answer(1, 0, 1, Progress(0))
    assert [(f.rank, f.formation.progress) for f in forms if isinstance(f, Form)] == [
        (0, Progress(1, vote)),
        (1, Progress(1, vote)),
    ]


@pytest.mark.contract("F9.09")
@pytest.mark.parametrize(("lost", "taken"), [(0, None), (1, "state")])
def test_who_asks_late_for_the_state_of_a_donor_is_answered(lost: int, taken: str | None) -> None:
    """Group 0 gives its state; it, or another group, is lost before group 2 asks."""

    async def history() -> Any:
        service = QuorumService(3, 1, 1, lambda kind, data: None, lambda groups: None)
        joins = [service.join(rank, 0, Join((), None)) for rank in range(3)]
        admissions = await asyncio.gather(*joins)
        assert {(a.quorum, a.donor, a.newcomers) for a in admissions} == {(1, 0, (1, 2))}
        service.give(1, 0, "state")
        service.lost(lost)
        return await asyncio.wait_for(service.take(1, 2), 60)

    assert asyncio.run(history()) == taken
