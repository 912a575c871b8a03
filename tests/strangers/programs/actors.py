"""Actors: classes, handles, names, concurrency, restarts, ends."""

from __future__ import annotations

import abc
import asyncio
import os
import threading
import time
from pathlib import Path

import ray

from tests.strangers.kit import main, raised, stranger, until


class Base:
    def __init__(self) -> None:
        self.log = ["base"]

    def step(self) -> int:
        return 1

    def loop(self) -> int:
        return sum(self.step() for _ in range(3))

    def told(self) -> list[str]:
        return self.log


class Abstract(abc.ABC):
    def __init__(self, x: int) -> None:
        self.x = x

    @abc.abstractmethod
    def value(self) -> int: ...


@stranger("ray#10899", [30, ["base", "derived"]])
def methods_of_a_base_class() -> object:
    """A base class's loop calls a method that the actor's class overrides."""

    @ray.remote
    class Derived(Base):
        def __init__(self) -> None:
            super().__init__()
            self.log.append("derived")

        def step(self) -> int:
            return super().step() * 10

    derived = Derived.remote()
    return ray.get([derived.loop.remote(), derived.told.remote()])


@stranger("ray#449", "works by ray.remote(Class)")
def super_with_the_class_named() -> object:
    """``super(B, self)`` works where the name is the class itself: B is made an actor by ``ray.remote(B)``."""
    actor = ray.remote(Named).remote()
    return ray.get(actor.what.remote())


class Named(Base):
    def __init__(self) -> None:
        super(Named, self).__init__()  # noqa: UP008

    def what(self) -> str:
        return "works by ray.remote(Class)" if self.log == ["base"] else "no"


@stranger("ray#5518", ["ActorClassInheritanceException", True])
def inheriting_from_an_actor_class() -> object:
    """A subclass of a decorated class is refused where it is written, in words."""

    @ray.remote
    class A: ...

    def define() -> None:
        class B(A): ...  # type: ignore[misc, valid-type]

    error = raised(define)
    return [type(error).__name__, "nherit" in str(error) or "actor" in str(error)]


@stranger("ray#9705", 3)
def an_abstract_base_class() -> object:
    """The actor's class derives from an ABC."""

    @ray.remote
    class Real(Abstract):
        def value(self) -> int:
            return self.x

    return ray.get(Real.remote(3).value.remote())


@stranger("ray#278", [True, 2])
def a_subclass_of_set() -> object:
    """An actor that is a set: methods of its own call those of the built-in class."""

    @ray.remote
    class Seen(set):  # type: ignore[type-arg]
        def note(self, x: int) -> bool:
            new = x not in self
            super().add(x)
            return new

        def size(self) -> int:
            return len(self)

    seen = Seen.remote()
    first = ray.get(seen.note.remote(1))
    ray.get([seen.note.remote(x) for x in (1, 2, 2)])
    return [first, ray.get(seen.size.remote())]


@stranger("ray#39179", ["First", "First", "Second"])
def an_unused_async_method() -> object:
    """With one async method in the class the plain ones still run, one at a time."""

    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.lines: list[str] = []

        def write(self, line: str) -> None:
            self.lines.append(line)

        async def unused(self) -> None: ...

        def read(self) -> list[str]:
            return self.lines

    log = Log.remote()
    ray.get([log.write.remote(line) for line in ("First", "Second", "First")])
    return sorted(ray.get(log.read.remote()))


@stranger("ray#49869", {"async": 3, "sync": 1})
def sync_methods_of_an_async_actor() -> object:
    """Of an async actor's calls those of async methods overlap, those of plain methods do not."""

    @ray.remote(max_concurrency=3)
    class Both:
        def __init__(self) -> None:
            self.now = self.most = 0

        def _in(self) -> None:
            self.now += 1
            self.most = max(self.most, self.now)

        async def wait(self) -> None:
            self._in()
            await asyncio.sleep(0.3)
            self.now -= 1

        def block(self) -> None:
            self._in()
            time.sleep(0.1)
            self.now -= 1

        def take_most(self) -> int:
            most, self.most = self.most, 0
            return most

    both = Both.remote()
    found = {}
    ray.get([both.wait.remote() for _ in range(3)])
    found["async"] = ray.get(both.take_most.remote())
    ray.get([both.block.remote() for _ in range(3)])
    found["sync"] = ray.get(both.take_most.remote())
    return found


