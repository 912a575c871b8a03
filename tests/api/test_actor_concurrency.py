"""Actors that do several things: asyncio, threads, concurrency groups, streams, limits, cancelling."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from harness import wait_until
from ray.exceptions import (
    PendingCallsLimitExceeded,
    TaskCancelledError,
)

pytestmark = pytest.mark.usefixtures("ray_start")


@pytest.mark.contract("F2.12")
def test_async_actors_interleave() -> None:
    @ray.remote
    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> str:
            await self.event.wait()
            return "passed"

        async def open(self) -> None:
            self.event.set()

    gate = Gate.remote()
    waiting = [gate.wait.remote() for _ in range(20)]
    assert ray.wait(waiting, timeout=0.1)[0] == []
    ray.get(gate.open.remote())
    assert ray.get(waiting) == ["passed"] * 20


@pytest.mark.contract("F2.12", "F3.02")
def test_refs_can_be_awaited_in_an_async_actor() -> None:
    @ray.remote
    class Sum:
        async def of(self, refs: list[Any]) -> int:
            first = await refs[0]
            return first + sum(await asyncio.gather(*refs[1:]))

    assert ray.get(Sum.remote().of.remote([ray.put(1), ray.put(2), ray.put(3)])) == 6


@pytest.mark.contract("F2.12")
def test_max_concurrency_bounds_an_async_actor() -> None:
    @ray.remote
    class Peak:
        def __init__(self) -> None:
            self.now = self.most = 0

        async def run(self) -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0.02)
            self.now -= 1

        async def peak(self) -> int:
            return self.most

    peak = Peak.options(max_concurrency=3).remote()
    ray.get([peak.run.remote() for _ in range(12)])
    assert ray.get(peak.peak.remote()) == 3


@pytest.mark.contract("F2.13")
def test_threaded_actors_run_calls_side_by_side() -> None:
    @ray.remote(max_concurrency=2)
    class Pair:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def meet(self) -> bool:
            self.barrier.wait(20)
            return True

    pair = Pair.remote()
    assert ray.get([pair.meet.remote(), pair.meet.remote()]) == [True, True]


@pytest.mark.contract("F2.13")
def test_default_actors_run_one_call_at_a_time() -> None:
    @ray.remote
    class Alone:
        def __init__(self) -> None:
            self.inside = False

        def enter(self) -> bool:
            before, self.inside = self.inside, True
            time.sleep(0.01)
            self.inside = False
            return before

    alone = Alone.remote()
    assert not any(ray.get([alone.enter.remote() for _ in range(10)]))


@pytest.mark.contract("F2.14")
def test_concurrency_groups_keep_apart() -> None:
    @ray.remote(concurrency_groups={"io": 1})
    class Two:
        def __init__(self) -> None:
            self.event = threading.Event()

        @ray.method(concurrency_group="io")
        def block(self) -> bool:
            return self.event.wait(20)

        def release(self) -> None:
            self.event.set()

    two = Two.remote()
    blocked = two.block.remote()
    ray.get(two.release.remote(), timeout=20)
    assert ray.get(blocked) is True
    with pytest.raises(ValueError):
        Two.options(concurrency_groups={"io": 2}).remote()


@pytest.mark.contract("F2.19")
def test_max_pending_calls() -> None:
    @ray.remote(max_pending_calls=5)
    class Slow:
        def __init__(self) -> None:
            self.event = threading.Event()

        def block(self) -> None:
            self.event.wait(1)

    slow = Slow.remote()
    with pytest.raises(PendingCallsLimitExceeded):
        for _ in range(20):
            slow.block.remote()
    ray.kill(slow)


@pytest.mark.contract("F2.20")
def test_generator_methods_stream() -> None:
    @ray.remote
    class Stream:
        def sync(self, n: int) -> Any:
            for i in range(n):
                yield i

    @ray.remote
    class AsyncStream:
        async def numbers(self, n: int) -> Any:
            for i in range(n):
                await asyncio.sleep(0)
                yield i

    assert [ray.get(r) for r in Stream.remote().sync.remote(3)] == [0, 1, 2]
    assert [ray.get(r) for r in AsyncStream.remote().numbers.remote(3)] == [0, 1, 2]


@pytest.mark.contract("F2.21")
def test_cancel_of_an_async_call() -> None:
    @ray.remote
    class Forever:
        async def run(self) -> None:
            await asyncio.sleep(1000)

        async def ready(self) -> bool:
            return True

    forever = Forever.remote()
    ref = forever.run.remote()
    assert ray.get(forever.ready.remote())
    with pytest.raises(ValueError):
        ray.cancel(ref, force=True)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)
    assert ray.get(forever.ready.remote())


@pytest.mark.contract("F2.21")
def test_cancel_of_a_running_sync_call_sets_its_flag() -> None:
    @ray.remote
    class Polite:
        def run(self, path: str) -> str:
            open(path, "w").close()
            deadline = time.monotonic() + 20
            while not ray.get_runtime_context().is_canceled():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return "saw it"

    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        mark = Path(directory, "started")
        ref = Polite.remote().run.remote(str(mark))
        wait_until(mark.exists, what="the call runs")
        ray.cancel(ref)
        try:
            assert ray.get(ref, timeout=20) == "saw it"
        except TaskCancelledError:
            pass
