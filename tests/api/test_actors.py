"""Actors: creation, calls, order, lifetime, names, concurrency, restarts, and the way they die."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from harness import is_alive, wait_until
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    PendingCallsLimitExceeded,
    RayActorError,
    TaskCancelledError,
)
from samples import Adder

pytestmark = pytest.mark.usefixtures("ray_start")


@ray.remote
class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.i = start

    def incr(self, by: int = 1) -> int:
        self.i += by
        return self.i

    def get(self) -> int:
        return self.i

    def pid(self) -> int:
        return os.getpid()

    def assigned(self) -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    def fail(self) -> None:
        raise KeyError("asked for")

    def crash(self) -> None:
        os._exit(1)


@pytest.mark.contract("F2.01")
def test_create_with_positional_and_keyword_arguments() -> None:
    assert ray.get(Counter.remote(5).get.remote()) == 5
    assert ray.get(Counter.remote(start=6).get.remote()) == 6
    assert ray.get(ray.remote(num_cpus=0)(Adder).remote(base=7).add.remote(1)) == 8


@pytest.mark.contract("F2.01")
def test_a_class_cannot_be_instantiated_directly() -> None:
    with pytest.raises(TypeError, match="cannot be instantiated directly") as caught:
        Counter()
    assert "Counter.remote()" in str(caught.value)


@pytest.mark.contract("F2.01")
def test_subclassing_an_actor_class_is_refused() -> None:
    with pytest.raises(TypeError) as caught:

        class Child(Counter):  # type: ignore[valid-type, misc]
            pass

    assert type(caught.value).__name__ == "ActorClassInheritanceException"


@pytest.mark.contract("F2.01")
@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"wrong": 1})])
def test_constructor_arguments_are_checked_at_the_call(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError):
        Counter.remote(*args, **kwargs)


@pytest.mark.contract("F2.02")
def test_options_as_a_splatted_dict() -> None:
    resources = {"num_cpus": 1}
    workers = [Counter.options(**resources).remote(start=i) for i in range(3)]
    assert ray.get([w.get.remote() for w in workers]) == [0, 1, 2]


@pytest.mark.contract("F2.03")
def test_functions_and_lambdas_as_arguments() -> None:
    @ray.remote
    class Worker:
        def execute(self, func: Any, *args: Any, **kwargs: Any) -> Any:
            return func(*args, **kwargs)

    worker = Worker.remote()
    captured = 5
    assert ray.get(worker.execute.remote(lambda: captured + 1)) == 6
    assert ray.get(worker.execute.remote(lambda a, b=0: a - b, 9, b=2)) == 7
    assert ray.get(worker.execute.remote(lambda rank, name: (rank, name), rank=1, name="n")) == (
        1,
        "n",
    )


@pytest.mark.contract("F2.03")
def test_methods_cannot_be_called_directly_and_unknown_ones_are_no_attributes() -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match="cannot be called directly"):
        counter.get()
    with pytest.raises(AttributeError, match="decr"):
        counter.decr.remote()


@pytest.mark.contract("F2.03")
@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"no": 1})])
def test_method_arguments_are_checked_at_the_call(args: Any, kwargs: Any) -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError):
        counter.incr.remote(*args, **kwargs)


@pytest.mark.contract("F2.04")
def test_calls_of_one_caller_run_in_submission_order() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def append(self, i: int) -> None:
            self.seen.append(i)

        def all(self) -> list[int]:
            return self.seen

    log = Log.remote()
    for i in range(500):
        log.append.remote(i)
    assert ray.get(log.all.remote()) == list(range(500))


@pytest.mark.contract("F2.04", "F1.02")
def test_order_holds_when_an_argument_comes_late() -> None:
    @ray.remote
    def late() -> int:
        time.sleep(0.3)
        return 10

    counter = Counter.remote(1)
    first = counter.incr.remote(late.remote())
    second = counter.incr.remote(1)
    assert ray.get([first, second]) == [11, 12]


@pytest.mark.contract("F2.04", "F2.09")
def test_state_is_kept_between_calls_and_processes_are_apart() -> None:
    @ray.remote
    class Env:
        def set(self, value: str) -> None:
            os.environ["OF_ONE_ACTOR"] = value

        def get(self) -> str | None:
            return os.environ.get("OF_ONE_ACTOR")

    one, two = Env.remote(), Env.remote()
    ray.get(one.set.remote("1"))
    assert ray.get([one.get.remote(), two.get.remote()]) == ["1", None]


@pytest.mark.contract("F2.05")
def test_repr_of_a_handle() -> None:
    counter = Counter.remote()
    actor_id = counter._actor_id.hex()
    assert len(actor_id) == 32
    assert repr(counter) == f"Actor(Counter, {actor_id})"


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


@pytest.mark.contract("F2.08")
def test_default_actors_hold_no_cpu_and_explicit_ones_do(ray_start: Any) -> None:
    free = [Counter.remote() for _ in range(6)]
    assert len(set(ray.get([c.pid.remote() for c in free]))) == 6
    assert ray.get(free[0].assigned.remote()) == {}

    holder = Counter.options(num_cpus=2).remote()
    assert ray.get(holder.assigned.remote()) == {"CPU": 2.0}
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0, what="two of four CPUs free")
    ray.kill(holder)
    wait_until(lambda: ray.available_resources().get("CPU") == 4.0, what="all CPUs free again")


@pytest.mark.contract("F2.08", "F2.06")
def test_an_actor_waits_until_another_gives_its_cpus_back() -> None:
    first = Counter.options(num_cpus=3).remote(1)
    assert ray.get(first.get.remote()) == 1
    second = Counter.options(num_cpus=3).remote(2)
    ref = second.get.remote()
    assert ray.wait([ref], timeout=0.3) == ([], [ref])
    del first
    assert ray.get(ref, timeout=20) == 2


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


@pytest.mark.contract("F2.15")
def test_method_decorator_and_method_options() -> None:
    @ray.remote
    class Pairs:
        @ray.method(num_returns=2)
        def pair(self) -> Any:
            return 1, 2

        def triple(self) -> Any:
            return 1, 2, 3

    pairs = Pairs.remote()
    assert ray.get(pairs.pair.remote()) == [1, 2]
    assert ray.get(pairs.triple.options(num_returns=3).remote()) == [1, 2, 3]
    with pytest.raises(AssertionError):
        ray.method(no_such=1)


@pytest.mark.contract("F2.16")
def test_named_actors() -> None:
    counter = Counter.options(name="named").remote(4)
    again = ray.get_actor("named")
    assert ray.get(again.get.remote()) == 4
    with pytest.raises(ValueError, match="named") as caught:
        Counter.options(name="named").remote()
    assert isinstance(caught.value, ray.exceptions.ActorAlreadyExistsError)
    same = Counter.options(name="named", get_if_exists=True).remote(100)
    assert ray.get(same.get.remote()) == 4
    assert same == counter
    ray.kill(counter)
    wait_until(lambda: _absent("named"), what="the name is free")


def _absent(name: str, namespace: str | None = None) -> bool:
    try:
        ray.get_actor(name, namespace=namespace)
    except ValueError:
        return True
    return False


@pytest.mark.contract("F2.16")
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": 5}, TypeError),
        ({"get_if_exists": True}, ValueError),
        ({"lifetime": "for ever"}, ValueError),
        ({"max_restarts": -2}, ValueError),
        ({"max_task_retries": -2}, ValueError),
        ({"no_such_option": 1}, ValueError),
        ({"max_retries": 1}, ValueError),
    ],
    ids=str,
)
def test_wrong_actor_options(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Counter.options(**options).remote()


@pytest.mark.contract("F2.16", "F0.13")
def test_names_belong_to_a_namespace() -> None:
    counter = Counter.options(name="apart", namespace="elsewhere").remote(8)
    assert ray.get(counter.get.remote()) == 8
    assert _absent("apart")
    assert ray.get(ray.get_actor("apart", namespace="elsewhere").get.remote()) == 8


@pytest.mark.contract("F2.16")
def test_get_actor_of_an_unknown_name() -> None:
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")
    with pytest.raises(ValueError):
        ray.get_actor("")


@pytest.mark.contract("F2.17", "F2.27")
def test_a_detached_actor_needs_no_handle() -> None:
    counter = Counter.options(name="stays", lifetime="detached").remote()
    pid = ray.get(counter.pid.remote())
    del counter
    assert "stays" in ray.util.list_named_actors()
    assert ray.get(ray.get_actor("stays").pid.remote()) == pid
    ray.kill(ray.get_actor("stays"))
    wait_until(lambda: "stays" not in ray.util.list_named_actors(), what="the name is gone")


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


@pytest.mark.contract("F2.23")
def test_built_in_methods() -> None:
    counter = Counter.remote(6)
    assert ray.get(counter.__ray_ready__.remote()) is True
    assert ray.get(counter.__ray_call__.remote(lambda self, k: self.i * k, 2)) == 12
    pid = ray.get(counter.pid.remote())
    counter.__ray_terminate__.remote()
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")


@pytest.mark.contract("F2.24")
def test_handles_travel_and_compare() -> None:
    @ray.remote
    def use(handle: Any, nested: dict[str, Any]) -> tuple[int, bool]:
        return ray.get(handle.incr.remote(2)), handle == nested["h"]

    counter = Counter.remote()
    assert ray.get(use.remote(counter, {"h": counter})) == (2, True)
    assert ray.get(counter.get.remote()) == 2
    other = Counter.remote()
    assert counter != other
    assert len({counter, other, counter}) == 2


@pytest.mark.contract("F2.24", "F1.05")
def test_actors_call_each_other_and_themselves_through_handles() -> None:
    @ray.remote
    class Node:
        def __init__(self, after: Any = None) -> None:
            self.after = after

        def depth(self) -> int:
            return 1 if self.after is None else 1 + int(ray.get(self.after.depth.remote()))

        def me(self) -> Any:
            return ray.get_runtime_context().current_actor

    last = Node.remote()
    first = Node.remote(Node.remote(last))
    assert ray.get(first.depth.remote()) == 3
    assert ray.get(last.me.remote()) == last


@pytest.mark.contract("F2.24")
def test_a_handle_from_get_actor_is_weak() -> None:
    counter = Counter.options(name="weakly").remote()
    pid = ray.get(counter.pid.remote())
    weak = ray.get_actor("weakly")
    del counter
    wait_until(lambda: not is_alive(pid), what="the actor's process ends")
    with pytest.raises(RayActorError):
        ray.get(weak.get.remote(), timeout=20)


@pytest.mark.contract("F2.25")
def test_actor_pool() -> None:
    from ray.util import ActorPool

    @ray.remote
    class Doubler:
        def double(self, x: int) -> int:
            return 2 * x

    def double(actor: Any, value: int) -> Any:
        return actor.double.remote(value)

    pool = ActorPool([Doubler.remote(), Doubler.remote()])
    assert list(pool.map(double, [1, 2, 3])) == [2, 4, 6]
    found = sorted(pool.map_unordered(double, [1, 2, 3]))
    assert found == [2, 4, 6]
    pool.submit(double, 5)
    assert pool.has_next()
    assert pool.get_next(timeout=20) == 10
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()
    idle = pool.pop_idle()
    assert idle is not None
    pool.push(idle)
    with pytest.raises(ValueError):
        pool.push(idle)


@pytest.mark.contract("F2.26")
def test_queue() -> None:
    from ray.util.queue import Empty, Full, Queue

    queue = Queue(maxsize=2)
    queue.put(1)
    queue.put_nowait(2)
    assert (queue.qsize(), queue.full(), queue.empty()) == (2, True, False)
    with pytest.raises(Full):
        queue.put(3, timeout=0.05)
    with pytest.raises(Full):
        queue.put_nowait(3)
    assert [queue.get(), queue.get()] == [1, 2]
    with pytest.raises(Empty):
        queue.get_nowait()
    with pytest.raises(ValueError):
        queue.get(timeout=-1)
    queue.shutdown()


@pytest.mark.contract("F2.03", "F1.02")
def test_refs_as_arguments_of_methods() -> None:
    counter = Counter.remote()
    by = ray.put(5)
    ref = counter.incr.remote(by)
    assert ray.get(counter.incr.remote(ref)) == 10


@pytest.mark.contract("F2.01")
def test_inheritance_properties_and_static_methods_of_plain_classes() -> None:
    class Base:
        factor = 3

        def scaled(self, x: int) -> int:
            return self.helper(x) * self.factor

        @staticmethod
        def helper(x: int) -> int:
            return x + 1

    class Derived(Base):
        factor = 5

        @classmethod
        def name(cls) -> str:
            return cls.__name__

    actor = ray.remote(Derived).remote()
    assert ray.get(actor.scaled.remote(1)) == 10
    assert ray.get(actor.name.remote()) == "Derived"


@pytest.mark.contract("F3.01")
def test_get_with_a_timeout_on_a_busy_actor() -> None:
    @ray.remote
    class Busy:
        def nap(self) -> str:
            time.sleep(0.6)
            return "awake"

    ref = Busy.remote().nap.remote()
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0.05)
    assert ray.get(ref, timeout=20) == "awake"


@pytest.mark.contract("F2.01", "F2.06")
@pytest.mark.heliostat_only("Ray starts three actors a second")
def test_a_hundred_actors() -> None:
    counters = [Counter.remote(i) for i in range(100)]
    assert ray.get([c.get.remote() for c in counters]) == list(range(100))
    pids = ray.get([c.pid.remote() for c in counters])
    assert len(set(pids)) == 100
    counters.clear()
    wait_until(lambda: not any(map(is_alive, pids)), within=20, what="all of them ended")


@pytest.mark.contract("F2.04")
def test_two_callers_each_keep_their_order() -> None:
    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: dict[str, list[int]] = {}

        def add(self, who: str, i: int) -> None:
            self.seen.setdefault(who, []).append(i)

        def all(self) -> dict[str, list[int]]:
            return self.seen

    @ray.remote
    def write(log: Any, who: str) -> None:
        ray.get([log.add.remote(who, i) for i in range(100)])

    log = Log.remote()
    ray.get([write.remote(log, "a"), write.remote(log, "b")])
    assert ray.get(log.all.remote()) == {"a": list(range(100)), "b": list(range(100))}


@pytest.mark.contract("F2.03", "F3.10")
def test_large_arguments_and_results_of_methods() -> None:
    @ray.remote
    class Echo:
        def echo(self, data: bytes) -> bytes:
            return data

    echo = Echo.remote()
    data = [bytes([i]) * 1_000_000 for i in range(5)]
    assert ray.get([echo.echo.remote(part) for part in data]) == data


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
