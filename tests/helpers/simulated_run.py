"""A training run on a simulated cluster: its real driver, coordinator, keepers and storage, and a judge.

The judge counts every step and every sample, knows what was acknowledged, and looks at all that a worker
finds. What goes wrong, and when, follows from the seed.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from heliostat.train.backend import BackendConfig
from heliostat.train.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from heliostat.train.controller.checks import open_run
from heliostat.train.controller.run import TrainRun
from heliostat.train.controller.spec import RunSpec
from heliostat.train.coordinator.actor import TrainCoordinator
from heliostat.train.coordinator.attempt import REPORT
from heliostat.train.coordinator.checkpoint_book import CheckpointBook
from heliostat.train.data_config import DataConfig
from heliostat.train.errors import ControllerError, WorkerStartError
from heliostat.train.memory.keeper import Keeper
from heliostat.train.memory.versions import Version, latest_whole
from heliostat.train.messages import Job
from heliostat.train.replicas.plan import SamplePlan
from heliostat.train.settings import TrainSettings
from heliostat.train.storage import arrow
from heliostat.train.storage.base import SNAPSHOT_FILE, Storage
from heliostat.train.worker.actor import TrainWorker

from tests.helpers.simulated_ray import Actor, DriverDied, Handle, World, stand_in
from tests.helpers.simulated_training import (
    EPOCHS,
    Disk,
    Faults,
    Function,
    ObjectStore,
    Steps,
    Training,
    Worker,
    assembled,
)

# Simulated seconds in which everything comes to its end that is not disturbed any more.
END_S = 3_000.0
# Histories in which a planted bug is looked for.
NEAR, EVERYWHERE = 80, 2_000
# Modules through which driver, coordinator and keepers reach the cluster and the clock.
MODULES = (
    *(
        "attempt",
        "launch",
        "newcomers",
        "record",
        "replacing",
        "resizing",
        "results",
        "run",
        "sizes",
        "page_row",
    ),
    *("coordinator.actor", "coordinator.watch", "group.cluster", "group.nodes"),
    *("group.placement", "group.recruits", "group.worker_group", "memory.keeper", "memory.keepers"),
)


class History(World):
    """A run and its cluster, and the judge's account of both."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        rng = self.rng
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.faults = Faults(self)
        self.steps = Steps(self)
        self.ray: Any = None
        self.backend = BackendConfig()
        self.trouble_of = STRIKES
        self.failures = FailureConfig(max_failures=-1)
        self.health_interval_s = 2.0
        self.is_resumable = rng.random() < 0.7
        self.is_elastic = rng.random() < 0.6
        self.min_workers, self.workers = 1, rng.randint(1, 4)
        self.report_every = rng.choice((1, 3, 7, 20))
        self.memory_every = rng.choice((None, 1, 2, 5)) if self.is_resumable else None
        self.slow_memory_s = rng.choice((0.0, 0.3))
        self.total, self.batch = rng.randint(20, 120), rng.randint(1, 3)
        self.keep = rng.choice((None, 1, 2, 3))
        self.keeps_more = 1  # the latest
        self.strikes = rng.randint(0, 25)
        storage = Disk(str(folder / "run"), None, False)
        if rng.random() < 0.4:
            fs = pytest.importorskip("pyarrow.fs", reason="an object store is pyarrow's")
            storage = ObjectStore(str(folder / "run"), fs.LocalFileSystem(), False)
        storage.faults = self.faults
        self.storage: Storage = storage
        # The judge's account.
        self.acked = 0  # steps of which somebody was told that they are stored
        self.furthest: Counter[int] = Counter()  # the steps that each attempt has made
        self.from_step: dict[int, int] = {}  # where each attempt has begun
        self.life = 0  # of the driver
        self.run: TrainRun | None = None
        self.known_whole: tuple[int, list[Handle]] | None = None
        self.ended_in_order: set[int] = set()
        self.told_whole = (
            0  # steps of which a worker of this driver was told that memory has them whole
        )
        self.lost_keepers = 0

    def new_plan(self, size: int) -> SamplePlan:
        return SamplePlan(self.total, self.batch, size)

    def function(self, worker: Worker, assignment: Any, coordinator: Handle) -> Function:
        """The training function, as a worker runs it."""
        return Function(worker, assignment, coordinator)

    def may_strike(self, chance: float) -> bool:
        if self.strikes and self.rng.random() < chance:
            self.strikes -= 1
            return True
        return False

    # ---- what workers tell the judge ----

    def made(self, attempt: int, step: int) -> None:
        self.furthest[attempt] = max(self.furthest[attempt], step + 1)

    def acknowledged(self, step: int) -> None:
        self.acked = max(self.acked, step)

    def told(self, whole: Version | None) -> None:
        if whole is not None:
            self.told_whole = max(self.told_whole, whole.step)

    def lost_keeper(self) -> None:
        self.lost_keepers += 1

    def restored(self, attempt: int, training: Training, where: str) -> None:
        self.note(f"attempt {attempt} begins from step {training.step} ({where})")
        step = training.step
        known = self.from_step.setdefault(attempt, step)
        assert known == step, f"ranks of attempt {attempt} begin at steps {known} and {step}"
        assert step >= self.acked, f"step {self.acked} was acknowledged, and the run is at {step}"
        if self.known_whole is not None:
            whole, keepers = self.known_whole
            if all(keeper._actor.lives for keeper in keepers):
                assert step >= whole, f"memory has step {whole}, and the run goes on from {step}"
        if self.memory_every and not self.lost_keepers:
            told = self.told_whole
            assert step >= told, f"memory was said to have step {told}, and {step} is taken"
        before = attempt - 1
        if before in self.ended_in_order and self.is_resumable:
            made = self.furthest.get(before, self.from_step.get(before, 0))
            assert step == made, (
                f"attempt {before} ended in order behind step {made}, and {step} is next"
            )

    # ---- storage, as it is without faults ----

    def parts_of(self, name: str) -> list[bytes]:
        folder = Path(self.storage.join(name))
        assert folder.is_dir(), f"{name} is found, and is not there"
        found = sorted(folder.glob("part-*"))
        sums = {p.name.removeprefix("sum-") for p in folder.glob("sum-*")}
        assert {p.name.removeprefix("part-") for p in found} == sums, f"{name} is half written"
        return [p.read_bytes() for p in found]

    def whole(self, parts: list[bytes]) -> Training:
        """The state that a checkpoint of these parts has."""
        return assembled(parts, self.new_plan(1))

    def step_of(self, name: str) -> int:
        return self.whole(self.parts_of(name)).step

    def judge_storage(self) -> CheckpointBook:
        """All that is found is whole, and what is acknowledged is found."""
        book = CheckpointBook()
        path = Path(self.storage.join(SNAPSHOT_FILE))
        if path.exists():
            book.load(path.read_bytes())
        for entry in book.entries:
            state = self.whole(self.parts_of(entry.name))
            assert entry.metrics["step"] == state.step, f"{entry.name} has the metrics of another"
        latest = book.latest
        step = latest.metrics["step"] if latest is not None else 0
        assert step >= self.acked, f"step {self.acked} was acknowledged, and {step} is stored"
        return book

    # ---- the driver ----

    def spec(self) -> RunSpec:
        options = CheckpointConfig(num_to_keep=self.keep, memory_every_n_steps=self.memory_every)
        if self.keep is not None and self.workers % 2:
            options.checkpoint_score_attribute = "score"
        config = RunConfig(name="run", failure_config=self.failures, checkpoint_config=options)
        workers: Any = (self.min_workers, self.workers) if self.is_elastic else self.workers
        settings = replace(
            TrainSettings.from_environment(),
            view="off",
            html=False,
            state_tracking=False,
            health_interval_s=self.health_interval_s,
        )
        return RunSpec(
            Job(print, None, False, self.backend),
            self.backend,
            ScalingConfig(num_workers=workers),
            config,
            {},
            DataConfig(),
            settings,
            self.storage,
            open_run(self.storage, config),
            f"life{self.life}",
            "Simulated",
        )

    def watch_coordinator(self, coordinator: TrainCoordinator) -> None:
        """The judge looks at what the coordinator tells the driver."""

    def watch(self, run: TrainRun) -> None:
        """The judge looks at what the driver decides."""

    def begin_life(self) -> None:
        """Another driver counts its attempts anew."""
        self.steps = Steps(self)

    def live(self) -> bool:
        """A driver's life; whether the run has come to its end."""
        self.life += 1
        self.begin_life()
        self.from_step.clear()
        self.furthest.clear()
        self.ended_in_order.clear()
        self.known_whole = None
        self.told_whole = self.lost_keepers = 0
        self.note(f"driver {self.life} begins")
        try:
            run = self.run = TrainRun(self.spec())
            self.watch(run)
            run.execute()
        except DriverDied:
            self.note("the driver dies")
            return False
        except ValueError as error:
            if not self.faults.state:
                raise
            return self.refused(error)
        except ControllerError as error:
            if not isinstance(error.controller_failure, WorkerStartError):
                raise
            return self.refused(error)
        finally:
            self.run = None
            self.end_all("the driver is gone")
        return True

    def refused(self, error: Exception) -> bool:
        """There is no room, or no storage: the user tries again later."""
        self.note(f"fit() says: {str(error).splitlines()[0]}")
        assert self.run is None or len(self.run.record.attempts) <= 1, error
        return False

    def play(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.add_node(self.rng.randint(1, 3))
        chaos = self.loop.create_task(self.trouble())
        while not self.live():
            self.judge_storage()
            if self.problem is not None:
                raise self.problem
            self.drive(asyncio.sleep(self.rng.random() * 2))
            assert self.loop.time() < END_S, "the run does not come to its end"
        chaos.cancel()
        self.judge_end()

    def judge_end(self) -> None:
        book = self.judge_storage()
        assert book.latest is not None
        ledger = self.whole(self.parts_of(book.latest.name)).ledger
        for epoch in range(EPOCHS):
            counted = Counter(place for of, given in ledger if of == epoch for place in given)
            wrong = {p: counted[p] for p in range(self.total) if counted[p] != 1}
            assert counted == Counter(range(self.total)), (
                f"epoch {epoch}: counted not once: {wrong}"
            )
        if self.keep is not None:
            most = self.keep + self.keeps_more
            assert len(book.entries) <= most, "more checkpoints are kept than asked for"

    # ---- trouble ----

    async def trouble(self) -> None:
        """Things go wrong at random, but not for ever; then there is room for the run."""
        rng = self.rng
        while self.strikes:
            await asyncio.sleep(rng.expovariate(2.0))
            if self.strikes:
                self.strikes -= 1
                strike = rng.choice(self.trouble_of)
                await strike(self)
        while sum(node.cpus for node in self.alive if node.leaves_at is None) < self.workers:
            self.add_node(2)

    def processes(self, kind: str) -> list[Actor]:
        return [
            a
            for node in self.alive
            for a in sorted(node.actors, key=str)
            if str(a).startswith(kind)
        ]

    async def kill_worker(self) -> None:
        found = self.processes("TrainWorker")
        if found:
            self.rng.choice(found).end("it is killed")

    async def kill_coordinator(self) -> None:
        for actor in self.processes("TrainCoordinator"):
            actor.end("it is killed")

    async def kill_keeper(self) -> None:
        found = self.processes("Keeper")
        if found:
            self.rng.choice(found).end("it is killed")

    async def lose_node(self) -> None:
        if len(self.alive) > 1:
            self.kill_node(self.rng.choice(self.alive))

    async def join(self) -> None:
        self.add_node(self.rng.randint(1, 2))

    async def take_away(self) -> None:
        staying = [n for n in self.alive if n.leaves_at is None]
        if not staying:
            return
        node, seconds = self.rng.choice(staying), self.rng.choice((0.5, 3.0, 20.0))
        self.drain(node, seconds)
        if self.rng.random() < 0.2:
            self.later(seconds / 2, lambda: self.drain(node, None) if node.lives else None)
            return

        def gone() -> None:
            if node.lives:
                self.kill_node(node)

        self.later(seconds, gone)

    async def end_driver(self) -> None:
        if self.run is not None:
            self.kill_driver()

    async def fill_storage(self) -> None:
        await self.disturb("full")

    async def lose_storage(self) -> None:
        await self.disturb("gone")

    async def disturb(self, state: str) -> None:
        self.note(f"storage is {state}")
        self.faults.state = state
        await asyncio.sleep(self.rng.random() * 3)
        self.faults.state = ""
        self.note("storage is well")

    async def slow_down(self) -> None:
        self.slow_s = self.rng.choice((0.0, 0.3, 3.0))


STRIKES = [
    *[History.kill_worker] * 4,
    *[History.take_away] * 2,
    *[History.join] * 2,
    History.kill_coordinator,
    History.kill_keeper,
    History.lose_node,
    History.end_driver,
    History.fill_storage,
    History.lose_storage,
    History.slow_down,
]


def prepared(
    seed: int, folder: Path, patch: pytest.MonkeyPatch, kind: type[History] = History
) -> History:
    """A history whose modules use the simulation."""
    history = kind(seed, folder)
    root = "heliostat.train."
    names = [m if "." in m else f"controller.{m}" for m in MODULES]
    modules = [importlib.import_module(root + name) for name in names]
    instead = {
        TrainWorker: lambda actor, preload: Worker(actor, history),
        TrainCoordinator: lambda actor, *args: watched(TrainCoordinator(*args), history),
        Keeper: lambda actor: watched_keeper(actor, history),
    }
    stand_in(history, patch, modules, instead)
    history.ray = modules[0].ray  # type: ignore[attr-defined]
    from heliostat.train.controller import page_row

    patch.setattr(page_row.RunRow, "begin", lambda self: None)
    patch.setattr(arrow, "ThreadPoolExecutor", lambda size: _OneThread())
    patch.setenv("HELIOSTAT_TRAIN_STEP_TIMES", "0")
    return history


class _OneThread:
    """A pool whose work is done at once: nothing happens beside the history."""

    def __enter__(self) -> Any:
        return SimpleNamespace(map=map)

    def __exit__(self, *_: Any) -> None:
        pass


def watched_keeper(actor: Actor, history: History) -> Keeper:
    actor.on_end.append(history.lost_keeper)
    return Keeper()


def watched(coordinator: TrainCoordinator, history: History) -> TrainCoordinator:
    """Have the judge know what memory had when an attempt began, and which attempts end in order."""
    begin, complete, ask = coordinator.begin, coordinator._complete, coordinator.request_resize

    async def begins(number: int, size: int) -> Any:
        begun = await begin(number, size)
        keepers = [a for a in history.processes("Keeper") if a.object is not None]
        parts = [(k, p) for k in keepers for p in k.object.parts()]
        offer = latest_whole(p for _, p in parts)
        history.known_whole = None
        if offer is not None:
            holders = [Handle(k) for k, p in parts if p.version == offer.version]
            history.known_whole = offer.version.step, holders
        return begun

    async def completes(attempt: Any, kind: str, round_: Any) -> None:
        await complete(attempt, kind, round_)
        if kind == REPORT and round_.arrived:
            steps = {e.metrics["step"] for e in round_.arrived.values()}
            failed = {e.failed for e in round_.arrived.values()} - {""}
            history.note(f"attempt {attempt.number} has reported {steps} {failed or ''}")
            assert len(steps) == 1, f"a report has the states of steps {sorted(steps)}"
        if attempt.is_dismissed and attempt.number not in history.ended_in_order:
            history.note(f"attempt {attempt.number} ends in order")
            history.ended_in_order.add(attempt.number)

    async def asks(number: int, wanted: bool, info: Any) -> None:
        history.note(f"attempt {number} is to {'end' if wanted else 'go on'}, {info}")
        await ask(number, wanted, info)

    history.watch_coordinator(coordinator)
    coordinator.request_resize = asks  # type: ignore[method-assign]
    coordinator.begin = begins  # type: ignore[method-assign]
    coordinator._complete = completes  # type: ignore[method-assign]
    return coordinator


def playing(
    patch: pytest.MonkeyPatch, kind: type[History] = History
) -> Iterator[Callable[[int], History]]:
    """The function that plays a history from its seed, and prints it when it fails."""
    # A disk that others keep busy makes a history of a second take ten.
    memory = Path("/dev/shm")
    root = tempfile.mkdtemp(dir=memory if memory.is_dir() else None)

    def play(seed: int) -> History:
        folder = Path(root, str(seed))
        folder.mkdir()
        history = prepared(seed, folder, patch, kind)
        try:
            history.play()
        except BaseException as error:
            text = "\n".join(history.history[-60:])
            raise AssertionError(f"seed {seed}: {error!r}\n{text}") from error
        finally:
            history.close()
            shutil.rmtree(folder, ignore_errors=True)
        return history

    yield play
    shutil.rmtree(root, ignore_errors=True)


def shows(play: Callable[[int], History], first: int) -> int | None:
    """A history in which something is wrong.

    It is looked for from ``first``, where it was found when that was written; then everywhere, for each
    change of the code has other things happen in the history of a seed. ``pytest -rP`` shows where it
    was found: a test that has become slow wants that as its ``first``.
    """
    for seed in itertools.chain(range(first, first + NEAR), range(EVERYWHERE)):
        try:
            play(seed)
        except AssertionError:
            print(f"found in history {seed}, looked for from {first}")
            return seed
    return None