@stranger("ray#46151", [[1, 1], [1, 1]])
def an_async_actor_twice() -> object:
    """An async actor called by ray.get, then from asyncio.run; it does not die."""

    @ray.remote
    class A:
        async def one(self) -> int:
            await asyncio.sleep(0.01)
            return 1

    a = A.remote()

    async def both() -> list[int]:
        return list(await asyncio.gather(*[a.one.remote() for _ in range(2)]))

    return [ray.get([a.one.remote() for _ in range(2)]), asyncio.run(both())]


@stranger("ray#21190", [True, True, False])
def a_concurrency_group_at_the_call() -> object:
    """``.options(concurrency_group=...)`` of a call outdoes the method's own group."""

    @ray.remote(concurrency_groups={"io": 1, "compute": 1})
    class Groups:
        @ray.method(concurrency_group="io")  # type: ignore[untyped-decorator]
        def io(self) -> int:
            return threading.get_ident()

        @ray.method(concurrency_group="compute")  # type: ignore[untyped-decorator]
        def compute(self) -> int:
            return threading.get_ident()

    a = Groups.remote()
    io, compute = ray.get([a.io.remote(), a.compute.remote()])
    moved = ray.get(a.io.options(concurrency_group="compute").remote())
    again = ray.get(a.io.remote())
    return [moved == compute, again == io, io == compute]


@stranger("ray#45005", "second")
def one_group_is_blocked() -> object:
    """A call in another group runs while the default group is busy."""

    @ray.remote(concurrency_groups={"side": 1})
    class A:
        def __init__(self) -> None:
            self.gate = threading.Event()

        def block(self) -> bool:
            return self.gate.wait(60)

        def free(self) -> str:
            self.gate.set()
            return "second"

    a = A.remote()
    blocked = a.block.remote()
    word = ray.get(a.free.options(concurrency_group="side").remote())
    assert ray.get(blocked)
    return word


@stranger("ray#57690", [1, True])
def a_name_is_free_after_the_end() -> object:
    """A named actor ends by __ray_terminate__; another takes its name and is found by it."""

    @ray.remote
    class Data:
        def pid(self) -> int:
            return os.getpid()

        def one(self) -> int:
            return 1

    options = {"name": "data", "namespace": "ns of strangers"}
    first = Data.options(**options).remote()
    pid = ray.get(first.pid.remote())
    ray.wait([first.__ray_terminate__.remote()])
    del first

    def again() -> object:
        try:
            return Data.options(**options).remote()
        except ValueError:  # its name is still taken
            return None

    second = until(again)
    found = ray.get_actor("data", "ns of strangers")
    assert second is not None
    return [ray.get(found.one.remote()), ray.get(found.pid.remote()) != pid]


