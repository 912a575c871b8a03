"""How long actors live: references, kills, crashes, constructors, restarts, and leaving."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from actors import Counter
from harness import is_alive, wait_until
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    RayActorError,
)

pytestmark = pytest.mark.usefixtures("ray_start")


@pytest.mark.contract("F2.06")
def test_an_actor_ends_with_its_last_handle() -> None:
    counter = Counter.remote()
    pid = ray.get(counter.pid.remote())
    assert is_alive(pid)
    del counter
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")


@pytest.mark.contract("F2.06")
def test_calls_submitted_before_the_last_handle_went_still_run() -> None:
    assert ray.get(Counter.remote(3).incr.remote(4)) == 7


@pytest.mark.contract("F2.06", "F2.24")
def test_a_handle_inside_an_object_keeps_the_actor_alive() -> None:
    counter = Counter.remote(1)
    pid = ray.get(counter.pid.remote())
    box = ray.put([counter])
    del counter
    again = ray.get(box)[0]
    assert ray.get(again.get.remote()) == 1
    assert is_alive(pid)


@pytest.mark.contract("F2.06")
def test_an_actor_made_in_a_task_ends_when_the_task_drops_it() -> None:
    @ray.remote
    def make() -> int:
        return int(ray.get(Counter.remote().pid.remote()))

    pid = ray.get(make.remote())
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")


@pytest.mark.contract("F2.07", "F2.11")
def test_kill_fails_running_and_later_calls() -> None:
    @ray.remote
    class Sleeper:
        def sleep(self) -> None:
            time.sleep(100)

        def pid(self) -> int:
            return os.getpid()

    sleeper = Sleeper.remote()
    pid = ray.get(sleeper.pid.remote())
    running = sleeper.sleep.remote()
    queued = sleeper.pid.remote()
    ray.kill(sleeper)
    for ref in (running, queued, sleeper.pid.remote()):
        with pytest.raises(ActorDiedError) as caught:
            ray.get(ref, timeout=20)
        assert caught.value.actor_id == sleeper._actor_id.hex()
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")


@pytest.mark.contract("F2.07")
def test_kill_wants_a_handle() -> None:
    with pytest.raises(ValueError):
        ray.kill(ray.put(1))
    with pytest.raises(ValueError):
        ray.kill("counter")


@pytest.mark.contract("F2.07")
def test_kill_skips_atexit_handlers(tmp_path: Path) -> None:
    @ray.remote
    class Careful:
        def prepare(self, path: str) -> int:
            import atexit

            atexit.register(lambda: open(path, "w").close())
            return os.getpid()

    mark = tmp_path / "atexit"
    careful = Careful.remote()
    pid = ray.get(careful.prepare.remote(str(mark)))
    ray.kill(careful)
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")
    assert not mark.exists()


@pytest.mark.contract("F2.10", "F2.11")
def test_a_failing_constructor_reaches_every_call() -> None:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("constructor says no")

        def method(self) -> int:
            return 1

    broken = Broken.remote()
    for ref in (broken.method.remote(), broken.method.remote()):
        with pytest.raises(ActorDiedError) as caught:
            ray.get(ref)
        assert caught.value.actor_init_failed
        text = str(caught.value)
        assert "error raised in its creation task" in text
        assert "constructor says no" in text


@pytest.mark.contract("F0.16", "F2.04")
def test_an_error_in_a_method_leaves_the_actor_alive() -> None:
    counter = Counter.remote(2)
    with pytest.raises(KeyError):
        ray.get(counter.fail.remote())
    assert ray.get(counter.get.remote()) == 2


@pytest.mark.contract("F2.11", "F5.01")
def test_a_crash_is_an_actor_death() -> None:
    counter = Counter.remote()
    with pytest.raises(RayActorError):
        ray.get(counter.crash.remote())
    with pytest.raises(ActorDiedError):
        wait_until(lambda: ray.get(counter.get.remote()) and None, what="the death is known")


@pytest.mark.contract("F2.18", "F5.05")
def test_a_restarted_actor_runs_its_constructor_again() -> None:
    counter = Counter.options(max_restarts=1).remote(3)
    assert ray.get(counter.incr.remote()) == 4
    pid = ray.get(counter.pid.remote())
    with pytest.raises(RayActorError):
        ray.get(counter.crash.remote())
    assert wait_until(lambda: _try(counter.get), within=20) == 3
    assert ray.get(counter.pid.remote()) != pid
    with pytest.raises(RayActorError):
        ray.get(counter.crash.remote())
    with pytest.raises(ActorDiedError):
        wait_until(lambda: ray.get(counter.get.remote()) and None, what="no second restart")


def _try(method: Any) -> Any:
    try:
        return ray.get(method.remote(), timeout=20)
    except ActorUnavailableError:
        return None


@pytest.mark.contract("F2.18", "F5.05")
def test_max_task_retries_runs_the_call_again(tmp_path: Path) -> None:
    @ray.remote(max_restarts=-1, max_task_retries=2)
    class Once:
        def crash_first(self, path: str) -> str:
            if not os.path.exists(path):
                open(path, "w").close()
                os._exit(1)
            return "second time"

    assert ray.get(Once.remote().crash_first.remote(str(tmp_path / "mark"))) == "second time"


@pytest.mark.contract("F2.07", "F2.18")
def test_kill_without_no_restart_restarts() -> None:
    counter = Counter.options(max_restarts=1, max_task_retries=-1).remote(5)
    pid = ray.get(counter.pid.remote())
    ray.kill(counter, no_restart=False)
    assert wait_until(lambda: ray.get(counter.pid.remote()) != pid, within=20)
    assert ray.get(counter.get.remote()) == 5


@pytest.mark.contract("F2.22")
def test_exit_actor_is_graceful(tmp_path: Path) -> None:
    @ray.remote
    class Leaver:
        def leave(self, path: str) -> None:
            import atexit

            atexit.register(lambda: open(path, "w").close())
            ray.actor.exit_actor()

        def ping(self) -> int:
            return 1

    mark = tmp_path / "atexit"
    leaver = Leaver.remote()
    with pytest.raises(RayActorError):
        ray.get(leaver.leave.remote(str(mark)))
    with pytest.raises(ActorDiedError):
        ray.get(leaver.ping.remote())
    wait_until(mark.exists, what="the atexit handler ran")
    with pytest.raises(TypeError):
        ray.actor.exit_actor()


@pytest.mark.contract("F2.24")
def test_a_handle_from_get_actor_is_weak() -> None:
    counter = Counter.options(name="weakly").remote()
    pid = ray.get(counter.pid.remote())
    weak = ray.get_actor("weakly")
    del counter
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")
    with pytest.raises(RayActorError):
        ray.get(weak.get.remote(), timeout=20)


@pytest.mark.contract("F2.01", "F2.10")
def test_a_constructor_may_be_slow_and_may_use_the_api() -> None:
    @ray.remote
    class Slow:
        def __init__(self, ref: Any, box: list[Any]) -> None:
            time.sleep(0.2)
            self.values = [ref, ray.get(box[0]), ray.get(Counter.remote(9).get.remote())]

        def all(self) -> list[Any]:
            return self.values

    slow = Slow.remote(ray.put(1), [ray.put(2)])
    assert ray.get(slow.all.remote()) == [1, 2, 9]


@pytest.mark.contract("F2.01", "F2.06")
@pytest.mark.heliostat_only("Ray starts three actors a second")
def test_a_hundred_actors() -> None:
    counters = [Counter.remote(i) for i in range(100)]
    assert ray.get([c.get.remote() for c in counters]) == list(range(100))
    pids = ray.get([c.pid.remote() for c in counters])
    assert len(set(pids)) == 100
    counters.clear()
    wait_until(lambda: not any(map(is_alive, pids)), within=20, what="all of them ended")
