"""Which step all ranks save behind, by random histories of ranks that are asked at any moment."""

from __future__ import annotations

import asyncio
import random

import pytest

pytestmark = pytest.mark.heliostat_only("inside of the coordinator")

from heliostat.train.coordinator.saving import SaveRound  # noqa: E402


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
