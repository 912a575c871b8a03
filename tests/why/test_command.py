"""``heliostat why <id>`` and ``heliostat.util.why`` say the same (WHY-1)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.heliostat_only("Ray cannot say what something waits for")

Ask = Callable[..., str]


@ray.remote(num_cpus=0)
def until(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote(num_cpus=0)
class Actor:
    def wait(self, path: str) -> None:
        while not os.path.exists(path):
            time.sleep(0.01)

    def fail(self) -> None:
        os._exit(3)


def timeless(text: str) -> str:
    """Lengths of time are not the same twice."""
    return re.sub(r"\d+(\.\d+)? (ms|s|min)\b", "T", text)


def test_the_command_and_the_function_agree(ask: Ask, tmp_path: Path) -> None:
    go = str(tmp_path / "go")
    running = until.options(num_cpus=1, name="long one").remote(go)
    busy, idle, dead = (Actor.options(name=f"a{n}").remote() for n in range(3))
    absent = Actor.options(resources={"unobtainium": 1}).remote()
    call = busy.wait.remote(go)
    behind = busy.wait.remote(go)
    ray.wait([dead.fail.remote()])
    group = ray.util.placement_group([{"CPU": 9}], name="too large")
    waiting = echo.remote(1)
    deep = echo.remote(echo.remote(running))
    wait_until(lambda: "running there" in ray.util.why(call))
    wait_until(lambda: "is dead" in ray.util.why(dead))
    wait_until(lambda: "unobtainium" in ray.util.why(absent))
    wait_until(lambda: "9 CPU" in ray.util.why(group))
    wait_until(lambda: "CPU is held by" in ray.util.why(waiting))
    big = ray.put(b"x" * 300_000)
    for thing in (running, call, behind, waiting, deep, big, busy, idle, dead, absent, group):
        of = getattr(thing, "id", None) or getattr(thing, "_actor_id", None) or thing
        assert timeless(ask(of.hex())) == timeless(str(ray.util.why(thing)))
    assert timeless(ask("a0")) == timeless(str(ray.util.why(busy))), "by its name"
    (Path(go)).touch()
    ray.get([running, call, behind, waiting])


def test_what_an_id_names_that_is_no_task(ask: Ask) -> None:
    actor = Actor.options(name="worker bee").remote()
    ray.wait([actor.wait.remote(os.devnull)])
    context = ray.get_runtime_context()
    assert f"is the driver of job {context.get_job_id()}" in ask(context.get_worker_id())
    assert "is ALIVE" in ask(context.get_node_id())
    assert "is RUNNING" in ask(context.get_job_id())
    unknown = ask("nobody", fails=True)
    assert "no actor, submitted job, trial, training run or deployment has that name" in unknown
    for digits in (56, 48, 36, 32):
        said = ask("ab" * (digits // 2), fails=True)
        assert "No living process knows the" in said
        assert "another cluster's" in said


def test_a_borrower_and_the_command_name_the_same_owner(ask: Ask, tmp_path: Path) -> None:
    @ray.remote(num_cpus=0)
    class Owner:
        def start(self, path: str) -> list[Any]:
            return [until.remote(path)]

    go = str(tmp_path / "go")
    owner = Owner.remote()
    (inner,) = ray.get(owner.start.remote(go))
    wait_until(lambda: "running there" in ray.util.why(inner))
    assert timeless(str(ray.util.why(inner))).endswith(timeless(ask(inner.hex())))
    Path(go).touch()
