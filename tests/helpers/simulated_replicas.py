"""Replica groups on a simulated cluster: what ``fault_tolerant`` and its rings do, as a model.

Each rank has the real ``Member`` and ``SamplePlan``, and speaks to the real coordinator; the votes of a round
arrive after random delays, also from a rank that has died since, and a broken ring is noticed or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heliostat.train.backend import Backend, BackendConfig, Replicas
from heliostat.train.config import FailureConfig
from heliostat.train.controller.failures import RankFailure
from heliostat.train.controller.run import TrainRun
from heliostat.train.coordinator.actor import TrainCoordinator
from heliostat.train.errors import AttemptEnded
from heliostat.train.messages import Assignment
from heliostat.train.replicas.member import Member
from heliostat.train.replicas.messages import (
    Abort,
    Admission,
    Announce,
    Arrival,
    Form,
    Formation,
    Join,
    Vote,
)
from heliostat.train.replicas.plan import places
from heliostat.train.steps.messages import COMMUNICATION, FORWARD, PHASES, Beat
from heliostat.train.steps.pace import WINDOW_S

from tests.helpers.simulated_ray import Actor, Gone, Handle, Node
from tests.helpers.simulated_run import History
from tests.helpers.simulated_training import EPOCHS, Function, Training, Worker

SIGNATURE = (("w", (1,), "float"),)

# A slow process takes so many times as long for its part of a step, and is to be replaced after so long.
SLOWNESS, SLOW_AFTER_S = 10.0, 0.3
# It has to be gone after so many steps of calm, and so many more for each second before it: the mean
# of its steps has to become long.
SLOW_STEPS, SLOW_STEPS_A_SECOND = 25, 12
# The driver knows of what was said of a node after this long; where it listens, after so long.
KNOWN_S, HEARD_S = 1.0, 0.02


@dataclass
class ReplicaConfig(BackendConfig):
    """So many workers hold one copy of the model."""

    size: int

    @property
    def backend_cls(self) -> type[Backend]:
        return _Backend


class _Backend(Backend):
    has_replica_groups = True

    def replicas(self, world_size: int, backend_config: Any) -> Replicas:
        return Replicas(backend_config.size, 1, "gloo", 30.0)


class Cut(Exception):
    """The ring of a quorum is broken."""


class Rings:
    """The averages of an attempt's quorums: a round is complete when all members have voted."""

    def __init__(self, world: History) -> None:
        self._world = world
        self._votes: dict[Any, dict[int, tuple[bool, int]]] = {}
        self._waiting: dict[Any, dict[int, asyncio.Future[Any]]] = {}

    async def vote(
        self, ring: tuple[int, int], round_: int, rank: int, members: int, vote: tuple[bool, int]
    ) -> dict[int, tuple[bool, int]]:
        """Wait for the votes of all. Raises Cut."""
        key = (*ring, round_)
        votes = self._votes.setdefault(key, {})
        mine = self._world.loop.create_future()
        self._waiting.setdefault(key, {})[rank] = mine
        # The message is under way also when its sender dies now.
        self._world.later(self._world.delay_s() * 3, lambda: self._arrive(key, rank, members, vote))
        found: dict[int, tuple[bool, int]] = await mine
        assert len(votes) == members
        return found

    def _arrive(self, key: Any, rank: int, members: int, vote: tuple[bool, int]) -> None:
        votes = self._votes[key]
        votes[rank] = vote
        if len(votes) == members:
            for future in self._waiting[key].values():
                self._world.later(self._world.delay_s() * 5, lambda f=future: _settle(f, votes))

    def give_up(self, ring: tuple[int, int], rank: int) -> None:
        """``rank`` leaves it: its own wait ends, and others notice, most of them."""
        for key, waiting in self._waiting.items():
            if key[:2] != ring:
                continue
            for other, future in waiting.items():
                if other == rank:
                    _settle(future, Cut("given up"))
                elif self._world.rng.random() < 0.7:
                    delay = self._world.delay_s() * 5
                    self._world.later(delay, lambda f=future: _settle(f, Cut("a peer is gone")))


