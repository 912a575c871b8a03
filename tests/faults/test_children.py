"""Children that user code leaves behind in a worker end with it, and hold nothing back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers import children
from tests.helpers.harness import FINDS_TESTS, IS_HELIOSTAT, is_alive, wait_until

CLUSTER = {"num_cpus": 2, "resources": {"slot": 1}}

# A child with a session of its own is out of reach once its parent was killed.
REACHED = [kind for kind in children.MAKERS if kind != "popen-session"]


@ray.remote(num_cpus=0, resources={"slot": 1})
class Parent:
    def make(self, kind: str) -> list[int]:
        return children.MAKERS[kind]()

    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def at_exit(self, path: str, wait_s: float = 0.0) -> None:
        """Have a handler run at the end: it asks an executor's child, and then waits."""
        import atexit
        from concurrent.futures import ProcessPoolExecutor

        executor = ProcessPoolExecutor(1)
        executor.submit(os.getpid).result(60)

        def last() -> None:
            Path(path).write_text(str(executor.submit(abs, -7).result(60)))
            time.sleep(wait_s)

        atexit.register(last)


def parent_for(kind: str) -> Any:
    """An actor for children of that kind; what loads torch is forked with it, else each loads it anew."""
    options: dict[str, Any] = {}
    if kind == "loader" and IS_HELIOSTAT:
        options["_preload"] = ["torch"]
    return Parent.options(**options).remote()


def _drop(actors: list[Any], pid: int) -> None:
    actors.clear()


def _leave(actors: list[Any], pid: int) -> None:
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actors[0].leave.remote())


def _kill(actors: list[Any], pid: int) -> None:
    ray.kill(actors[0])


def _sigkill(actors: list[Any], pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def _sigterm(actors: list[Any], pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


ENDINGS: dict[str, Callable[[list[Any], int], None]] = {
    "dropped": _drop,
    "exit_actor": _leave,
    "kill": _kill,
    "sigkill": _sigkill,
    "sigterm": _sigterm,
}


def assert_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(map(is_alive, pids)), what=f"children {pids} ended")


@pytest.mark.contract("F2.06", "F5.08")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", children.MAKERS)
def test_an_actors_children_end_with_it(ray_start: Any, kind: str, ending: str) -> None:
    if kind == "loader":
        pytest.importorskip("torch", reason="its DataLoader has worker processes")
    actors = [parent_for(kind)]
    pid = ray.get(actors[0].pid.remote())
    pids = ray.get(actors[0].make.remote(kind))
    assert pids
    assert all(map(is_alive, pids))
    ENDINGS[ending](actors, pid)
    # The next one has the room of the first.
    after = Parent.remote()
    assert ray.get(after.pid.remote(), timeout=60) != pid
    if kind in REACHED or ending in ("dropped", "exit_actor", "sigterm"):
        assert_gone(pids)
    else:
        os.kill(pids[0], signal.SIGKILL)
    ray.kill(after)


@pytest.mark.contract("F1.12", "F5.08")
@pytest.mark.parametrize("kind", children.MAKERS)
def test_children_of_a_worker_with_max_calls_end_with_it(ray_start: Any, kind: str) -> None:
    if kind == "loader":
        pytest.importorskip("torch", reason="its DataLoader has worker processes")

    @ray.remote(num_cpus=0, resources={"slot": 1}, max_calls=1)
    def make() -> tuple[int, list[int]]:
        return os.getpid(), children.MAKERS[kind]()

    pid, pids = ray.get(make.remote())
    assert_gone([pid, *pids])
    other, others = ray.get(make.remote(), timeout=60)
    assert other != pid
    assert_gone([other, *others])


@pytest.mark.contract("F5.08")
@pytest.mark.parametrize("end", ["return", "kill"])
def test_children_end_with_the_driver(start_driver: Any, end: str) -> None:
    driver = start_driver(
        """
        import sys, time
        from tests.helpers import children
        import ray

        ray.init(address="local", num_cpus=2, include_dashboard=False)

        @ray.remote(num_cpus=0)
        class Parent:
            def make(self, kind):
                return children.MAKERS[kind]()

        @ray.remote(num_cpus=0)
        def make(kind):
            return children.MAKERS[kind]()

        kinds = [kind for kind in children.MAKERS if kind != "loader"]
        parents = [Parent.remote() for _ in kinds]
        made = [p.make.remote(kind) for p, kind in zip(parents, kinds)]
        made += [make.remote(kind) for kind in kinds]
        pids = [pid for pids in ray.get(made) for pid in pids]
        print("pids=" + ",".join(map(str, pids)), flush=True)
        if sys.argv[1] == "kill":
            time.sleep(1000)
        """,
        args=[end],
        env=FINDS_TESTS,
    )
    pids = [int(pid) for pid in driver.wait_line("pids", within=120).split(",")]
    if end == "kill":
        driver.process.kill()
        driver.process.wait(60)
    else:
        driver.finish().check()
    assert_gone(pids)


@pytest.mark.contract("F2.06")
@pytest.mark.parametrize("ending", ["dropped", "exit_actor", "sigterm"])
def test_handlers_run_before_the_children_end(ray_start: Any, tmp_path: Path, ending: str) -> None:
    path = tmp_path / "handler"
    actors = [Parent.remote()]
    pid = ray.get(actors[0].pid.remote())
    ray.get(actors[0].at_exit.remote(str(path)))
    ENDINGS[ending](actors, pid)
    wait_until(lambda: not is_alive(pid))
    assert path.read_text() == "7"


@pytest.mark.contract("F2.06")
@pytest.mark.heliostat_only("Ray has a bound on the end of an actor that is out of scope only")
@pytest.mark.parametrize("ending", ["dropped", "exit_actor"])
def test_a_handler_that_never_ends_holds_nothing_up(
    ray_fresh: Any, tmp_path: Path, ending: str
) -> None:
    ray_fresh(**CLUSTER, _system_config={"actor_graceful_shutdown_timeout_ms": 300})
    path = tmp_path / "handler"
    actors = [Parent.remote()]
    pid = ray.get(actors[0].pid.remote())
    ray.get(actors[0].at_exit.remote(str(path), 1000.0))
    ENDINGS[ending](actors, pid)
    assert ray.get(Parent.remote().pid.remote(), timeout=60) != pid
    assert not is_alive(pid)
    assert path.read_text() == "7"
