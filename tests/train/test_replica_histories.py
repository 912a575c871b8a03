"""Histories of a run with replica groups from a seed: see ``simulated_replicas``.

``TRAIN_SEED=4711 pytest tests/train/test_replica_histories.py`` plays that one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own controller", allow_module_level=True)

from heliostat.train.coordinator.actor import TrainCoordinator
from heliostat.train.coordinator.replicas import ReplicaDesk
from heliostat.train.replicas.member import Member
from heliostat.train.replicas.plan import SamplePlan
from heliostat.train.replicas.quorum import Quorum
from heliostat.train.replicas.words import Progress
from simulated_replicas import ReplicaHistory
from simulated_run import History, playing, shows

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


def _forget_orphans(self: ReplicaDesk, group: int) -> None:
    """Who asks late for the state of a donor that is gone waits for ever."""
    LOST(self, group)
    self._orphaned = 0


async def _unheld(self: TrainCoordinator, *rest: Any) -> Any:
    """The checkpoint that replaced workers begin from is removed."""
    begun = await BEGIN(self, *rest)
    self._publisher.book.held = None
    return begun


ANSWER, DONE, LOST, BEGIN = (
    Quorum.answer,
    SamplePlan.done,
    ReplicaDesk.lost,
    TrainCoordinator.begin_replicas,
)
# What is replaced by what.
BUGS: dict[str, tuple[Any, str, Any]] = {
    "a quorum that breaks goes on counting": (Member, "abort", _go_on),
    "a quorum is formed before all have answered": (Quorum, "answer", _as_first_said),
    "the samples of a lost group are gone": (SamplePlan, "done", _forget),
    "a lost donor is waited for": (ReplicaDesk, "lost", _forget_orphans),
    "a replaced worker's checkpoint is removed": (TrainCoordinator, "begin_replicas", _unheld),
    "a worker is replaced for a quorum that does not know": (
        Quorum,
        "_take_in",
        lambda self, groups: self._members.update(groups),
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_judge_finds_a_planted_bug(
    bug: str, play: Callable[[int], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*BUGS[bug])
    assert shows(play, range(80)) is not None, "no history shows it"
