"""Histories of a search from a seed: trials report, save, fail and are lost in random order, under every
scheduler, with workers whose clocks go wrong, and a driver that dies and goes on from the journal. A judge
keeps its own account.

``TUNE_SEED=4711 pytest tests/tune/test_search_histories.py`` plays that one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own search", allow_module_level=True)

from heliostat.tune import ResumeConfig
from heliostat.tune.runner.search import CONTINUE, PAUSE, Limits, Search
from heliostat.tune.runner.store import JOURNAL, Store, read_trials
from heliostat.tune.runner.trial import ERROR, PAUSED, PENDING, RUNNING, Trial
from heliostat.tune.schedulers import (
    ASHAScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
)
from heliostat.tune.stopper import stopper_of
from heliostat.tune.tuner import _resume

SEEDS = [int(os.environ["TUNE_SEED"])] if "TUNE_SEED" in os.environ else range(200)
# How many reports a trial makes that nobody ends.
LAST = 12
# More steps than any search takes that goes on.
STEPS_MAX = 6_000
# In so many histories a planted bug is found.
SEEDS_OF_A_BUG = 40


class Numbered:
    """A source of so many trials."""

    def __init__(self, total: int, folder: str, first: int) -> None:
        self.total: int | None = total
        self._folder, self._next = folder, first
        self.ended: Counter[str] = Counter()

    @property
    def is_finished(self) -> bool:
        assert self.total is not None
        return self._next >= self.total

    def next(self) -> Trial | None:
        if self.is_finished:
            return None
        number, self._next = self._next, self._next + 1
        trial = Trial(
            "f",
            trial_id=f"t{number}",
            config={"lr": 1.0},
            experiment_tag=str(number),
            folder=f"t{number}",
        )
        trial.local_experiment_path = self._folder
        return trial

    def on_result(self, trial: Trial, result: dict[str, Any]) -> None:
        pass

    def on_complete(self, trial: Trial, failed: bool) -> None:
        self.ended[trial.trial_id] += 1
        assert self.ended[trial.trial_id] == 1, f"{trial} ends twice"


@dataclass
class Process:
    """What runs a trial: it counts its reports, and saves after some."""

    trial: Trial
    iteration: int
    quality: float


@dataclass
class World:
    """A driver, its processes and its files."""

    rng: random.Random
    folder: str
    make_scheduler: Any
    total: int
    limits: Limits
    processes: dict[str, Process] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)  # in this life of the driver
    finished: dict[str, tuple[str, Any]] = field(default_factory=dict)  # by the journal, for good
    saved: dict[str, tuple[int, float]] = field(default_factory=dict)  # what is in each checkpoint

    def begin(self, trials: list[Trial]) -> None:
        self.scheduler = self.make_scheduler()
        self.scheduler.set_search_properties(None if self.scheduler.metric else "score", "max")
        self.source = Numbered(self.total, self.folder, len(trials))
        self.search = Search(self.source, self.scheduler, stopper_of(None), self.limits, trials)
        self.search.saves_on_request = True
        self.store = Store(self.folder)
        self.store.begin({}, goes_on=bool(trials) or os.path.exists(self.path))
        self.search.on_added, self.search.on_ended = self.store.added, self.store.status
        for trial in trials:
            self.store.status(trial)
            self.scheduler.on_trial_add(self.search, trial)

    @property
    def path(self) -> str:
        return os.path.join(self.folder, JOURNAL)

    # --- what happens

    def start(self) -> None:
        trial = self.search.choose()
        if trial is None:
            return
        assert trial.trial_id not in self.processes, f"{trial} is started while it runs"
        assert trial.status in (PENDING, PAUSED), f"{trial} is started though it is {trial.status}"
        if trial.handed is not None:
            path, trial.restore_iteration, trial.restore_total_s = trial.handed[:3]
            trial.checkpoint_path, trial.handed = path, None
            self.store.checkpointed(trial)
        if trial.is_changed:
            trial.is_changed = False
            self.store.configured(trial)
        iteration, quality = 0, float(trial.trial_id[1:])
        if trial.checkpoint_path:
            iteration, quality = self.saved[trial.checkpoint_path]
            assert trial.restore_iteration == iteration, (
                f"{trial} goes on from {trial.checkpoint_path} and counts from {trial.restore_iteration}"
            )
        self.search.started(trial)
        self.store.status(trial)
        self.processes[trial.trial_id] = Process(trial, iteration, quality)

    def some(self) -> Process | None:
        return self.processes[self.rng.choice(list(self.processes))] if self.processes else None

    def report(self) -> None:
        one = self.some()
        if one is None:
            return
        trial = one.trial
        one.iteration += 1
        # A worker's clock may be set: what it tells of time is no evidence of anything.
        spent = self.rng.uniform(-100, 1000)
        score = one.quality + self.rng.random()
        result = {
            "training_iteration": one.iteration,
            "time_total_s": spent,
            "score": score,
            "done": one.iteration >= LAST,
            "config": trial.config,
            "trial_id": trial.trial_id,
        }
        decision = self.search.reported(trial, result)
        self.store.reported(trial, result)
        if self.search.is_saving(trial) or self.rng.random() < 0.3:
            self.save(one)
        if decision == CONTINUE:
            return
        del self.processes[trial.trial_id]
        if decision == PAUSE:
            self.search.paused(trial)
            self.store.status(trial)
        else:
            self.search.completed(trial)
            self.store.status(trial)
            self.finished[trial.trial_id] = (trial.status, one.iteration)

    def save(self, one: Process) -> None:
        trial = one.trial
        path = os.path.join(
            trial.path, f"checkpoint_{one.iteration:06d}_{self.rng.randrange(10**9)}"
        )
        os.makedirs(path)
        self.saved[path] = (one.iteration, one.quality)
        trial.checkpoint_path, trial.checkpoint_count = path, trial.checkpoint_count + 1
        trial.restore_iteration = one.iteration
        trial.restore_total_s = float(trial.last_result["time_total_s"])
        trial.checkpoints.append((path, dict(trial.last_result)))
        self.search.saved(trial)
        self.store.checkpointed(trial)

    def fail(self) -> None:
        one = self.some()
        if one is None:
            return
        trial = one.trial
        del self.processes[trial.trial_id]
        self.failures[trial.trial_id] += 1
        again = self.search.failed(trial, RuntimeError("it was lost"), "it was lost")
        most = self.limits.max_failures
        may = most < 0 or self.failures[trial.trial_id] <= most
        assert again == may, f"{trial} failed {self.failures[trial.trial_id]} times, of {most}"
        os.makedirs(trial.path, exist_ok=True)
        self.store.failed(trial)
        self.store.status(trial)
        if trial.status == ERROR:
            self.finished[trial.trial_id] = (ERROR, None)

    def restart(self) -> None:
        """The driver dies; what its operating system has of the journal, maybe torn, begins the next one."""
        whole = os.path.getsize(self.path)
        self.store.close()
        if self.rng.random() < 0.5:
            # What is flushed at a status is there; a report behind it may be torn.
            end = self.rng.randint(whole, os.path.getsize(self.path))
            os.truncate(self.path, end)
        trials = read_trials(self.folder)
        for trial in trials:
            was = self.finished.get(trial.trial_id)
            if was is not None:
                assert (trial.status, was[0]) == (was[0], trial.status), f"{trial} had ended"
                if was[1] is not None:
                    assert trial.last_result["training_iteration"] == was[1]
            _resume(trial, ResumeConfig())
        self.processes.clear()
        self.failures.clear()
        self.begin(trials)

    # --- the judge

    def judge(self) -> None:
        running = {one.trial_id for one in self.search.trials if one.status == RUNNING}
        assert running == set(self.processes)
        live = {one.trial_id for one in self.search.get_live_trials()}
        assert live == {one.trial_id for one in self.search.trials if not one.is_finished()}
        ids = [one.trial_id for one in self.search.trials]
        assert len(ids) == len(set(ids))


def schedulers(rng: random.Random) -> Any:
    changes = {"lr": [0.1, 1.0, 10.0]}
    made = [
        FIFOScheduler,
        lambda: ASHAScheduler(max_t=9, reduction_factor=3),
        lambda: HyperBandScheduler(max_t=9, reduction_factor=3),
        lambda: MedianStoppingRule(grace_period=2, min_samples_required=2),
        lambda: PopulationBasedTraining(
            time_attr="training_iteration", perturbation_interval=3, hyperparam_mutations=changes
        ),
        lambda: PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=3,
            hyperparam_mutations=changes,
            synch=True,
        ),
    ]
    return rng.choice(made)


@pytest.mark.contract("F11.01", "F11.06")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_search_comes_to_its_end(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path)


def run(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    random.seed(seed)  # schedulers draw from it
    limits = Limits(max_failures=rng.choice((0, 1, 3, -1)))
    world = World(rng, str(folder), schedulers(rng), rng.randint(1, 12), limits)
    world.begin([])
    try:
        play(world)
    finally:
        world.store.close()
    assert world.search.is_over, [(str(one), one.status) for one in world.search.trials]
    assert len(world.search.trials) == world.total
    assert all(one.is_finished() for one in world.search.trials)
    kept = {one.trial_id: one.status for one in read_trials(world.folder)}
    assert kept == {one.trial_id: one.status for one in world.search.trials}


def play(world: World) -> None:
    rng = world.rng
    places, restarts = rng.randint(1, 5), rng.randint(0, 2)
    for step in range(STEPS_MAX):
        if world.search.is_over:
            break
        while len(world.processes) < places:
            before = len(world.processes)
            world.start()
            world.judge()
            if len(world.processes) == before:
                break
        draw = rng.random()
        if draw < 0.04 and step < STEPS_MAX // 2:
            world.fail()
        elif draw < 0.05 and restarts:
            restarts -= 1
            world.restart()
        else:
            world.report()
        world.judge()


# ---- the judge: bugs that it has to find ----


def _fails_on(self: Search, trial: Trial, *_: Any, **__: Any) -> bool:
    """A trial is tried again without end."""
    trial.status = PENDING
    return True


def _forgets_ends(self: Store, trial: Trial) -> None:
    """The journal does not say that a trial has ended."""


def _tells_late(self: Store, trial: Trial) -> None:
    """An end is written, and may be lost with the driver."""
    self._record("status", trial.trial_id, (trial.status, trial.num_failures, trial.error_text))


def _ended_twice(self: Search, trial: Trial) -> None:
    """Who suggests trials hears twice of an end."""
    _completed(self, trial)
    self.source.on_complete(trial, failed=False)


def _still_live(self: Search, trial: Trial) -> None:
    """A trial that has ended counts as one that goes on."""
    _completed(self, trial)
    self._live[trial.trial_id] = trial


def _runs_on(self: Search, trial: Trial) -> None:
    """A trial that gave up its place counts as one that runs."""


def _counts_from_its_start(self: Store, trial: Trial) -> None:
    """The journal does not say how far a checkpoint is."""
    self._record("checkpoints", trial.trial_id, (trial.checkpoint_path, trial.checkpoints, 0, 0.0))


def _two_at_once(self: Search) -> Trial | None:
    """A trial that runs is chosen once more."""
    running = [one for one in self.trials if one.status == RUNNING]
    return running[0] if running else _choose(self)


_choose, _completed = Search.choose, Search.completed

BUGS: dict[str, tuple[Any, str, Any]] = {
    "failures are not counted": (Search, "failed", _fails_on),
    "ends are not in the journal": (Store, "status", _forgets_ends),
    "ends may be lost with the driver": (Store, "status", _tells_late),
    "an end is told twice": (Search, "completed", _ended_twice),
    "what has ended goes on": (Search, "completed", _still_live),
    "what is paused runs": (Search, "paused", _runs_on),
    "what goes on counts from its start": (Store, "checkpointed", _counts_from_its_start),
    "a trial runs twice": (Search, "choose", _two_at_once),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_judge_finds_a_planted_bug(
    bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, instead = BUGS[bug]
    monkeypatch.setattr(owner, name, instead)
    for seed in range(SEEDS_OF_A_BUG):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            run(seed, folder)
        except AssertionError:
            return
    pytest.fail("no history shows it")
