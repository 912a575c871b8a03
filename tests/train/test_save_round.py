"""Which step all ranks save behind, by random histories of ranks that are asked at any moment."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

pytestmark = pytest.mark.heliostat_only("inside of the coordinator")

from heliostat.train.coordinator import actor  # noqa: E402
from heliostat.train.coordinator.actor import TrainCoordinator  # noqa: E402
from heliostat.train.coordinator.checkpoint_book import CheckpointBook  # noqa: E402
from heliostat.train.coordinator.saving import SaveRound  # noqa: E402
from heliostat.train.messages import SAVE, Reply, ReportEntry  # noqa: E402
from heliostat.train.settings import TrainSettings  # noqa: E402
from heliostat.train.storage.local import LocalStorage  # noqa: E402


class Rank:
    """A rank that makes steps together with the others."""

    def __init__(self) -> None:
        self.step, self.is_in_step, self.is_asked = 0, False, False
        self.saved: int | None = None
        self.target: asyncio.Task[int] | None = None


@pytest.mark.contract("F9.23")
@pytest.mark.parametrize("seed", range(200))
def test_all_ranks_save_behind_the_same_step(seed: int) -> None:
    """A step ends when all are in it, so nobody waits for a rank that waits for nobody's step."""

    async def history() -> None:
        order = random.Random(seed)
        ranks = [Rank() for _ in range(order.randint(1, 4))]
        saving = SaveRound(1, len(ranks))
        for _ in range(100_000):
            if all(rank.saved is not None for rank in ranks):
                break
            number = order.randrange(len(ranks))
            rank = ranks[number]
            if not rank.is_asked and order.random() < 0.02:
                rank.is_asked = True
                saving.heard(number, rank.step + rank.is_in_step)
            elif rank.is_in_step:
                is_done = all(r.step > rank.step or r.is_in_step for r in ranks)
                if is_done:
                    rank.step, rank.is_in_step = rank.step + 1, False
            elif not rank.is_asked or rank.saved is not None:
                rank.is_in_step = rank.saved is None
            elif rank.target is None:
                rank.target = asyncio.ensure_future(saving.target(rank.step))
            elif rank.target.done():
                if rank.step >= rank.target.result():
                    rank.saved = rank.step
                else:
                    rank.target, rank.is_in_step = None, True
            await asyncio.sleep(0)
        saved = {rank.saved for rank in ranks}
        assert len(saved) == 1, saved
        assert None not in saved, "it waits for ever"

    asyncio.run(history())


@pytest.mark.contract("F9.23")
def test_ranks_that_have_made_no_step_save_where_they_are() -> None:
    async def history() -> int:
        saving = SaveRound(1, 2)
        saving.heard(0, None)
        saving.heard(1, None)
        return await saving.target(7)

    assert asyncio.run(history()) == 7


def test_nobody_waits_behind_the_end() -> None:
    async def history() -> int:
        saving = SaveRound(1, 2)
        saving.heard(0, 3)
        saving.end()
        return await saving.target(1)

    assert asyncio.run(history()) == 3


def test_a_checkpoint_that_was_begun_before_is_not_the_one_that_was_asked_for() -> None:
    saving = SaveRound(1, 2)
    assert saving.is_later(3), "nobody has said yet how far it is"
    saving.heard(0, 4)
    saving.heard(1, 5)
    assert [saving.is_later(step) for step in (3, 4, 5, 6)] == [True, True, False, False]
    assert not saving.is_later(None), "where nobody counts steps, the next one is"
    saving.failed()
    assert saving.is_later(6), "the ranks went on from it, and are asked again"


class Run:
    """One rank and its coordinator, which is to end the attempt."""

    def __init__(self, folder: Path) -> None:
        self.storage = LocalStorage(str(folder / "run"), None, False)
        self.storage.prepare()
        settings = TrainSettings.from_environment()
        self.coordinator = TrainCoordinator(self.storage, CheckpointBook(), settings, False)
        self.source = folder / "source"
        self.source.mkdir()
        self.reports = 0

    async def asked(self) -> int:
        """Wait until the rank hears that it is to save; returns the number of that."""
        command = await self.coordinator.control(0, 0, 0, None, None)
        return int(command.removeprefix(SAVE))

    async def report(self, step: int, failed: str = "") -> Reply:
        number, self.reports = self.reports, self.reports + 1
        entry = ReportEntry({}, step=step, may_fail=True, failed=failed)
        if not failed:
            self.storage.upload(str(self.source), f"0-{number}", "")
            entry.staged = True
        return await self.coordinator.report(0, 0, number, entry, False)


def test_an_attempt_ends_behind_the_checkpoint_that_was_asked_for(tmp_path: Path) -> None:
    """Not behind one that was under way: the steps since then would be made twice."""

    async def history() -> list[bool]:
        run = Run(tmp_path)
        await run.coordinator.begin(0, 1)
        await run.coordinator.request_resize(0, True, None)
        before = await run.report(3)
        await run.coordinator.save_asked(0, 0, await run.asked(), 5)
        between = await run.report(4)
        return [before.go_on, between.go_on, (await run.report(5)).go_on]

    assert asyncio.run(history()) == [True, True, False]


def test_ranks_are_asked_again_where_their_checkpoint_was_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "_SAVE_AGAIN_S", 0.01)

    async def history() -> tuple[list[int], list[bool]]:
        run = Run(tmp_path)
        await run.coordinator.begin(0, 1)
        await run.coordinator.request_resize(0, True, None)
        first = await run.asked()
        await run.coordinator.save_asked(0, 0, first, 5)
        failed = await run.report(5, failed="the disk is full")
        between = await run.report(6)
        second = await asyncio.wait_for(run.asked(), 60)
        await run.coordinator.save_asked(0, 0, second, 7)
        last = await run.report(7)
        return [first, second], [failed.go_on, between.go_on, last.go_on]

    assert asyncio.run(history()) == ([1, 2], [True, True, False])