@stranger("ray#58628", ["ValueError", True])
def get_if_exists_says_what_is_wrong() -> object:
    """get_if_exists with an impossible placement names that, not a missing actor."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())

    @ray.remote(num_cpus=1, num_gpus=8)
    class A: ...

    where = PlacementGroupSchedulingStrategy(placement_group=group)
    error = raised(
        lambda: A.options(scheduling_strategy=where, name="a", get_if_exists=True).remote()
    )
    ray.util.remove_placement_group(group)
    return [type(error).__name__, "bundle" in str(error)]


@stranger("ray#17644", "ValueError")
def killing_in_another_namespace() -> object:
    """A detached actor of another namespace is found, killed, and then not found."""

    @ray.remote
    class A: ...

    kept = A.options(name="gone", namespace="elsewhere", lifetime="detached").remote()
    ray.kill(ray.get_actor("gone", namespace="elsewhere"))
    del kept

    def look() -> object:
        try:
            ray.get_actor("gone", namespace="elsewhere")
        except ValueError as error:
            return error
        return None

    return type(until(look)).__name__


@stranger("ray#41324", {"actors": 1, "errors": 0})
def a_named_actor_from_many_threads() -> object:
    """Eight threads ask for the same actor by get_if_exists at once: all get the one."""

    @ray.remote(num_cpus=0)
    class One:
        def pid(self) -> int:
            return os.getpid()

    pids: set[int] = set()
    errors: list[Exception] = []

    def ask() -> None:
        try:
            one = One.options(name="one of all", get_if_exists=True, lifetime="detached").remote()
            pids.add(ray.get(one.pid.remote()))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ray.kill(ray.get_actor("one of all"))
    return {"actors": len(pids), "errors": len(errors)}


@stranger("ray#9673", [[1.0, 1.0], "ValueError"])
def an_array_as_state() -> object:
    """An array that came as an argument is read-only: a copy can be added to, itself it cannot."""
    import numpy as np

    @ray.remote
    class Total:
        def copy(self, v: np.ndarray) -> None:
            self.value = v.copy()

        def keep(self, v: np.ndarray) -> None:
            self.value = v

        def add(self, v: np.ndarray) -> list[float]:
            self.value += v
            return self.value[:2].tolist()

    big = np.zeros(100_000)
    total = Total.remote()
    total.copy.remote(big)
    first = ray.get(total.add.remote(big + 1))
    total.keep.remote(big)
    error = raised(lambda: ray.get(total.add.remote(big + 1)))
    return [first, "ValueError" if isinstance(error, ValueError) else repr(error)]


@stranger("docs: Actor fault tolerance, restarts", {"before": 1, "after": 1, "restarted": True})
def a_restarted_actor_begins_anew() -> object:
    """max_restarts=1: the process is another one, its state is the constructor's."""

    @ray.remote(max_restarts=1, max_task_retries=-1)
    class Count:
        def __init__(self) -> None:
            self.n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

        def pid(self) -> int:
            return os.getpid()

        def was_restarted(self) -> bool:
            return bool(ray.get_runtime_context().was_current_actor_reconstructed)

    count = Count.remote()
    before = ray.get(count.add.remote())
    pid = ray.get(count.pid.remote())
    ray.kill(count, no_restart=False)
    until(lambda: ray.get(count.pid.remote()) != pid)
    return {
        "before": before,
        "after": ray.get(count.add.remote()),
        "restarted": ray.get(count.was_restarted.remote()),
    }


@stranger("docs: Terminating actors", ["ActorDiedError", True])
def a_dropped_handle_ends_the_actor() -> object:
    """When the last handle goes, calls that were made still run, and the process ends."""

    @ray.remote
    class A:
        def pid(self) -> int:
            return os.getpid()

    a = A.remote()
    pid = a.pid.remote()
    del a
    value = ray.get(pid)
    until(lambda: not os.path.exists(f"/proc/{value}"))
    b = A.remote()
    ray.get(b.pid.remote())
    ray.kill(b)
    error = raised(lambda: ray.get(b.pid.remote()))
    return [type(error).__name__, isinstance(error, ray.exceptions.RayActorError)]


@stranger("docs: Actors, passing around handles", [6, True])
def a_handle_in_tasks() -> object:
    """A handle goes into tasks and within lists; handles of one actor are equal."""

    @ray.remote
    class Count:
        def __init__(self) -> None:
            self.n = 0

        def add(self) -> int:
            self.n += 1
            return self.n

    @ray.remote
    def use(handles: list[ray.actor.ActorHandle]) -> object:
        [handle] = handles
        ray.get([handle.add.remote() for _ in range(3)])
        return handle

    count = Count.remote()
    backs = ray.get([use.remote([count]), use.remote([count])])
    return [ray.get(count.add.remote()) - 1, backs[0] == backs[1] and hash(backs[0]) == hash(count)]


@stranger("forum: how does an actor get a handle to itself", [1, True])
def a_handle_to_oneself() -> object:
    """get_runtime_context().current_actor is a handle that others can call."""

    @ray.remote
    class A:
        def me(self) -> object:
            return ray.get_runtime_context().current_actor

        def one(self) -> int:
            return 1

    a = A.remote()
    me = ray.get(a.me.remote())
    return [ray.get(me.one.remote()), me == a]


