"""Histories of a run with replica groups from a seed: see ``simulated_replicas``.

``TRAIN_SEED=4711 pytest tests/train/test_replica_histories.py`` plays that one.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own controller", allow_module_level=True)

from heliostat.train.controller.resizing import Resizer
from heliostat.train.coordinator.actor import TrainCoordinator
from heliostat.train.coordinator.publish import Publisher
from heliostat.train.coordinator.rendezvous import Rendezvous
from heliostat.train.coordinator.replicas import QuorumService
from heliostat.train.group.nodes import NodeWatch
from heliostat.train.replicas.member import Member
from heliostat.train.replicas.messages import Progress
from heliostat.train.replicas.plan import SamplePlan
from heliostat.train.replicas.quorum import Quorum
from heliostat.train.steps import pace
from heliostat.train.steps.messages import StepTimes
from heliostat.train.steps.pace import _Rank

from tests.helpers.simulated_replicas import ReplicaHistory
from tests.helpers.simulated_run import History, playing, shows

SEEDS = [int(os.environ["TRAIN_SEED"])] if "TRAIN_SEED" in os.environ else range(40)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], History]]:
    from heliostat.train.coordinator import actor

    monkeypatch.setattr(actor, "open_store", lambda: ("host", 1, None))
    yield from playing(monkeypatch, ReplicaHistory)


@pytest.mark.contract("F9.09")
@pytest.mark.parametrize("seed", SEEDS)
def test_replica_groups_go_on_and_every_sample_counts_once(
    seed: int, play: Callable[[int], History]
) -> None:
    """TRAIN-QUORUM-1, TRAIN-SAMPLES-1, CKPT-1."""
    play(seed)


# ---- the judge: bugs that it has to find ----


def _go_on(self: Member, quorum: int) -> Progress | None:
    """A rank says how far it has come, and still counts in the quorum."""
    if quorum < self.quorum:
        return None
    self.quorum = quorum
    return self.progress


def _as_first_said(self: Quorum, *event: Any) -> Any:
    """The next quorum is formed when one member has answered."""
    _, _, quorum, progress = event
    if self._answers is not None and quorum == self.number:
        self._answers.update(dict.fromkeys(self._living(), progress))
    return ANSWER(self, *event)


def _forget(self: SamplePlan, shares: Any, counted: Any) -> None:
    """The samples of a group that has died within the step are not given out again."""
    DONE(self, shares, set(shares))


def _forget_orphans(self: QuorumService, group: int) -> None:
    """Who asks late for the state of a donor that is gone waits for ever."""
    LOST(self, group)
    self._orphaned = 0


async def _unheld(self: TrainCoordinator, *rest: Any) -> Any:
    """The checkpoint that replaced workers begin from is removed."""
    begun = await BEGIN(self, *rest)
    self._publisher.book.held = None
    return begun


def _moves(self: Resizer) -> float | None:
    """Replica groups end the attempt to leave a node."""
    self._stays = False
    return TICK(self)


async def _whatever(self: Publisher, call: Any, *args: Any) -> None:
    """What a full disk does not take counts as stored."""
    with contextlib.suppress(OSError):
        await DO(self, call, *args)


def _by_whole_steps(times: StepTimes, all_times: list[StepTimes]) -> float:
    """Ranks are compared by steps in which they wait for each other."""
    others = [t.total for t in all_times if t.rank != times.rank]
    return times.total / statistics.median(others) if others else 1.0


TICK, DO = Resizer.tick, Publisher._do
ANSWER, DONE, LOST, BEGIN = (
    Quorum.answer,
    SamplePlan.done,
    QuorumService.lost,
    TrainCoordinator.begin_replicas,
)
# What is replaced by what, and the first history in which it is looked for.
BUGS: dict[str, tuple[Any, str, Any, int]] = {
    "a quorum that breaks goes on counting": (Member, "abort", _go_on, 1),
    "a quorum is formed before all have answered": (Quorum, "answer", _as_first_said, 17),
    "the samples of a lost group are gone": (SamplePlan, "done", _forget, 1),
    "a lost donor is waited for": (QuorumService, "lost", _forget_orphans, 263),
    "a replaced worker's checkpoint is removed": (TrainCoordinator, "begin_replicas", _unheld, 15),
    "a node that leaves ends the attempt": (Resizer, "tick", _moves, 63),
    "a node that was taken away is a failure": (NodeWatch, "stays", lambda self, node_id: True, 51),
    "workers hear of a node that has gone": (Resizer, "_take_back", lambda self: None, 49),
    "what a full disk refuses is stored": (Publisher, "_do", _whatever, 200),
    "a lost rank's files are part of a checkpoint": (
        Publisher,
        "_files_of_the_living",
        staticmethod(lambda entries, world_size: None),
        37,
    ),
    "a lost group's report is part of a checkpoint": (
        Rendezvous,
        "withdraw",
        lambda self, rank: None,
        879,
    ),
    "whoever is slow is not found": (pace, "compared", _by_whole_steps, 82),
    "whoever takes the place of a slow one is slow": (_Rank, "forget", lambda self: None, 158),
    "a group that joins is waited for before it is in": (
        Rendezvous,
        "grow",
        lambda self, world_size: setattr(self, "world_size", world_size),
        69,
    ),
    "a worker is replaced for a quorum that does not know": (
        Quorum,
        "_take_in",
        lambda self, groups: self._members.update(groups),
        0,
    ),
}


@pytest.mark.timeout(1800)  # thousands of histories, where a bug is hard to find
@pytest.mark.parametrize("bug", BUGS)
def test_the_judge_finds_a_planted_bug(
    bug: str, play: Callable[[int], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, instead, first = BUGS[bug]
    monkeypatch.setattr(owner, name, instead)
    assert shows(play, first) is not None, "no history shows it"
