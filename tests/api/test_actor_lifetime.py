"""How long actors live: references, kills, crashes, constructors, restarts, and leaving."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    RayActorError,
)

from tests.helpers.actors import Counter
from tests.helpers.harness import IS_HELIOSTAT, is_alive, wait_until

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
def test_what_is_called_after_a_kill_never_runs(tmp_path: Path) -> None:
    @ray.remote
    class Marker:
        def mark(self, path: str | None = None) -> None:
            if path is not None:
                open(path, "w").close()

    for number in range(50):
        marker = Marker.remote()
        ray.get(marker.mark.remote())
        ray.kill(marker)
        with pytest.raises(ActorDiedError):
            ray.get(marker.mark.remote(str(tmp_path / str(number))), timeout=20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.contract("F2.07", "F2.17")
def test_what_is_called_after_a_kill_of_a_looked_up_actor_never_runs() -> None:
    for number in range(20):
        name = f"counter-{number}"
        Counter.options(name=name, lifetime="detached").remote()
        counter = ray.get_actor(name)
        ray.kill(counter)
        with pytest.raises(ActorDiedError):
            ray.get(counter.incr.remote(), timeout=20)


@pytest.mark.contract("F2.07")
def test_an_actor_that_waits_for_its_arguments_can_be_killed(tmp_path: Path) -> None:
    @ray.remote
    def slow(path: str) -> int:
        while not os.path.exists(path):
            time.sleep(0.01)
        return 1

    @ray.remote
    class Late:
        def __init__(self, value: int, path: str) -> None:
            open(path, "w").close()

        def method(self) -> int:
            return 1

    gate, mark = tmp_path / "gate", tmp_path / "mark"
    argument = slow.remote(str(gate))
    late = Late.remote(argument, str(mark))
    ray.kill(late)
    with pytest.raises(ActorDiedError):
        ray.get(late.method.remote(), timeout=20)
    gate.touch()
    assert ray.get(argument, timeout=20) == 1
    # What would have been the constructor's turn has passed, too.
    assert ray.get(Late.remote(argument, str(tmp_path / "other")).method.remote(), timeout=20) == 1
    assert not mark.exists()


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
    assert wait_until(lambda: _try(counter.get)) == 3
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


@pytest.mark.contract("F2.10", "F2.18", "F5.05")
@pytest.mark.parametrize("slow_s", [0, 0.2])
@pytest.mark.parametrize("way", ["exit", "kill"])
def test_calls_wait_where_the_first_constructor_crashes(
    tmp_path: Path, way: str, slow_s: float
) -> None:
    mark, called = tmp_path / "crashed", tmp_path / "called"

    @ray.remote(max_restarts=1)
    class CrashesOnce:
        def __init__(self) -> None:
            # What is called after the news of the crash fails, as on Ray.
            wait_until(called.exists, what="the calls were made")
            time.sleep(slow_s)
            if not mark.exists():
                mark.touch()
                if way == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                os._exit(1)

        def number(self, number: int) -> int:
            return number

    actor = CrashesOnce.remote()
    calls = [actor.number.remote(n) for n in range(3)]
    called.touch()
    assert ray.get(calls, timeout=60) == [0, 1, 2]


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
    assert wait_until(lambda: ray.get(counter.pid.remote()) != pid)
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
    wait_until(lambda: not any(map(is_alive, pids)), what="all of them ended")


@ray.remote
class Hooked:
    """Writes down which of its hooks run, in their order."""

    def __init__(self, path: str, other: Any = None) -> None:
        import atexit

        self.path, self.other = path, other
        atexit.register(_write, path, "atexit")

    def __ray_shutdown__(self) -> None:
        _write(self.path, "shutdown")
        if self.other is not None:
            _write(self.path, str(ray.get(self.other.incr.remote(), timeout=20)))

    def __del__(self) -> None:
        _write(self.path, "del")

    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        ray.actor.exit_actor()

    def fork_and_end_it(self) -> int:
        """The wait status of a copy of this process that a SIGTERM ended."""
        child = os.fork()
        if child == 0:
            time.sleep(60)
        os.kill(child, signal.SIGTERM)
        return os.waitpid(child, 0)[1]


def _write(path: str, word: str) -> None:
    with open(path, "a") as out:
        out.write(word + " ")


@pytest.mark.contract("F2.06", "F2.22", "F2.23")
@pytest.mark.parametrize("end", ["dropped", "exit_actor", "terminate", "SIGTERM"])
def test_a_graceful_end_runs_the_hooks_in_order(tmp_path: Path, end: str) -> None:
    path = tmp_path / "hooks"
    counter = Counter.remote(6)
    actor = Hooked.remote(str(path), counter)
    pid = ray.get(actor.pid.remote())
    if end == "exit_actor":
        actor.leave.remote()
    elif end == "terminate":
        actor.__ray_terminate__.remote()
    elif end == "SIGTERM":
        os.kill(pid, signal.SIGTERM)
    del actor
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")
    assert path.read_text() == "shutdown 7 del atexit "


@pytest.mark.contract("F2.07")
def test_kill_runs_no_hook(tmp_path: Path) -> None:
    path = tmp_path / "hooks"
    actor = Hooked.remote(str(path))
    pid = ray.get(actor.pid.remote())
    ray.kill(actor)
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")
    assert not path.exists()


@pytest.mark.contract("F2.06")
def test_the_last_hook_of_an_async_actor_may_be_a_coroutine(tmp_path: Path) -> None:
    @ray.remote
    class Async:
        async def pid(self) -> int:
            return os.getpid()

        async def __ray_shutdown__(self) -> None:
            await asyncio.sleep(0)
            (tmp_path / "mark").touch()

    actor = Async.remote()
    pid = ray.get(actor.pid.remote())
    del actor
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")
    assert (tmp_path / "mark").exists()


@pytest.mark.contract("F5.01", "F2.18")
def test_sigterm_ends_an_actor_gently_and_it_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "hooks"
    actor = Hooked.options(max_restarts=-1, max_task_retries=-1).remote(str(path))
    for times in range(1, 4):
        pid = ray.get(actor.pid.remote())
        os.kill(pid, signal.SIGTERM)  # right after an answer: on its way to sleep
        wait_until(lambda pid=pid: not is_alive(pid), what="the process ends")
        assert path.read_text() == "shutdown del atexit " * times
        assert ray.get(actor.pid.remote(), timeout=20) != pid
    assert ray.get(actor.fork_and_end_it.remote()) == signal.SIGTERM
    assert path.read_text() == "shutdown del atexit " * 3, "its copy is no actor"


@pytest.mark.contract("F2.01")
def test_remote_does_not_wait_for_the_constructor() -> None:
    @ray.remote
    class Hangs:
        def __init__(self) -> None:
            time.sleep(600)

        def method(self) -> int:
            return 1

    hangs = Hangs.remote()
    ref = hangs.method.remote()
    assert ray.wait([ref], timeout=0.3)[0] == []
    if IS_HELIOSTAT:
        assert "Its constructor was begun" in str(ray.util.why(ref))
    ray.kill(hangs)
    with pytest.raises(ActorDiedError, match=r"ray\.kill"):
        ray.get(ref, timeout=20)


@pytest.mark.contract("F2.10", "F2.18", "F5.05")
def test_a_constructor_that_fails_at_the_restart(tmp_path: Path) -> None:
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Once:
        def __init__(self) -> None:
            (tmp_path / "made").touch(exist_ok=False)

        def crash(self) -> None:
            os._exit(1)

        def method(self) -> int:
            return 1

    once = Once.remote()
    assert ray.get(once.method.remote()) == 1
    once.crash.remote()
    with pytest.raises(ActorDiedError, match="FileExistsError") as caught:
        ray.get(once.method.remote(), timeout=30)
    assert caught.value.actor_init_failed


@pytest.mark.contract("F2.11", "F5.05")
def test_the_call_that_a_restart_cut_short_may_or_may_not_have_run() -> None:
    counter = Counter.options(max_restarts=1).remote()
    ray.get(counter.get.remote())
    with pytest.raises(ActorUnavailableError, match="may or may not have been executed") as caught:
        ray.get(counter.crash.remote(), timeout=20)
    assert caught.value.actor_id == counter._actor_id.hex()
    assert "temporarily unavailable" in str(caught.value)


class Phoenix:
    """Its second process waits for a file before it takes calls."""

    def __init__(self, folder: str, crashes: bool = False) -> None:
        self.calls = 0
        first = Path(folder) / "first"
        if not first.exists():
            first.touch()
            if not crashes:
                return
            os._exit(1)
        while not (Path(folder) / "go").exists():
            time.sleep(0.01)

    def pid(self) -> int:
        return os.getpid()

    def count(self, _argument: Any = None) -> int:
        self.calls += 1
        return self.calls

    def wait(self, path: str) -> str:
        Path(path).touch()
        while not Path(path).with_suffix(".go").exists():
            time.sleep(0.01)
        return "waited"


def _unavailable(ref: Any) -> None:
    with pytest.raises(ActorUnavailableError, match="may or may not have been executed"):
        ray.get(ref, timeout=30)


@pytest.mark.contract("F2.18", "F2.11", "F5.05")
@pytest.mark.parametrize("max_concurrency", [1, 3])
@pytest.mark.parametrize("end", ["signal", "kill"])
def test_a_call_without_retries_does_not_wait_for_a_restart(
    tmp_path: Path, end: str, max_concurrency: int
) -> None:
    cls = ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=max_concurrency)(Phoenix)
    actor = cls.options(name=f"phoenix {end} {max_concurrency}").remote(str(tmp_path))
    pid = ray.get(actor.pid.remote())
    running = actor.wait.remote(str(tmp_path / "running"))
    wait_until((tmp_path / "running").exists)
    (tmp_path / "gate").mkdir()
    gate = ray.remote(num_cpus=0)(Phoenix).remote(str(tmp_path / "gate"))
    lacking = actor.count.remote(gate.wait.remote(str(tmp_path / "argument")))
    if end == "signal":
        os.kill(pid, signal.SIGKILL)
    else:
        ray.kill(actor, no_restart=False)
    _unavailable(running)
    for _ in range(3):
        _unavailable(actor.count.remote())
    # Who looks it up now hears the same; what has retries waits.
    _unavailable(ray.get_actor(f"phoenix {end} {max_concurrency}").count.remote())
    patient = actor.count.options(max_task_retries=1).remote()
    endless = actor.count.options(max_task_retries=-1).remote()
    wait_until((tmp_path / "argument").exists)
    (tmp_path / "argument.go").touch()
    _unavailable(lacking)
    assert ray.wait([patient, endless], timeout=0)[0] == []
    (tmp_path / "go").touch()
    assert sorted(ray.get([patient, endless], timeout=30)) == [1, 2]
    # Nothing that was refused ran later.
    assert ray.get(actor.count.remote(), timeout=30) == 3


@pytest.mark.contract("F2.18", "F2.10")
def test_the_first_start_is_waited_for_and_one_after_a_crash_is_not(tmp_path: Path) -> None:
    (tmp_path / "first").touch()
    starts = ray.remote(num_cpus=0, max_restarts=1)(Phoenix).remote(str(tmp_path))
    early = starts.count.remote()
    assert ray.wait([early], timeout=0.3)[0] == []
    (tmp_path / "go").touch()
    assert ray.get(early, timeout=30) == 1
    folder = tmp_path / "crashes"
    folder.mkdir()
    crashes = ray.remote(num_cpus=0, max_restarts=1)(Phoenix).remote(str(folder), True)
    # What is called before the news of the crash waits for the next constructor, and nothing later does.
    calls = [crashes.count.remote()]
    while not (ready := ray.wait([calls[-1]], timeout=0.2)[0]):
        calls.append(crashes.count.remote())
    _unavailable(ready[0])
    (folder / "go").touch()
    assert ray.get(calls[0], timeout=30) == 1


@pytest.mark.contract("F2.18")
def test_minus_one_restarts_for_ever_and_no_restart_is_the_default() -> None:
    lasting = Counter.options(max_restarts=-1, max_task_retries=-1).remote(2)
    for _ in range(5):
        lasting.crash.options(max_task_retries=0).remote()
        assert ray.get(lasting.get.remote(), timeout=30) == 2
    once = Counter.remote()
    once.crash.remote()
    with pytest.raises(ActorDiedError):
        ray.get(once.get.remote(), timeout=20)


@pytest.mark.contract("F2.18", "F2.15")
@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({}, 1),
        ({"max_task_retries": 5}, 1),
        ({"max_task_retries": 5, "retry_exceptions": True}, 3),
        ({"max_task_retries": 5, "retry_exceptions": [ValueError]}, 3),
        ({"max_task_retries": 5, "retry_exceptions": [KeyError]}, 1),
        ({"max_task_retries": 1, "retry_exceptions": True}, 2),
    ],
    ids=str,
)
def test_errors_of_methods_are_retried_where_asked_for(options: dict[str, Any], runs: int) -> None:
    @ray.remote
    class Flaky:
        def __init__(self) -> None:
            self.runs = 0

        def run(self) -> int:
            self.runs += 1
            if self.runs < 3:
                raise ValueError("again")
            return self.runs

        def count(self) -> int:
            return self.runs

    flaky = Flaky.remote()
    ref = flaky.run.options(**options).remote()
    if runs == 3:
        assert ray.get(ref, timeout=20) == 3
    else:
        with pytest.raises(ValueError, match="again"):
            ray.get(ref, timeout=20)
    assert ray.get(flaky.count.remote()) == runs


@pytest.mark.contract("F2.18", "F2.04", "F5.05")
def test_calls_that_wait_for_a_restart_keep_their_order(tmp_path: Path) -> None:
    @ray.remote(max_restarts=1, max_task_retries=-1)
    class Writer:
        def write(self, i: int) -> int:
            with (tmp_path / "log").open("a") as out:
                out.write(f"{i} ")
            if i == 3 and not (tmp_path / "died").exists():
                (tmp_path / "died").touch()
                os._exit(1)
            return i

    writer = Writer.remote()
    assert ray.get([writer.write.remote(i) for i in range(10)], timeout=30) == list(range(10))
    seen = [int(word) for word in (tmp_path / "log").read_text().split()]
    assert sorted(set(seen)) == list(range(10)), "each at least once"
    if IS_HELIOSTAT:  # Ray sends them again in any order
        second = seen[seen.index(3) + 1 :]
        assert second == sorted(second)
        assert 3 in second


@pytest.mark.contract("F2.18", "F2.20")
def test_a_stream_goes_on_after_a_restart(tmp_path: Path) -> None:
    @ray.remote(max_restarts=1, max_task_retries=1)
    class Stream:
        def numbers(self) -> Any:
            for i in range(6):
                if i == 3 and not (tmp_path / "died").exists():
                    (tmp_path / "died").touch()
                    os._exit(1)
                yield i

    stream = Stream.remote()
    assert [ray.get(ref, timeout=30) for ref in stream.numbers.remote()] == list(range(6))


@pytest.mark.contract("F2.22")
@pytest.mark.parametrize("kind", ["sync", "threads", "async"])
def test_what_was_queued_when_an_actor_left_fails(kind: str) -> None:
    class Leaver:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def wait(self) -> None:
            time.sleep(0.3)

    class AsyncLeaver:
        async def leave(self) -> None:
            await asyncio.sleep(0.3)
            ray.actor.exit_actor()

        async def wait(self) -> None:
            await asyncio.sleep(60)

    if kind == "async":
        leaver = ray.remote(AsyncLeaver).options(max_concurrency=1).remote()
        refs = [leaver.leave.remote(), leaver.wait.remote()]
    else:
        leaver = ray.remote(Leaver).options(max_concurrency=1 + (kind == "threads")).remote()
        ray.get(leaver.wait.remote())
        refs = [leaver.leave.remote(), *(leaver.wait.remote() for _ in range(3))]
    with pytest.raises(RayActorError):
        ray.get(refs[0], timeout=20)
    if kind != "threads" or IS_HELIOSTAT:  # on Ray the actor stays, and calls hang
        with pytest.raises(ActorDiedError, match="exit_actor"):
            ray.get(refs[-1], timeout=20)
        with pytest.raises(ActorDiedError, match="exit_actor"):
            ray.get(leaver.wait.remote(), timeout=20)


@pytest.mark.contract("F2.22")
def test_exit_actor_in_the_constructor() -> None:
    @ray.remote
    class Never:
        def __init__(self) -> None:
            ray.actor.exit_actor()

        def method(self) -> int:
            return 1

    with pytest.raises(ActorDiedError, match="exit_actor"):
        ray.get(Never.remote().method.remote(), timeout=20)
