"""Async actors: their constructors' loop, and the loop of each concurrency group."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import TaskCancelledError

pytestmark = pytest.mark.usefixtures("ray_start")

LIMIT_S = 60


@ray.remote(num_cpus=0, concurrency_groups={"a": 2, "b": 2})
class Groups:
    def __init__(self) -> None:
        self.go = threading.Event()
        self.constructed = (threading.get_ident(), id(asyncio.get_running_loop()))

    def where(self) -> tuple[int, int]:
        """A plain method runs on its group's loop, too."""
        return threading.get_ident(), id(asyncio.get_running_loop())

    async def where_async(self) -> tuple[int, int]:
        await asyncio.sleep(0)
        return threading.get_ident(), id(asyncio.get_running_loop())

    async def made_in(self) -> tuple[int, int]:
        return self.constructed

    async def block(self) -> bool:
        """Blocks the thread, which no coroutine should."""
        return self.go.wait(LIMIT_S)

    async def free(self) -> None:
        self.go.set()

    async def read(self, box: list[Any]) -> int:
        return len(await box[0])

    async def gather(self, box: list[Any]) -> list[int]:
        return [len(value) for value in await asyncio.gather(*box)]

    async def items(self, number: int) -> AsyncIterator[int]:
        for i in range(number):
            await asyncio.sleep(0)
            yield i

    async def forever(self) -> None:
        await asyncio.Event().wait()

    async def task_id(self) -> str | None:
        await asyncio.sleep(0)
        return ray.get_runtime_context().get_task_id()

    async def fail(self) -> None:
        raise ValueError("on purpose")


def of(actor: Any, method: str, group: str) -> Any:
    found = getattr(actor, method)
    return found.options(concurrency_group=group) if group else found


GROUPS = ["", "a", "b"]


@pytest.mark.contract("F2.12", "F2.14")
def test_each_group_has_a_thread_and_a_loop() -> None:
    actor = Groups.remote()
    places = [ray.get(of(actor, "where", group).remote()) for group in GROUPS]
    assert len({thread for thread, _ in places}) == len({loop for _, loop in places}) == 3
    assert [ray.get(of(actor, "where_async", group).remote()) for group in GROUPS] == places
    assert ray.get(actor.made_in.remote()) == places[0]


@pytest.mark.contract("F2.12", "F2.14")
@pytest.mark.parametrize("blocked", GROUPS)
def test_a_method_that_blocks_its_thread_holds_up_its_group_only(blocked: str) -> None:
    actor = Groups.remote()
    held = [of(actor, "block", blocked).remote(), of(actor, "where_async", blocked).remote()]
    large = ray.put(np.zeros(1 << 20, np.uint8))

    @ray.remote(num_cpus=0)
    def late() -> bytes:
        return bytes(300 << 10)

    for group in GROUPS:
        if group == blocked:
            continue
        assert len(ray.get(of(actor, "where", group).remote(), timeout=LIMIT_S)) == 2
        read = of(actor, "read", group).remote([late.remote()])
        assert ray.get(read, timeout=LIMIT_S) == 300 << 10
        gathered = of(actor, "gather", group).remote([large, late.remote()])
        assert ray.get(gathered, timeout=LIMIT_S) == [1 << 20, 300 << 10]
        stream = of(actor, "items", group).remote(3)
        assert [ray.get(ref, timeout=LIMIT_S) for ref in stream] == [0, 1, 2]
        with pytest.raises(ValueError, match="on purpose"):
            ray.get(of(actor, "fail", group).remote(), timeout=LIMIT_S)
        endless = of(actor, "forever", group).remote()
        ray.cancel(endless)
        with pytest.raises(TaskCancelledError):
            ray.get(endless, timeout=LIMIT_S)
    assert ray.wait(held, timeout=0)[0] == []
    free = next(group for group in GROUPS if group != blocked)
    ray.get(of(actor, "free", free).remote(), timeout=LIMIT_S)
    assert ray.get(held, timeout=LIMIT_S)[0] is True


@pytest.mark.contract("F2.14")
@pytest.mark.parametrize("group", GROUPS)
def test_calls_of_a_group_know_themselves_and_its_bound_holds(group: str) -> None:
    actor = Groups.options(max_concurrency=2).remote()
    refs = [of(actor, "task_id", group).remote() for _ in range(20)]
    assert ray.get(refs, timeout=LIMIT_S) == [ref.task_id().hex() for ref in refs]
    endless = [of(actor, "forever", group).remote() for _ in range(3)]
    behind = of(actor, "where", group).remote()
    assert ray.wait([behind], timeout=0.3)[0] == []
    # One that runs or waits: two of three leave their places, and the last one takes one.
    for ref in endless[:2]:
        ray.cancel(ref)
    assert len(ray.get(behind, timeout=LIMIT_S)) == 2


class Loops:
    def __init__(self, box: list[Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.create_task(self.run(box))
        self.thread = threading.get_ident()
        self.blocking = len(ray.get(box[0]))

    async def run(self, box: list[Any]) -> int:
        await asyncio.sleep(0)
        return len(await box[0])

    async def seen(self) -> tuple[int, int, bool, bool]:
        same = asyncio.get_running_loop() is self.loop
        return await self.task, self.blocking, same, threading.get_ident() == self.thread


@pytest.mark.contract("F2.12")
@pytest.mark.parametrize("groups", [{}, {"io": 1}], ids=["one loop", "groups"])
@pytest.mark.parametrize("size", [10, 1 << 20])
def test_a_plain_constructor_runs_on_the_loop(size: int, groups: dict[str, int]) -> None:
    options = {"concurrency_groups": groups} if groups else {}
    actor = ray.remote(num_cpus=0, **options)(Loops).remote([ray.put(bytes(size))])
    assert ray.get(actor.seen.remote(), timeout=LIMIT_S) == (size, size, True, True)


@pytest.mark.contract("F2.12", "F2.10")
@pytest.mark.parametrize("groups", [{}, {"io": 1}], ids=["one loop", "groups"])
@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_constructor_that_raises_on_the_loop(
    error: type[BaseException], groups: dict[str, int]
) -> None:
    class Fails:
        def __init__(self) -> None:
            raise error("on purpose")

        async def run(self) -> None: ...

    options = {"concurrency_groups": groups} if groups else {}
    actor = ray.remote(num_cpus=0, **options)(Fails).remote()
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(actor.run.remote(), timeout=LIMIT_S)


@pytest.mark.contract("F2.12")
def test_a_constructor_cannot_run_a_loop_of_its_own() -> None:
    class Runs:
        def __init__(self) -> None:
            coroutine = asyncio.sleep(0)
            try:
                asyncio.run(coroutine)
                self.says = ""
            except RuntimeError as error:
                coroutine.close()
                self.says = str(error)

        async def said(self) -> str:
            return self.says

    says = ray.get(ray.remote(num_cpus=0)(Runs).remote().said.remote(), timeout=LIMIT_S)
    assert "running event loop" in says


@pytest.mark.contract("F2.12")
def test_calls_of_a_group_do_not_wait_for_a_constructors_task() -> None:
    @ray.remote(num_cpus=0)
    class Ticks:
        def __init__(self) -> None:
            self.count = 0
            self.task = asyncio.create_task(self.tick())

        async def tick(self) -> None:
            while True:
                self.count += 1
                await asyncio.sleep(0.001)

        async def ticks(self) -> int:
            return self.count

    actor = Ticks.remote()
    first = ray.get(actor.ticks.remote())
    deadline = time.monotonic() + LIMIT_S
    while ray.get(actor.ticks.remote()) <= first + 5:
        assert time.monotonic() < deadline
