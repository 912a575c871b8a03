"""Which routers know the last change of a deployment."""

from __future__ import annotations

import asyncio
from typing import Any

from heliostat.serve.controller.watch import Watches
from heliostat.serve.specs import DeploymentID

KEY = DeploymentID("app", "deployment")
S = 60


async def turn() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def runs(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario(), S))


def test_a_router_is_behind_until_it_asks_with_the_last_version() -> None:
    async def scenario() -> None:
        watches = Watches()
        told = asyncio.ensure_future(watches.wait(KEY, "r", 0))
        await turn()
        watches.changed(KEY)
        await told
        # The second change comes before the router has asked again.
        watches.changed(KEY)
        known = asyncio.ensure_future(watches.acknowledged(KEY, S))
        await turn()
        assert not known.done()
        await watches.wait(KEY, "r", 1)  # it asks with the first, and hears of the second at once
        await turn()
        assert not known.done()
        waits = asyncio.ensure_future(watches.wait(KEY, "r", 2))
        await known
        waits.cancel()

    runs(scenario)


def test_every_router_has_to_know() -> None:
    async def scenario() -> None:
        watches = Watches()
        await watches.wait(KEY, "late", -1)  # told how it is, and not back yet
        waits = [asyncio.ensure_future(watches.wait(KEY, "early", 0))]
        known = asyncio.ensure_future(watches.acknowledged(KEY, S))
        await turn()
        assert not known.done()
        waits.append(asyncio.ensure_future(watches.wait(KEY, "late", 0)))
        await known
        for one in waits:
            one.cancel()

    runs(scenario)


def test_a_router_that_has_ended_is_waited_for_once() -> None:
    async def scenario() -> None:
        watches = Watches()
        await watches.wait(KEY, "gone", -1)
        await watches.acknowledged(KEY, 0.01)
        await watches.acknowledged(KEY, S)

    runs(scenario)


def test_nobody_listens() -> None:
    async def scenario() -> None:
        watches = Watches()
        watches.changed(KEY)
        await watches.acknowledged(KEY, S)

    runs(scenario)