def _settle(future: asyncio.Future[Any], found: Any) -> None:
    if future.done():
        return
    if isinstance(found, Exception):
        future.set_exception(found)
        future.exception()
    else:
        future.set_result(found)


class ReplicaFunction(Function):
    """A training function in a replica group."""

    world: ReplicaHistory

    def __init__(self, worker: Worker, assignment: Assignment, coordinator: Handle) -> None:
        super().__init__(worker, assignment, coordinator)
        assert assignment.seat is not None
        self.seat = assignment.seat
        self.me = (self.number, self.rank, self.seat.incarnation)
        self.incarnation = self.seat.incarnation
        self.member = Member()
        self.training = Training(self.world.new_plan(self.seat.groups))
        self.groups: tuple[int, ...] = ()
        self.made = 0  # steps of this attempt
        self.news = asyncio.Event()
        self.is_over = False
        self.broken = 0  # the last quorum whose ring has broken
        self.listener: asyncio.Task[None] | None = None
        # The rank's own time and its waits for others, of the steps since its last report.
        self.own_s, self.waited_s, self.counted = 0.0, 0.0, 0
        self.world.functions[self.rank] = self
        self.actor.on_end.append(self.leave_rings)

    # ---- messages to the rank ----

    async def listen(self) -> None:
        with contextlib.suppress(Gone):
            while True:
                found = await self.coordinator.replica_listen.remote(*self.me)
                if found is None:
                    break
                if self.world.rng.random() < self.world.hears_late:
                    await asyncio.sleep(self.world.delay_s() * 10)
                for message in found:
                    self.hear(message)
        self.is_over = True
        self.news.set()

    def hear(self, message: Any) -> None:
        if isinstance(message, Abort):
            progress = self.member.abort(message.quorum)
            if progress is not None:
                self.world.rings.give_up((self.number, message.quorum), self.rank)
                self.coordinator.replica_answer.remote(*self.me, message.quorum, progress)
        elif isinstance(message, Form):
            self.member.form(message.formation)
            self.judge_formation(message.formation)
        elif isinstance(message, Announce):
            self.member.announce(message.quorum)
        self.news.set()

    def judge_formation(self, formation: Formation) -> None:
        """TRAIN-QUORUM-1: what a member has counted, the quorum that is formed knows."""
        mine, known = self.member.progress.round, formation.progress.round
        if self.member.quorum == formation.quorum and mine != known:
            self.world.found(
                AssertionError(f"rank {self.rank} has counted round {mine}, its quorum {known}")
            )

    def beat(self) -> Beat:
        count, own_s, waited_s = self.counted, self.own_s, self.waited_s
        self.counted, self.own_s, self.waited_s = 0, 0.0, 0.0
        spent = [0.0] * len(PHASES)
        if count:
            spent[FORWARD], spent[COMMUNICATION] = own_s, waited_s
        else:  # the step goes on
            self.own_s, self.waited_s = own_s, waited_s
        return Beat(self.made, FORWARD, 0.0, count, tuple(spent))

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self.is_over:
                raise AttemptEnded("the attempt is over")
            self.news.clear()
            await self.news.wait()

    # ---- the function ----

    async def run(self) -> None:
        world = self.world
        await self.enter()
        name = self.to.checkpoint
        if name is not None:
            self.to.storage.faults.strike(False)
            found = world.whole(world.parts_of(name))
            self.training = Training(replace(found.plan, groups=self.seat.groups), found.ledger)
        if not self.incarnation and self.seat.group < world.first_groups:
            where = f"storage, {name}" if name is not None else ""
            world.restored(self.number, self.training, where)
        self.listener = self.actor.spawn(self.listen())
        join = Join(SIGNATURE, f"at {self.rank}")
        await self.take_place(await self.ask("replica_join", join))
        while True:
            plan = self.training.plan
            shares = plan.shares(self.groups)
            if not shares and plan.epoch + 1 < EPOCHS:
                plan.next_epoch()
                continue
            if not shares:
                break
            own_s = (0.02 + world.rng.random() * 0.01) * (
                SLOWNESS if self.actor in world.slow else 1.0
            )
            await asyncio.sleep(own_s)
            begun = world.loop.time()
            vote = await self.average(sum(b - a for a, b in shares[self.seat.group]))
            self.own_s, self.counted = self.own_s + own_s, self.counted + 1
            self.waited_s += world.loop.time() - begun
            counted = {g for g, weight in vote.weights.items() if weight}
            given = [span for g in counted if g in shares for span in shares[g]]
            self.training.ledger += ((plan.epoch, tuple(sorted(places(given)))),)
            plan.done(shares, counted)
            self.made += 1
            assert self.made == vote.round, f"step {self.made} is round {vote.round}"
            world.counted(self)
            self.groups = tuple(sorted(vote.weights))
            if self.made % world.report_every == 0:
                await self.report()
            if vote.edge:
                await self.take_place(await self.edge())
        await self.take_place(await self.edge(last=True))
        self.coordinator.replica_finish.remote(*self.me, self.member.progress)
        if self.reported != self.training.step:
            await self.report()

    async def average(self, weight: int) -> Vote:
        """A round, made anew with those that are left as often as its ring breaks."""
        number, has_voted = self.made + 1, False
        while True:
            await self.until(lambda: self.member.is_open and self.member.quorum > self.broken)
            found = self.member.outcome(number)
            if found is None:
                has_voted = True
                found = await self.round(number, weight)
            if found is not None:
                assert has_voted, f"round {number} counts for a rank that has not brought its part"
                return found

    async def round(self, number: int, weight: int) -> Vote | None:
        """Try a round; None: its ring has broken."""
        member, ring = self.member, self.member.quorum
        assert self.seat.group in member.groups, "it is left out of its own quorum"
        members = len(member.groups) * self.seat.size
        mine = member.is_awaited, weight
        rings = self.world.rings
        if self.world.may_strike(self.world.dies_voting):
            self.world.later(
                self.world.delay_s() * 5, lambda: self.actor.end("it dies as it votes")
            )
        try:
            votes = await rings.vote((self.number, ring), number, self.rank, members, mine)
        except Cut:
            self.broken = ring
            if member.is_open and member.quorum == ring:
                self.coordinator.replica_failed.remote(*self.me, ring)
            return None
        await asyncio.sleep(self.world.delay_s() * 5)  # it may be told to give up now
        weights = {rank // self.seat.size: given for rank, (_, given) in votes.items()}
        vote = Vote(number, any(awaited for awaited, _ in votes.values()), weights)
        if member.complete(ring, vote):
            return vote
        self.broken = ring
        return None

    # ---- between steps ----

    async def ask(self, name: str, what: Any) -> Admission:
        admission = await getattr(self.coordinator, name).remote(*self.me, what)
        if admission is None:
            raise AttemptEnded("the attempt is over")
        return admission  # type: ignore[no-any-return]

    async def edge(self, last: bool = False) -> Admission:
        counts = self.reports, self.collectives
        arrival = Arrival(self.made, self.member.progress.round, counts, last)
        return await self.ask("replica_edge", arrival)

    async def take_place(self, admission: Admission) -> None:
        """Give the state to newcomers, or take it as one."""
        is_new = self.seat.group in admission.newcomers
        self.member.admit(admission, is_new)
        self.groups = admission.groups
        if is_new:
            self.reports, self.collectives = admission.counts
            state = await self.coordinator.replica_take.remote(
                self.number, admission.quorum, self.rank
            )
            if state is None:
                raise AttemptEnded("the group that gave its state is gone")
            position, ledger, self.reported = state
            plan = self.world.new_plan(self.seat.groups)
            plan.load_state_dict(position)
            self.training = Training(plan, ledger)
            self.made = admission.step
            self.coordinator.replica_taken.remote(self.number, admission.quorum, self.rank)
            if self.incarnation:
                self.world.note(f"rank {self.rank} is in again at step {self.training.step}")
        elif admission.donor == self.seat.group:
            if self.world.may_strike(0.1):
                self.actor.end("it dies as it is to give its state")
                raise asyncio.CancelledError
            state = self.training.plan.state_dict(), self.training.ledger, self.reported
            self.coordinator.replica_give.remote(self.number, admission.quorum, self.rank, state)

    def part(self) -> bytes:
        return pickle.dumps((self.training.plan.state_dict(), self.training.ledger))

    def leave_rings(self) -> None:
        self.world.rings.give_up((self.number, self.member.quorum), self.rank)

    def close(self) -> None:
        super().close()
        if self.listener is not None:
            self.listener.cancel()
        if self.world.functions.get(self.rank) is self:
            del self.world.functions[self.rank]
        self.leave_rings()


class ReplicaHistory(History):
    """A run with replica groups."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed, folder)
        rng = self.rng
        self.is_resumable = False
        self.memory_every = None
        self.is_elastic &= seed % 3 == 0  # what goes wrong with a fixed number shows without
        size, groups = rng.choice((1, 1, 2)), rng.randint(2, 4)
        self.min_workers = size
        self.workers = size * groups
        self.keeps_batch = rng.random() < 0.5
        self.replica_groups = groups
        self.first_groups = 0  # those with which the attempt has begun; more may join
        self.backend = ReplicaConfig(size)
        self.trouble_of = TROUBLE
        # In some histories most that dies does so at the two moments at which ranks come to differ most.
        self.dies_voting, self.faults.dies_behind["upload"] = rng.choice(
            ((0.01, 0.03), (0.08, 0.01), (0.01, 0.3))
        )
        # The chance that a rank is busy when a message comes.
        self.hears_late = rng.choice((0.0, 0.3))
        # A coordinator that dies at the very end leaves what replaced workers would begin from, too.
        self.keeps_more = 2
        self.health_interval_s = 0.25
        self.failures = FailureConfig(
            max_failures=-1, slow_rank_factor=2.0, slow_rank_after_s=SLOW_AFTER_S
        )
        # Slow processes, and the steps that each has made since the run was disturbed.
        self.slow: dict[Actor, int] = {}
        self.slow_strikes = 2  # a rank is replaced three times at most
        self.calm_since = self.attempt_since = 0.0
        # Times at which a node's leaving, or staying, was announced.
        self.said_at: dict[str, float] = {}
        self.died_at: dict[str, float] = {}
        self.coordinator: TrainCoordinator | None = None
        self.functions: dict[int, ReplicaFunction] = {}
        self.rings = Rings(self)

    def new_plan(self, size: int) -> Any:
        return replace(super().new_plan(self.replica_groups), keeps_batch=self.keeps_batch)

    def begin_life(self) -> None:
        super().begin_life()
        self.rings = Rings(self)
        self.disturbed()

    # ---- the judge ----

    def disturbed(self) -> None:
        """Something has changed: whoever is slow is measured anew."""
        self.calm_since = self.loop.time()
        self.slow = dict.fromkeys(self.slow, 0)

    def watch(self, run: TrainRun) -> None:
        lose, note = run._group_lost, run._note

        def lost(failure: RankFailure) -> None:
            self.disturbed()
            node = self.nodes[failure.info.node_id] if failure.info is not None else None
            said_at = self.said_at.get(node.name, 0.0) if node is not None else 0.0
            # The driver listens from the beginning of an attempt on, and looks now and then.
            since_s = self.loop.time() - said_at
            is_known = said_at > self.attempt_since + 0.1 and since_s > HEARD_S
            is_old = since_s > KNOWN_S and (node is None or node.lives)
            if node is not None and (is_known or is_old or not said_at):
                is_announced = failure.died and node.leaves_at is not None
                assert run._was_announced(failure) == is_announced, (
                    f"rank {failure.rank} on {node.name}: whether the node was taken away is mistaken"
                )
            lose(failure)

        def says(text: str) -> None:
            self.note(f"the driver says: {text.splitlines()[0]}")
            ends = ("from the checkpoint just saved", "next checkpoint")
            assert not any(words in text for words in ends), "replica groups go on by themselves"
            note(text)

        run._group_lost = lost  # type: ignore[method-assign]
        run._note = says  # type: ignore[method-assign]
        run._resizer._note = says

    def judge_preemption(self) -> None:
        """Workers hear of nodes that leave, and not of those that have gone or stay."""
        info = self.coordinator._preemption if self.coordinator is not None else None
        if info is None:
            return
        named = [self.nodes[name] for name in info.preempted_node_to_ranks]
        leaves = any(node.lives and node.leaves_at is not None for node in named)
        changed_at = max(
            max(self.said_at[node.name], self.died_at.get(node.name, 0.0)) for node in named
        )
        assert leaves or self.loop.time() - changed_at < KNOWN_S, f"{info}, and none of them leaves"

    def watch_coordinator(self, coordinator: TrainCoordinator) -> None:
        self.coordinator = coordinator
        emit, begin = coordinator._emit, coordinator.begin_replicas

        def emits(kind: str, data: dict[str, Any]) -> None:
            function = self.functions.get(data["rank"]) if kind == "slow" else None
            actor = function.actor if function is not None else None
            if actor is not None and actor.lives and actor not in self.slow:
                # A task of its own tells, and nobody waits for it.
                self.found(AssertionError(f"rank {data['rank']} is replaced, and is not slow"))
            if kind in ("slow", "quorum", "admitted"):
                self.disturbed()
            emit(kind, data)

        async def begins(*rest: Any) -> Any:
            self.first_groups = rest[0]
            begun = await begin(*rest)
            self.attempt_since = self.loop.time()
            self.disturbed()
            return begun

        coordinator._emit = emits  # type: ignore[method-assign]
        coordinator.begin_replicas = begins  # type: ignore[method-assign]

    def kill_node(self, node: Node) -> None:
        self.died_at[node.name] = self.loop.time()
        super().kill_node(node)

    def drain(self, node: Node, seconds: float | None) -> None:
        self.said_at[node.name] = self.loop.time()
        super().drain(node, seconds)

    async def slow_one_down(self) -> None:
        """The process of a rank becomes slow, for good."""
        found = [f.actor for f in self.functions.values() if f.actor not in self.slow]
        if not found or not self.slow_strikes:
            return
        self.slow_strikes -= 1
        actor = self.rng.choice(found)
        self.note(f"{actor.name} becomes slow")
        self.slow[actor] = 0
        actor.on_end.append(lambda: self.slow.pop(actor, None))
        self.disturbed()

    def function(self, worker: Worker, assignment: Any, coordinator: Handle) -> Function:
        return ReplicaFunction(worker, assignment, coordinator)

    def whole(self, parts: list[bytes]) -> Training:
        """Each rank has stored the whole state."""
        states = [pickle.loads(part) for part in parts]
        position, ledger = states[0]
        assert all(state == states[0] for state in states), "ranks have stored different states"
        plan = self.new_plan(1)
        plan.load_state_dict(position)
        return Training(plan, ledger)

    def counted(self, function: ReplicaFunction) -> None:
        """Members that live agree on each step that they hold as complete, and none stays slow."""
        if [*self.slow] == [function.actor]:  # slower than all others
            made = self.slow[function.actor] = self.slow[function.actor] + 1
            before_s = min(WINDOW_S, self.calm_since - self.attempt_since)
            assert made <= SLOW_STEPS + SLOW_STEPS_A_SECOND * before_s, (
                f"rank {function.rank} has been slow for {made} steps, and stays"
            )
        self.judge_preemption()
        mine = function.training.ledger
        for other in self.functions.values():
            if other.number == function.number and other.actor.lives and other is not function:
                ledger = other.training.ledger
                if len(ledger) >= len(mine):
                    assert ledger[len(mine) - 1] == mine[-1], (
                        f"step {len(mine)} of ranks {function.rank} and {other.rank} differs: "
                        f"{mine[-1]} and {ledger[len(mine) - 1]}"
                    )


TROUBLE = [
    *[History.kill_worker] * 6,
    History.join,
    History.lose_node,
    History.kill_coordinator,
    History.end_driver,
    *[History.take_away] * 3,
    *[ReplicaHistory.slow_one_down] * 3,
    History.fill_storage,
    History.lose_storage,
    History.slow_down,
]
