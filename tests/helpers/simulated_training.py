"""Training functions on a simulated cluster: what ``TrainWorker``, ``resumable`` and storage do, as a model.

What stands in for a training function makes steps together with its peers, reports, gives copies to peers'
memory, saves when it is asked to, and tells its world of all that: ``world`` is the history it is part of.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import pickle
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from heliostat.train.errors import AttemptEnded, WorkerStartError
from heliostat.train.memory.versions import Version
from heliostat.train.messages import SAVE, Assignment, Outcome, Reply, ReportEntry, WorkerInfo
from heliostat.train.replicas.plan import SamplePlan, places
from heliostat.train.steps.messages import Beat
from heliostat.train.storage.arrow import ArrowStorage
from heliostat.train.storage.base import Storage, files_below
from heliostat.train.storage.local import LocalStorage

from tests.helpers.simulated_ray import Actor, Gone, Handle, current

EPOCHS = 2

# The steps that a model has learnt: for each step its epoch, and the places of its samples.
Ledger = tuple[tuple[int, tuple[int, ...]], ...]


class Training:
    """A model of a training function's state: whole, or as the part of one rank."""

    def __init__(self, plan: SamplePlan, ledger: Ledger = ()) -> None:
        self.plan, self.ledger = plan, ledger

    @property
    def step(self) -> int:
        return len(self.ledger)

    def part(self, rank: int, size: int) -> bytes:
        """The shard of ``rank``: every ``size``-th step of the ledger, and where it all stands."""
        mine = [(i, self.ledger[i]) for i in range(rank, self.step, size)]
        return pickle.dumps((self.step, rank, size, self.plan.state_dict(), mine))


def assembled(parts: list[bytes], plan: SamplePlan) -> Training:
    """The whole state from all its parts. Fails where they are not those of one step and one group."""
    loaded = [pickle.loads(part) for part in parts]
    steps, sizes = {p[0] for p in loaded}, {p[2] for p in loaded}
    assert len(steps) == 1, f"parts of different steps are taken for one state: {sorted(steps)}"
    assert len(sizes) == 1, f"parts of groups of different sizes are taken for one state: {sizes}"
    ranks = sorted(p[1] for p in loaded)
    assert ranks == list(range(sizes.pop())), f"a state has the parts of ranks {ranks} only"
    rows = dict(row for p in loaded for row in p[4])
    new = replace(plan)
    new.load_state_dict(loaded[0][3])
    return Training(new, tuple(rows[i] for i in range(steps.pop())))


class Faults:
    """Faults of the storage and of its users."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.state = ""  # "full" or "gone"
        # The chance that a process ends behind an operation, where it differs from the usual one.
        self.dies_behind: dict[str, float] = {}

    def strike(self, writes: bool) -> None:
        actor = current.get()
        if actor is not None:
            if not actor.lives:
                raise asyncio.CancelledError
            if self.world.may_strike(0.004):
                actor.end("it dies while it uses storage")
                raise asyncio.CancelledError
        if self.state == "gone":
            raise OSError(errno.EIO, "storage is gone")
        if self.state == "full" and writes:
            raise OSError(errno.ENOSPC, "storage is full")


def _faulty(name: str, writes: bool) -> Callable[..., Any]:
    def call(self: Any, *args: Any) -> Any:
        self.faults.strike(writes)
        value = getattr(super(type(self), self), name)(*args)
        actor = current.get()
        if actor is not None and self.faults.world.may_strike(
            self.faults.dies_behind.get(name, 0.004)
        ):
            actor.end(f"it dies behind {name}()")
            raise asyncio.CancelledError
        return value

    return call


class _Faulty(Storage):
    """A storage with faults; sent by reference."""

    faults: Faults

    def __deepcopy__(self, memo: Any) -> Any:
        return self


_OPERATIONS = {
    name: _faulty(name, name in ("write", "upload", "take", "publish"))
    for name in (
        *("read", "write", "upload", "take", "publish", "retain"),
        *("abandon", "delete", "clear_staging"),
    )
}
Disk = type("Disk", (LocalStorage, _Faulty), dict(_OPERATIONS))
ObjectStore = type("ObjectStore", (ArrowStorage, _Faulty), dict(_OPERATIONS))


class Steps:
    """The collective operations of an attempt: a step is made when all its ranks are in it."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._waiting: dict[tuple[int, int], dict[int, tuple[Actor, asyncio.Future[None]]]] = {}

    async def meet(self, attempt: int, step: int, rank: int, size: int, actor: Actor) -> None:
        there = self._waiting.setdefault((attempt, step), {})
        mine = self._world.loop.create_future()
        there[rank] = actor, mine
        if len(there) == size:
            del self._waiting[attempt, step]
            self._world.made(attempt, step)
            for _, future in there.values():
                if not future.done():
                    future.set_result(None)
        await mine

    def broken(self, actor: Actor) -> None:
        """Break the rounds of an actor that has ended: each rank that waits with it hears so, or does not."""
        for there in self._waiting.values():
            for other, future in there.values():
                if other.lives and other is not actor and self._world.rng.random() < 0.7:
                    self._world.later(self._world.delay_s() * 5, lambda f=future: _break(f))


