"""Histories of a training run from a seed: its real driver, coordinator, keepers and storage.

Workers die at any moment, also while they write; nodes join, die and are taken away; the coordinator and
the driver die and others take over; storage is slow, full or gone for a while. A judge counts every step and
every sample, knows what was acknowledged, and looks at all that a worker finds.

``TRAIN_SEED=4711 pytest tests/train/test_controller_histories.py`` plays that one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own controller", allow_module_level=True)

from heliostat.train.controller.run import TrainRun
from heliostat.train.coordinator.actor import TrainCoordinator
from heliostat.train.coordinator.attempt import pick
from heliostat.train.coordinator.checkpoint_book import CheckpointBook, Entry
from heliostat.train.coordinator.publish import Publisher
from heliostat.train.coordinator.saving import SaveRound
from heliostat.train.memory import keepers
from heliostat.train.memory.versions import MemoryOffer, Version, latest_whole
from heliostat.train.memory.versions import Progress as MemoryProgress
from heliostat.train.messages import Reply
from heliostat.train.replicas.plan import SamplePlan
from heliostat.train.storage.base import SNAPSHOT_FILE

from tests.helpers.simulated_run import History, playing, shows

SEEDS = [int(os.environ["TRAIN_SEED"])] if "TRAIN_SEED" in os.environ else range(100)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], History]]:
    yield from playing(monkeypatch)


@pytest.mark.contract("F9.09", "F9.23", "F9.24")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_comes_to_its_end_and_every_sample_counts_once(
    seed: int, play: Callable[[int], History]
) -> None:
    """CKPT-1, TRAIN-MEMORY-1, TRAIN-SAMPLES-1."""
    play(seed)


# ---- the judge: bugs that it has to find ----


def _any_part(parts: Any) -> MemoryOffer | None:
    """Memory is used though it is not whole."""
    found = list(parts)
    if not found:
        return None
    offer = MemoryOffer(max(p.version for p in found))
    for part in found:
        if part.version == offer.version:
            offer.parts.setdefault(part.rank, []).append(part)
    return offer


def _oldest_whole(parts: Any) -> MemoryOffer | None:
    """Of several states in memory an old one is taken."""
    found = list(parts)
    versions = sorted({p.version for p in found})
    offers = (latest_whole(p for p in found if p.version == v) for v in versions)
    return next((offer for offer in offers if offer is not None), None)


def _unwhole(self: MemoryProgress, version: Version, rank: int, size: int) -> Version:
    """A version counts as whole when one rank has handed it over."""
    self.whole = max(self.whole or version, version)
    return self.whole


def _best(self: CheckpointBook) -> Entry | None:
    """A restart begins from the best checkpoint."""
    ranked = self.ranked()
    return ranked[-1] if ranked else None


def _drop_latest(self: CheckpointBook) -> list[str]:
    """The latest is removed where it is not among the best."""
    if self.num_to_keep is None:
        return []
    kept = {id(e) for e in self.ranked()[-self.num_to_keep :]}
    dropped = [e.name for e in self.entries if id(e) not in kept]
    self.entries = [e for e in self.entries if id(e) in kept]
    self.leaving += dropped
    return dropped


async def _unrecorded(self: Publisher, stage: str, entries: Any, name: Any, *rest: Any) -> str:
    """A checkpoint is acknowledged before the snapshot says so."""
    write, self._storage = self._storage.write, _Silent(self._storage)
    assert write
    try:
        return await PUBLISH(self, stage, entries, name, *rest)
    finally:
        self._storage = self._storage.inner


class _Silent:
    """A storage that takes what is written, and has it no longer."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, name: str, data: bytes) -> None:
        if name != SNAPSHOT_FILE or self.inner.faults.world.rng.random() < 0.7:
            self.inner.write(name, data)


async def _early(
    self: Publisher, stage: str, entries: Any, name: Any, index: int, size: Any
) -> str:
    """The snapshot is written before the files have their name."""
    final = name or self._choose_name(entries)
    self.book.add(final, pick(entries).metrics, index, None, size)
    await self._do(self._storage.write, SNAPSHOT_FILE, self.book.to_json())
    self.book.entries.pop()
    return await PUBLISH(self, stage, entries, final, index, size)


async def _late(self: TrainCoordinator, number: int, *rest: Any) -> Reply:
    """A report of an attempt that is over counts in the next one."""
    return await REPORT_CALL(self, self._attempt.number, *rest)


PUBLISH, REPORT_CALL = Publisher.publish, TrainCoordinator.report
# What is replaced by what, and the first history in which it is looked for.
BUGS: dict[str, tuple[Any, str, Any, int]] = {
    "memory that is not whole is used": (keepers, "latest_whole", _any_part, 15),
    "an old state of memory is used": (keepers, "latest_whole", _oldest_whole, 12),
    "what is whole is said too early": (MemoryProgress, "kept", _unwhole, 20),
    "a restart begins from the best": (CheckpointBook, "latest", property(_best), 0),
    "the latest is removed": (CheckpointBook, "_drop", _drop_latest, 0),
    "an acknowledged checkpoint is not recorded": (Publisher, "publish", _unrecorded, 0),
    "a checkpoint is recorded before it is there": (Publisher, "publish", _early, 0),
    "an attempt ends behind an older checkpoint": (
        SaveRound,
        "is_later",
        lambda self, step: False,
        30,
    ),
    "another coordinator forgets": (TrainRun, "_reopened", lambda self: CheckpointBook(), 0),
    "a position has no epoch": (
        SamplePlan,
        "load_state_dict",
        lambda self, state: setattr(self, "position", state["position"]),
        0,
    ),
    "reports of an earlier attempt count": (TrainCoordinator, "report", _late, 260),
}


@pytest.mark.timeout(1800)  # thousands of histories, where a bug is hard to find
@pytest.mark.parametrize("bug", BUGS)
def test_the_judge_finds_a_planted_bug(
    bug: str, play: Callable[[int], History], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, name, instead, first = BUGS[bug]
    monkeypatch.setattr(owner, name, instead)
    assert shows(play, first) is not None, "no history shows it"