@stranger("docs: Pattern: Using a supervisor actor to manage a tree of actor tasks", [3, 30])
def a_supervisor_and_its_workers() -> object:
    """An actor makes workers and gathers what they give."""

    @ray.remote(num_cpus=0.5)
    class Worker:
        def work(self, x: int) -> int:
            return x * 10

    @ray.remote(num_cpus=0.5)
    class Supervisor:
        def __init__(self, n: int) -> None:
            self.workers = [Worker.remote() for _ in range(n)]

        def run(self) -> list[int]:
            return ray.get([w.work.remote(i) for i, w in enumerate(self.workers)])

    found = ray.get(Supervisor.remote(3).run.remote())
    return [len(found), sum(found)]


@stranger("docs: Pattern: Using pipelining to increase throughput", 45)
def a_pipelined_worker() -> object:
    """A worker asks for its next item before it works on this one."""

    @ray.remote
    class Items:
        def __init__(self) -> None:
            self.items = list(range(10))

        def next(self) -> int | None:
            return self.items.pop() if self.items else None

    @ray.remote
    def worker(items: ray.actor.ActorHandle) -> int:
        total, coming = 0, items.next.remote()
        while (item := ray.get(coming)) is not None:
            coming = items.next.remote()
            total += item
        return total

    items = Items.remote()
    return sum(ray.get([worker.remote(items) for _ in range(2)]))


@stranger("docs: ray.method", [[1, 2], "here", 2])
def the_method_decorator() -> object:
    """ray.method(num_returns=2) on a method; properties and static methods of the class as Python has them."""

    @ray.remote
    class A:
        level = "here"

        @ray.method(num_returns=2)  # type: ignore[untyped-decorator]
        def two(self) -> tuple[int, int]:
            return 1, 2

        @classmethod
        def where(cls) -> str:
            return cls.level

        @staticmethod
        def double(x: int) -> int:
            return 2 * x

    a = A.remote()
    return [ray.get(a.two.remote()), ray.get(a.where.remote()), ray.get(a.double.remote(1))]


@stranger("StackOverflow: AttributeError of a remote actor", "AttributeError")
def a_method_that_is_not_there() -> object:
    """A misspelt method fails where it is written, not in the actor."""

    @ray.remote
    class A:
        def compute(self) -> None: ...

    a = A.remote()
    return type(raised(lambda: a.compite.remote())).__name__


@stranger("docs: Out-of-order execution", [0, 1, 2, 3, 4])
def calls_run_in_order() -> object:
    """Calls of one caller run in the order they were made, though an argument is late."""

    @ray.remote
    def late(x: int) -> int:
        time.sleep(0.2)
        return x

    @ray.remote
    class Log:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def note(self, x: int) -> None:
            self.seen.append(x)

        def all(self) -> list[int]:
            return self.seen

    log = Log.remote()
    for i in range(5):
        log.note.remote(late.remote(i) if i == 0 else i)
    return ray.get(log.all.remote())


