"""Cancelling tasks: in every state they can be in, by whom it is asked, and what it reaches."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayTaskError, TaskCancelledError, WorkerCrashedError

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


@ray.remote
def add(a: int, b: int = 10) -> int:
    return a + b


@pytest.mark.contract("F1.16")
def test_cancel_a_task_that_waits_for_resources() -> None:
    ref = add.options(num_cpus=1000).remote(1)
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)


@pytest.mark.contract("F1.16")
def test_cancel_interrupts_a_running_task(tmp_path: Path) -> None:
    started = tmp_path / "started"

    @ray.remote
    def endless(path: str) -> None:
        open(path, "w").close()
        while True:
            time.sleep(0.01)

    ref = endless.remote(str(started))
    wait_until(started.exists, what="the task runs")
    ray.cancel(ref)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)


@pytest.mark.contract("F1.16")
def test_cancel_with_force_kills_the_worker_and_is_not_retried(tmp_path: Path) -> None:
    log = tmp_path / "runs"

    @ray.remote
    def deaf(path: str) -> None:
        with open(path, "a") as log:
            log.write("x")
        while True:
            try:
                time.sleep(10)
            except KeyboardInterrupt:
                pass

    ref = deaf.remote(str(log))
    wait_until(log.exists, what="the task runs")
    ray.cancel(ref, force=True)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)
    assert log.read_text() == "x"


@pytest.mark.contract("F1.16")
@pytest.mark.parametrize("force", [False, True])
def test_whoever_holds_a_ref_may_cancel_its_task(tmp_path: Path, force: bool) -> None:
    started = tmp_path / "started"

    @ray.remote
    def endless(path: str) -> None:
        with open(path, "a") as log:
            log.write("x")
        while True:
            time.sleep(0.01)

    @ray.remote
    def cancel(refs: list[Any]) -> str:
        ray.cancel(refs[0], force=force)
        return "done"

    @ray.remote
    def submit(path: str) -> list[Any]:
        return [endless.remote(path)]

    ref = endless.remote(str(started))
    wait_until(started.exists, what="the task runs")
    assert ray.get(cancel.remote([ref])) == "done"
    with pytest.raises((TaskCancelledError, WorkerCrashedError)):
        ray.get(ref, timeout=20)
    started.unlink()
    (inner,) = ray.get(submit.remote(str(started)))
    wait_until(started.exists, what="the inner task runs")
    ray.cancel(inner, force=force)
    with pytest.raises((TaskCancelledError, WorkerCrashedError)):
        ray.get(inner, timeout=20)
    assert started.read_text() == "x", "it is not tried again"


@pytest.mark.contract("F1.16", "F2.21")
def test_a_borrowed_method_call_is_never_cancelled_by_force() -> None:
    """It would end the actor, which is not the caller's to end."""

    @ray.remote
    class Waits:
        async def wait(self) -> None:
            await asyncio.sleep(60)

        async def ready(self) -> bool:
            return True

    @ray.remote
    def cancel(refs: list[Any]) -> None:
        try:
            ray.cancel(refs[0], force=True)
        except ValueError:
            ray.cancel(refs[0])

    actor = Waits.remote()
    ref = actor.wait.remote()
    assert ray.get(actor.ready.remote())
    ray.get(cancel.remote([ref]))
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)
    assert ray.get(actor.ready.remote(), timeout=20)


@pytest.mark.contract("F1.16", "F1.05")
@pytest.mark.parametrize("recursive", [True, False])
def test_cancel_reaches_the_children(tmp_path: Path, recursive: bool) -> None:
    @ray.remote
    def child(directory: str, i: int) -> None:
        try:
            open(os.path.join(directory, f"begun{i}"), "w").close()
            while not os.path.exists(os.path.join(directory, "gate")):
                time.sleep(0.01)
            open(os.path.join(directory, f"ended{i}"), "w").close()
        except KeyboardInterrupt:
            open(os.path.join(directory, f"interrupted{i}"), "w").close()
            raise

    @ray.remote
    def parent(directory: str) -> None:
        ray.get([child.remote(directory, i) for i in range(2)])

    ref = parent.remote(str(tmp_path))
    names = lambda start: [p.name for p in tmp_path.glob(f"{start}*")]  # noqa: E731
    wait_until(lambda: len(names("begun")) == 2, what="the children run")
    ray.cancel(ref, recursive=recursive)
    with pytest.raises(TaskCancelledError):
        ray.get(ref, timeout=20)
    if not recursive:
        (tmp_path / "gate").touch()
    end = "interrupted" if recursive else "ended"
    wait_until(lambda: len(names(end)) == 2, what=f"the children have {end}")


@pytest.mark.contract("F1.16", "F1.09")
def test_cancel_a_stream(tmp_path: Path) -> None:
    mark = tmp_path / "interrupted"

    @ray.remote
    def count(path: str) -> Any:
        try:
            for i in range(100_000):
                yield i
                time.sleep(0.01)
        except KeyboardInterrupt:
            open(path, "w").close()
            raise

    stream = count.remote(str(mark))
    assert ray.get(next(stream)) == 0
    ray.cancel(stream)
    with pytest.raises(TaskCancelledError):
        for ref in stream:
            ray.get(ref)
    wait_until(mark.exists, what="the generator was interrupted")
    queued = count.options(num_cpus=1000).remote(str(mark))
    ray.cancel(queued)
    with pytest.raises(TaskCancelledError):
        ray.get(next(queued))


@pytest.mark.contract("F1.16")
def test_cancel_of_a_finished_task_changes_nothing() -> None:
    ref = add.remote(1, 2)
    assert ray.get(ref) == 3
    ray.cancel(ref)
    assert ray.get(ref) == 3


@pytest.mark.contract("F1.16")
def test_cancel_wants_a_ref() -> None:
    with pytest.raises(TypeError):
        ray.cancel(3)


@pytest.mark.contract("F1.16", "F0.16")
def test_dependents_of_a_cancelled_task_fail_too() -> None:
    first = add.options(num_cpus=1000).remote(1)
    second = add.remote(first)
    ray.cancel(first)
    with pytest.raises((TaskCancelledError, RayTaskError)):
        ray.get(second, timeout=20)