def _break(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(ConnectionError("a peer has closed its connection"))


class Worker:
    """Stands in for ``TrainWorker``: the session of the library, and a function that uses it."""

    def __init__(self, actor: Actor, world: Any) -> None:
        self.actor, self.world = actor, world
        self.folder = tempfile.mkdtemp(dir=world.scratch)
        actor.on_end.append(lambda: world.steps.broken(actor))

    async def info(self) -> WorkerInfo:
        node = self.actor.node
        assert node is not None
        return WorkerInfo(node.name, node.name, node.name, 1, [])

    async def run(self, assignment: Assignment, job: list[Any], coordinator: Handle) -> Outcome:
        function = self.world.function(self, assignment, coordinator)
        outcome = Outcome(ok=False)
        main = self.actor.spawn(function.run())
        control = self.actor.spawn(function.control(main))
        try:
            outcome.value = await main
            outcome.ok = True
        except AttemptEnded:
            outcome.unwound = True
        except asyncio.CancelledError:
            if not self.actor.lives or not main.cancelled():
                raise
            outcome.unwound = True  # it was told to end
        except AssertionError:
            raise
        except Exception as error:
            try:
                outcome.unwound = await coordinator.is_dismissed.remote(assignment.attempt)
            except Gone:
                outcome.unwound = False
            if not outcome.unwound:
                outcome.error = RuntimeError(f"{type(error).__name__}: {error}")
        finally:
            control.cancel()
            function.close()
        if outcome.ok:
            with contextlib.suppress(Gone, asyncio.TimeoutError):
                left = coordinator.leave.remote(assignment.attempt, assignment.world_rank, None)
                await asyncio.wait_for(left.future, 2.0)
        self.world.steps.broken(self.actor)
        return outcome


class Function:
    """A training function in one attempt: steps, reports, copies in memory, and saving when asked to."""

    def __init__(self, worker: Worker, assignment: Assignment, coordinator: Handle) -> None:
        self.worker, self.world, self.actor = worker, worker.world, worker.actor
        self.to, self.coordinator = assignment, coordinator
        self.rank, self.size = assignment.world_rank, assignment.world_size
        self.number = assignment.attempt
        self.incarnation = 0
        self.training = Training(self.world.new_plan(self.size))
        self.is_in_step = False
        self.save_round = self.saved_round = 0
        self.reports = self.collectives = 0
        self.reported = -1
        self.uploads: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self.uploader: asyncio.Task[None] | None = None
        self.failure: BaseException | None = None
        self.not_stored = ""
        self.is_closed = False
        self.whole: Version | None = None
        self.sending: asyncio.Task[None] | None = None

    # ---- the control thread ----

    async def control(self, main: asyncio.Task[Any]) -> None:
        with contextlib.suppress(Gone):
            while True:
                command = await self.coordinator.control.remote(
                    self.number, self.rank, self.incarnation, self.beat(), None
                )
                if command.startswith(SAVE):
                    round_ = int(command.removeprefix(SAVE))
                    made = None
                    self.save_round = round_
                    if self.world.is_resumable:
                        made = self.training.step + self.is_in_step
                    await self.coordinator.save_asked.remote(self.number, self.rank, round_, made)
                elif command == "end":
                    main.cancel()
                    return

    def beat(self) -> Beat | None:
        """The steps since the last one; None: no times are taken."""
        return None

    # ---- the function ----

    async def run(self) -> None:
        world = self.world
        await self.enter()
        await self.restore()
        plan = self.training.plan
        while plan.epoch < EPOCHS:
            shares = plan.shares(range(self.size))
            if not shares:
                plan.next_epoch()
                continue
            await self.begin_step()
            step = self.training.step
            await asyncio.sleep(0.02 + world.rng.random() * 0.01)
            await world.steps.meet(self.number, step, self.rank, self.size, self.actor)
            spans = [span for given in shares.values() for span in given]
            row = plan.epoch, tuple(sorted(places(spans)))
            plan.done(shares, range(self.size))
            self.training.ledger += (row,)
            self.is_in_step = False
            if self.to.memory_every and self.training.step % self.to.memory_every == 0:
                await self.give()
            if self.training.step % world.report_every == 0:
                await self.report()
        if self.reported != self.training.step:
            await self.report()
        await self.flush()
        if self.not_stored:
            raise RuntimeError(f"The last checkpoint could not be stored: {self.not_stored}")

    async def enter(self) -> None:
        if not self.to.storage.sees_marker():
            raise WorkerStartError("this node does not see the files of the run")

    async def begin_step(self) -> None:
        """As ``resumable`` does it: nobody begins a step behind the one that all save behind."""
        round_ = self.save_round
        self.is_in_step = not self.world.is_resumable or round_ == self.saved_round
        if self.is_in_step:
            return
        call = self.coordinator.save_target.remote(self.number, round_, self.training.step)
        target = await call
        if target is None:
            raise AttemptEnded("the attempt is over")
        if self.training.step >= target:
            self.saved_round = round_
            if self.to.memory_every and self.training.step % self.to.memory_every:
                await self.give()
            if self.sending is not None:
                await self.sending
            if self.reported != self.training.step:
                await self.report()
            await self.flush()
        self.is_in_step = True

    # ---- reports ----

    async def report(self) -> None:
        """A checkpoint of the state as it is, stored beside the next steps where it is resumable."""
        index, self.reports = self.reports, self.reports + 1
        step = self.reported = self.training.step
        part = self.part()
        world = self.world
        entry = ReportEntry({"step": step, "score": (step * 7) % 5})
        entry.may_fail = world.is_resumable
        if world.is_resumable:
            entry.step = step
            if self.failure is not None:
                raise self.failure
            if self.uploader is None:
                self.uploader = self.actor.spawn(self.upload())
            self.uploads.put_nowait(lambda: self.store(index, step, part, entry))
        else:
            await self.store(index, step, part, entry)

    def part(self) -> bytes:
        """The part of the state that this rank stores."""
        return self.training.part(self.rank, self.size)

    async def upload(self) -> None:
        while True:
            job = await self.uploads.get()
            try:
                if self.failure is None and not self.is_closed:
                    await job()
            except AssertionError as error:
                self.world.found(error)
            except (Exception, AttemptEnded) as error:
                self.failure = error
            finally:
                self.uploads.task_done()

    async def flush(self) -> None:
        await self.uploads.join()
        if self.failure is not None:
            raise self.failure

    async def store(self, index: int, step: int, part: bytes, entry: ReportEntry) -> None:
        folder = tempfile.mkdtemp(dir=self.worker.folder)
        for name, data in ((f"part-{self.rank}", part), (f"sum-{self.rank}", b"")):
            Path(folder, name).write_bytes(data)
        try:
            final = ""
            if self.to.storage.filesystem is not None:
                call = self.coordinator.checkpoint_name.remote(self.number, index, None)
                final = await call
            upload = self.to.storage.upload
            await asyncio.to_thread(upload, folder, f"{self.number}-{index}", final)
            entry.staged = True
            if self.to.may_lose_ranks:
                entry.files = files_below(folder)
        except (OSError, Gone) as error:
            if not entry.may_fail:
                raise
            entry.failed = repr(error)
        reply: Reply = await self.coordinator.report.remote(
            self.number, self.rank, index, entry, not entry.may_fail
        )
        if entry.may_fail:
            self.not_stored = reply.failed
        if reply.checkpoint is not None:
            self.world.acknowledged(step)
        self.obey(reply)

    @staticmethod
    def obey(reply: Reply) -> None:
        if reply.error is not None:
            raise reply.error
        if not reply.go_on:
            raise AttemptEnded("the attempt is over")

    # ---- copies in memory ----

    async def give(self) -> None:
        if self.sending is not None:
            await self.sending
        version = Version(self.training.step, self.number)
        part = self.part()
        ref = self.world.ray.put([part])
        self.sending = self.actor.spawn(self.send(version, ref))

    async def send(self, version: Version, ref: Any) -> None:
        await asyncio.sleep(self.world.rng.random() * self.world.slow_memory_s)
        calls = [
            keeper.keep.remote(version, self.rank, self.size, b"", [ref], self.whole)
            for keeper in self.to.keepers
        ]
        kept = 0
        for call in calls:
            with contextlib.suppress(Gone):
                await call
                kept += 1
        if kept:
            with contextlib.suppress(Gone):
                call = self.coordinator.memory_kept.remote(
                    self.number, self.rank, self.size, version
                )
                whole = await call
                self.world.told(whole)
                if whole is not None:
                    self.whole = whole

    # ---- restoring ----

    async def restore(self) -> None:
        """As ``resumable`` does it: from memory where that is newest, else from the latest checkpoint."""
        offer, name = self.to.memory, self.to.checkpoint
        saved = self.world.step_of(name) if name is not None else -1
        if self.world.is_resumable and offer is not None and offer.version.step >= saved:
            found: Training | None = None
            with contextlib.suppress(Gone):
                parts = [await self.fetch(offer.parts[rank]) for rank in sorted(offer.parts)]
                found = assembled(parts, self.training.plan)
                assert found.step == offer.version.step, "memory has another step than it says"
            if await self.agree(found is not None):
                assert found is not None
                self.begin_from(found, "memory")
                return
        if name is None:
            self.begin_from(self.training, "")
            return
        self.to.storage.faults.strike(False)
        parts = self.world.parts_of(name)
        self.begin_from(assembled(parts, self.training.plan), f"storage, {name}")

    async def fetch(self, copies: list[Any]) -> bytes:
        for copy in copies:
            with contextlib.suppress(Gone):
                data: bytes = (await copy.data[0])[0]
                return data
        raise Gone("the part is gone")

    async def agree(self, is_well: bool) -> bool:
        index, self.collectives = self.collectives, self.collectives + 1
        call = self.coordinator.collective
        reply = await call.remote(self.number, self.rank, index, "gather", is_well)
        self.obey(reply)
        return all(reply.value.values())

    def begin_from(self, training: Training, where: str) -> None:
        plan = replace(training.plan, groups=self.size)
        self.training = Training(plan, training.ledger)
        self.world.restored(self.number, training, where)

    def close(self) -> None:
        self.is_closed = True