@stranger("docs: Detached actors", ["alive", "gone"], cluster=None)
def a_detached_actor_outlives_its_driver() -> object:
    """Two drivers of one cluster: the second finds what the first left detached, not what it left behind."""
    import subprocess
    import sys

    ray.init(address="local", num_cpus=2, namespace="two drivers", include_dashboard=False)
    address = ray.get_runtime_context().gcs_address
    script = f"""
import ray
ray.init({address!r}, namespace="two drivers")
@ray.remote(num_cpus=0)
class A:
    def word(self): return "alive"
kept = A.options(name="kept", lifetime="detached").remote()
lost = A.options(name="lost").remote()
ray.get([kept.word.remote(), lost.word.remote()])
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=".")

    def is_gone() -> bool:
        try:
            ray.get_actor("lost")
        except ValueError:
            return True
        return False

    until(is_gone)
    kept = ray.get_actor("kept")
    word = ray.get(kept.word.remote())
    ray.kill(kept)
    return [word, "gone"]


@stranger("ray#52628", [20, 0])
def cancelling_async_calls_at_once() -> object:
    """ray.cancel right behind the call: each ends, and none runs to its end."""

    @ray.remote
    class Waits:
        def __init__(self) -> None:
            self.ended = 0

        async def wait(self) -> None:
            await asyncio.sleep(3600)
            self.ended += 1

        async def count(self) -> int:
            return self.ended

    waits = Waits.remote()
    cancelled = 0
    for _ in range(20):
        ref = waits.wait.remote()
        ray.cancel(ref)
        error = raised(lambda ref=ref: ray.get(ref))
        cancelled += isinstance(error, ray.exceptions.TaskCancelledError)
    return [cancelled, ray.get(waits.count.remote())]


@stranger("ray#5468", [1, 2], cluster={"num_cpus": 1})
def two_actors_and_one_cpu() -> object:
    """The second one waits until the first is gone, and begins then."""

    @ray.remote(num_cpus=1)
    class Named:
        def __init__(self, n: int) -> None:
            self.n = n

        def tell(self) -> int:
            return self.n

    first = Named.remote(1)
    one = ray.get(first.tell.remote())
    second = Named.remote(2)
    told = second.tell.remote()
    ray.kill(first)
    return [one, ray.get(told)]


@stranger("ray#20475", ["quick", False])
def a_group_that_stands_does_not_hold_another() -> object:
    """A method that blocks its concurrency group leaves the other group's methods free."""

    @ray.remote(concurrency_groups={"slow": 1, "quick": 1})
    class Grouped:
        def __init__(self) -> None:
            self.go = threading.Event()

        @ray.method(concurrency_group="slow")
        def stand(self) -> str:
            self.go.wait(600)
            return "stood"

        @ray.method(concurrency_group="quick")
        def answer(self) -> str:
            return "quick"

        @ray.method(concurrency_group="quick")
        def release(self) -> None:
            self.go.set()

    actor = Grouped.remote()
    standing = [actor.stand.remote() for _ in range(3)]
    answer = ray.get(actor.answer.remote())
    stood = bool(ray.wait([standing[0]], timeout=0)[0])
    ray.get(actor.release.remote())
    assert ray.get(standing) == ["stood"] * 3
    return [answer, stood]


@stranger("ray#17369", [1, 1])
def actors_killed_before_they_began() -> object:
    """Actors that are killed at once give their CPUs to those that follow."""

    @ray.remote(num_cpus=2)
    class Worker:
        def run(self, function: object) -> object:
            return function()

    for _ in range(3):
        for worker in [Worker.remote() for _ in range(2)]:
            ray.kill(worker)
    workers = [Worker.remote() for _ in range(2)]
    return ray.get([worker.run.remote(lambda: 1) for worker in workers])


@stranger("ray#11990", ["hi", 2])
def an_asynchronous_actor_that_exits_begins_again() -> object:
    """sys.exit() in an async method ends the process; calls with retries find the next one."""
    counter = os.path.abspath("lives-of-an-actor")

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Dying:
        def __init__(self) -> None:
            with open(counter, "a") as file:
                file.write("x")

        async def wait(self) -> str:
            await asyncio.sleep(0.2)
            return "hi"

        @ray.method(max_task_retries=0)
        async def die(self) -> None:
            os._exit(1)

    actor = Dying.remote()
    waiting = actor.wait.remote()
    actor.die.remote()
    answer = ray.get(waiting)
    return [answer, len(Path(counter).read_text())]


@stranger("docs: cancelling a task of an actor with threads", ["asked to end", True])
def a_threaded_actor_sees_that_it_is_cancelled() -> object:
    """A running call of an actor is not interrupted by ray.cancel; it may ask, and end by itself."""

    @ray.remote(max_concurrency=2)
    class Loops:
        def loop(self) -> str:
            began.set.remote()
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.02)
            ended.set.remote()
            return "asked to end"

    @ray.remote(num_cpus=0)
    class Flag:
        def __init__(self) -> None:
            self.up = False

        def set(self) -> None:
            self.up = True

        def get(self) -> bool:
            return self.up

    began, ended = Flag.remote(), Flag.remote()
    actor = Loops.remote()
    looping = actor.loop.remote()
    until(lambda: ray.get(began.get.remote()))
    ray.cancel(looping)
    saw = until(lambda: ray.get(ended.get.remote()))
    try:
        answer = ray.get(looping)
    except ray.exceptions.TaskCancelledError:
        answer = "asked to end"
    return [answer, saw]


if __name__ == "__main__":
    main()
