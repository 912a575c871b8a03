"""The calls of one group of an async actor, without the actor: moments that a whole one rarely meets."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own event loop", allow_module_level=True)

from heliostat.core.aio.async_actor import _Group


class Call:
    """Stands for a call that has come; notes how it ended."""

    name, group, is_streaming, backpressure = "wait", "", False, 0

    def __init__(self, number: int) -> None:
        self.task = bytes([number])
        self.steps = 0
        self.ended: list[Any] = []

    async def _wait(self) -> str:
        self.steps += 1
        await asyncio.sleep(3600)
        return "never"

    def invoke(self) -> Any:
        return self._wait()

    def finish(self, value: Any) -> None:
        self.ended.append(value)

    def fail(self, error: BaseException) -> None:
        self.ended.append(type(error))


class Server:
    """Counts the calls that are over."""

    def __init__(self) -> None:
        self.n_over = 0

    def over(self, calls: int) -> None:
        self.n_over += calls


class Seen(NamedTuple):
    """How things stand after a scenario."""

    steps: list[int]
    ended: list[list[Any]]
    n_free: int
    n_begun: int
    n_over: int


def run(places: int, scenario: Any) -> Seen:
    async def play() -> Seen:
        calls, server = [Call(number) for number in range(3)], Server()
        group = _Group(asyncio.get_running_loop(), places, server)  # type: ignore[arg-type]
        await scenario(group, calls)
        for _ in range(3):
            await asyncio.sleep(0)
        steps, ended = [call.steps for call in calls], [call.ended[:] for call in calls]
        return Seen(steps, ended, group.free, len(group.tasks), server.n_over)

    return asyncio.run(play())


CANCELLED = [asyncio.CancelledError]


@pytest.mark.contract("F2.21")
def test_a_call_that_is_cancelled_before_its_first_step_ends() -> None:
    async def scenario(group: Any, calls: list[Call]) -> None:
        group.accept(calls[0])
        group.cancel(calls[0].task)

    assert run(1, scenario) == Seen([0, 0, 0], [CANCELLED, [], []], 1, 0, 1)


@pytest.mark.contract("F2.21")
def test_a_call_that_is_cancelled_when_its_place_becomes_free_does_not_run() -> None:
    async def scenario(group: Any, calls: list[Call]) -> None:
        for call in calls:
            group.accept(call)
        await asyncio.sleep(0)
        group.cancel(calls[0].task)
        while not calls[0].ended:
            await asyncio.sleep(0)
        group.cancel(calls[1].task)

    seen = run(1, scenario)
    assert seen == Seen([1, 0, 1], [CANCELLED, CANCELLED, []], 0, 1, 2), "the last has the place"


def test_calls_take_their_places_in_the_order_they_came() -> None:
    async def scenario(group: Any, calls: list[Call]) -> None:
        group.accept(calls[0])
        group.accept(calls[1])
        await asyncio.sleep(0)
        group.cancel(calls[0].task)
        while not calls[0].ended:
            await asyncio.sleep(0)
        group.accept(calls[2])

    assert run(1, scenario) == Seen([1, 1, 0], [CANCELLED, [], []], 0, 1, 1)
