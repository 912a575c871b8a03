"""Actors that do several things: asyncio, threads, concurrency groups, streams, limits, cancelling."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import (
    PendingCallsLimitExceeded,
    TaskCancelledError,
)

from tests.helpers.harness import wait_until

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


@pytest.mark.contract("F2.12")
def test_an_async_actor_runs_a_thousand_calls_at_once_and_no_more() -> None:
    @ray.remote(concurrency_groups={"control": 1})
    class Crowd:
        def __init__(self) -> None:
            self.inside = self.most = 0
            self.open, self.loop = asyncio.Event(), asyncio.get_running_loop()

        async def enter(self) -> None:
            self.inside += 1
            self.most = max(self.most, self.inside)
            await self.open.wait()
            self.inside -= 1

        @ray.method(concurrency_group="control")
        async def now(self) -> int:
            return self.inside

        @ray.method(concurrency_group="control")
        async def release(self) -> None:
            # Each group has a loop of its own.
            self.loop.call_soon_threadsafe(self.open.set)

        async def peak(self) -> int:
            return self.most

    crowd = Crowd.remote()
    refs = [crowd.enter.remote() for _ in range(1100)]
    wait_until(lambda: ray.get(crowd.now.remote()) == 1000, what="a thousand inside")
    ray.get(crowd.release.remote())
    ray.get(refs, timeout=30)
    assert ray.get(crowd.peak.remote()) == 1000


@pytest.mark.contract("F2.12")
def test_a_blocking_get_in_an_async_actor_is_warned_of(run_driver: Any) -> None:
    done = run_driver(
        """
        import time
        import ray

        ray.init(address="local", num_cpus=2, include_dashboard=False)

        @ray.remote
        def slow():
            time.sleep(0.2)
            return 3

        @ray.remote
        class Blocks:
            async def run(self):
                return ray.get(slow.remote())

        print(f"value={ray.get(Blocks.remote().run.remote())}", flush=True)
        """
    ).check()
    assert done.value("value") == "3"
    assert "Using blocking ray.get inside async actor" in done.output


@pytest.mark.contract("F2.13")
@pytest.mark.parametrize("kind", ["async", "threads"])
def test_order_cannot_be_asked_of_actors_that_do_several_things(kind: str) -> None:
    class Async:
        async def run(self) -> None: ...

    class Plain:
        def run(self) -> int:
            return 1

    cls, options = (Async, {}) if kind == "async" else (Plain, {"max_concurrency": 2})
    with pytest.raises(ValueError, match="out-of-order"):
        ray.remote(cls).options(allow_out_of_order_execution=False, **options).remote()
    alone = ray.remote(Plain).options(allow_out_of_order_execution=False).remote()
    assert ray.get(alone.run.remote()) == 1


@pytest.mark.contract("F2.14", "F2.15")
def test_the_group_of_a_call_can_be_chosen_at_the_call() -> None:
    @ray.remote(concurrency_groups={"io": 1})
    class Two:
        def __init__(self) -> None:
            self.event = threading.Event()

        def block(self) -> bool:
            return self.event.wait(20)

        def release(self) -> str:
            self.event.set()
            return threading.current_thread().name

    two = Two.remote()
    blocked = two.block.remote()
    ray.get(two.release.options(concurrency_group="io").remote(), timeout=20)
    assert ray.get(blocked) is True


@pytest.mark.contract("F2.14")
def test_a_group_is_no_larger_than_it_says_and_outlives_a_restart() -> None:
    @ray.remote(concurrency_groups={"io": 2}, max_restarts=1, max_task_retries=1)
    class Groups:
        def __init__(self) -> None:
            self.lock = threading.Lock()
            self.inside = self.most = 0

        @ray.method(concurrency_group="io")
        def work(self) -> None:
            with self.lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
            time.sleep(0.02)
            with self.lock:
                self.inside -= 1

        def peak(self) -> int:
            return self.most

    groups = Groups.remote()
    for _ in range(2):
        ray.get([groups.work.remote() for _ in range(8)])
        assert ray.get(groups.peak.remote()) == 2
        ray.kill(groups, no_restart=False)


@pytest.mark.contract("F2.13")
def test_each_thread_of_an_actor_has_locals_of_its_own() -> None:
    @ray.remote(max_concurrency=2)
    class Threads:
        def __init__(self) -> None:
            self.local = threading.local()
            self.local.made_here = True
            self.barrier = threading.Barrier(2)

        def meet(self) -> tuple[bool, bool, str]:
            fresh = not hasattr(self.local, "seen")
            self.local.seen = True
            self.barrier.wait(20)
            made_here = getattr(self.local, "made_here", False)
            return fresh, made_here, ray.get_runtime_context().get_task_id()

    threads = Threads.remote()
    both = ray.get([threads.meet.remote(), threads.meet.remote()])
    assert [found[:2] for found in both] == [(True, False)] * 2
    assert len({found[2] for found in both}) == 2, "each knows the call that it runs"


@pytest.mark.contract("F2.19")
def test_the_limit_on_pending_calls_is_lifted_by_answers_and_names_the_option() -> None:
    @ray.remote(max_pending_calls=2)
    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> None:
            await self.event.wait()

        async def open(self) -> None:
            self.event.set()

    gate = Gate.remote()
    refs = [gate.wait.remote(), gate.open.remote()]
    with pytest.raises(PendingCallsLimitExceeded, match="max_pending_calls"):
        gate.wait.remote()
    ray.get(refs, timeout=20)
    ray.get([gate.wait.remote(), gate.wait.remote()], timeout=20)


@pytest.mark.contract("F2.20", "F2.21")
def test_a_cancelled_stream_of_an_async_actor_is_closed() -> None:
    @ray.remote
    class Endless:
        def __init__(self) -> None:
            self.closed: list[str] = []

        async def numbers(self) -> Any:
            try:
                while True:
                    yield 1
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.closed.append("cancelled")
                raise
            finally:
                self.closed.append("closed")

        def seen(self) -> list[str]:
            return self.closed

    endless = Endless.remote()
    stream = endless.numbers.remote()
    assert ray.get(next(stream)) == 1
    ray.cancel(stream)
    with pytest.raises(TaskCancelledError):
        for ref in stream:
            ray.get(ref, timeout=20)
    assert wait_until(lambda: ray.get(endless.seen.remote())) == ["cancelled", "closed"]


@pytest.mark.contract("F2.21")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_call_that_waits_for_its_turn_is_dropped(kind: str) -> None:
    class Plain:
        def __init__(self) -> None:
            self.ran: list[str] = []

        def run(self, name: str, seconds: float) -> str:
            self.ran.append(name)
            time.sleep(seconds)
            return name

        def seen(self) -> list[str]:
            return self.ran

    class Async(Plain):
        async def run(self, name: str, seconds: float) -> str:  # type: ignore[override]
            self.ran.append(name)
            await asyncio.sleep(seconds)
            return name

    cls = Async if kind == "async" else Plain
    actor = ray.remote(cls).options(max_concurrency=1).remote()
    ray.get(actor.seen.remote())
    first, second, third = (actor.run.remote(n, s) for n, s in (("a", 0.5), ("b", 0), ("c", 0)))
    ray.cancel(second)
    with pytest.raises(TaskCancelledError):
        ray.get(second, timeout=20)
    assert ray.get([first, third], timeout=20) == ["a", "c"]
    assert ray.get(actor.seen.remote()) == ["a", "c"]
