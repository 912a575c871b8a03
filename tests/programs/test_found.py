"""What random programs have found, each as the smallest program that shows it."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import TaskCancelledError

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

LONG_S = 50.0


def is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def load_slowly(path: str) -> None:
    open(path, "w").close()
    time.sleep(1.0)


class SlowToLoad:
    """A value that takes its time to arrive, and says that it is about to."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return load_slowly, (self.path,)


@pytest.mark.contract("F1.16")
@pytest.mark.parametrize("where", ["in the function", "in an argument"])
def test_a_task_that_is_cancelled_while_it_is_loaded_ends(tmp_path: Path, where: str) -> None:
    path = tmp_path / "loading"
    slow = SlowToLoad(str(path))
    captured = slow if where == "in the function" else None

    @ray.remote
    def endless(_argument: Any) -> None:
        assert captured is None
        while True:
            time.sleep(0.01)

    ref = endless.remote(slow if captured is None else None)
    wait_until(path.exists, within=LONG_S, what="the task is loaded")
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=LONG_S)


@pytest.mark.contract("F1.16", "F2.21")
@pytest.mark.parametrize("places", [1, 8])
def test_an_async_method_that_is_cancelled_before_its_first_step_ends(places: int) -> None:
    @ray.remote(max_concurrency=places)
    class Busy:
        async def block(self) -> None:
            time.sleep(1.0)

        async def wait(self) -> None:
            await asyncio.sleep(3600)

        async def items(self) -> Any:
            yield 1
            await asyncio.sleep(3600)

        async def ready(self) -> str:
            return "ready"

    actor = Busy.remote()
    assert ray.get(actor.ready.remote(), timeout=LONG_S) == "ready"
    actor.block.remote()
    refs = [actor.wait.remote() for _ in range(4)]
    for ref in refs:
        ray.cancel(ref)
    for ref in refs:
        with pytest.raises(TaskCancelledError):
            ray.get(ref, timeout=LONG_S)
    assert ray.get(actor.ready.remote(), timeout=LONG_S) == "ready", "their places are free"


@pytest.mark.contract("F3.09")
def test_what_a_worker_made_outlives_the_process_that_leased_it() -> None:
    @ray.remote
    def inner() -> list[Any]:
        return [ray.put(b"x" * 200_000)]

    @ray.remote(max_calls=1)
    def outer() -> tuple[int, list[Any]]:
        return os.getpid(), ray.get(inner.remote())

    for _ in range(3):
        pid, [ref] = ray.get(outer.remote(), timeout=LONG_S)
        wait_until(lambda pid=pid: not is_alive(pid), within=LONG_S, what="its worker has ended")
        assert ray.get(ref, timeout=LONG_S) == b"x" * 200_000


@pytest.mark.contract("F3.09")
@pytest.mark.heliostat_only("on Ray objects stay until the worker collects of itself")
def test_an_idle_worker_lets_go_of_what_its_errors_refer_to() -> None:
    from ray.util.state import list_objects

    @ray.remote
    def fails() -> None:
        raise ValueError("by intent")

    def keep(refs: list[Any]) -> None:
        found: list[Any] = []

        def read() -> None:
            try:
                ray.get(fails.remote())
            except ValueError as error:
                found.append((error, refs))

        read()

    @ray.remote
    class Actor:
        def keep(self, refs: list[Any]) -> None:
            keep(refs)

        async def keep_async(self, refs: list[Any]) -> None:
            found: list[Any] = []
            try:
                await fails.remote()
            except ValueError as error:
                found.append((error, refs))

    @ray.remote
    class Plain:
        def keep(self, refs: list[Any]) -> None:
            keep(refs)

    refs = [ray.put(bytes(200_000)) for _ in range(3)]
    kept = {ref.hex() for ref in refs}
    async_actor, plain = Actor.remote(), Plain.remote()
    calls = [
        ray.remote(keep).remote([refs[0]]),
        async_actor.keep_async.remote([refs[1]]),
        plain.keep.remote([refs[2]]),
    ]
    ray.get(calls, timeout=LONG_S)
    del refs

    def all_gone() -> bool:
        rows = list_objects(limit=10_000, raise_on_missing_output=False)
        return kept.isdisjoint(row.object_id for row in rows)

    wait_until(all_gone, within=LONG_S, what="no worker holds the objects")


@pytest.mark.contract("F3.02", "F1.02")
@pytest.mark.heliostat_only("looks at how our futures wait")
def test_a_future_waits_quietly_while_other_calls_are_due() -> None:
    """Each mark for the calls that wait for their turn was made again as soon as it was read."""

    @ray.remote
    def never() -> None:
        time.sleep(3600)

    def inner() -> int:
        return 1

    @ray.remote
    class Waits:
        def count(self, refs: list[Any]) -> int:
            from heliostat.core.aio import futures

            looks = 0
            look = futures._Waiters.on_readable

            def counted(self: Any) -> None:
                nonlocal looks
                looks += 1
                look(self)

            futures._Waiters.on_readable = counted  # type: ignore[method-assign]
            future = refs[0].future()
            # The one that comes marks that it is there, and from then on somebody reads the marks.
            assert ray.remote(num_cpus=0)(inner).remote().future().result(LONG_S) == 1
            time.sleep(0.5)  # for as long the marks are counted
            assert not future.done()
            return looks

        def after(self) -> str:
            return "ready"

    pending = never.remote()
    actor = Waits.remote()
    assert ray.get(actor.after.remote(), timeout=LONG_S) == "ready"
    looks = actor.count.remote([pending])
    behind = [actor.after.remote() for _ in range(8)]
    assert ray.get(looks, timeout=LONG_S) < 100
    assert ray.get(behind, timeout=LONG_S) == ["ready"] * 8
    ray.cancel(pending, force=True)
