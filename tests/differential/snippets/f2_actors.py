"""F2: actors."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import ray
from kit import outcome, snippet, until


@ray.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.n = start

    def up(self, by: int = 1) -> int:
        self.n += by
        return self.n

    def pid(self) -> int:
        return os.getpid()

    def call(self, f: Any, *args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    def fail(self, error: Any) -> None:
        raise error

    def sleep(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def get(ref: Any, timeout: float = 30) -> Any:
    return ray.get(ref, timeout=timeout)


@snippet("F2.01", "F2.03", "F2.05")
def making() -> Any:
    class Plain:
        def f(self) -> int:
            return 1

    actor_class = ray.remote(Plain)
    a = Counter.remote(start=3)

    def inherit() -> Any:
        class Sub(actor_class):  # type: ignore[misc, valid-type]
            pass

        return Sub

    return {
        "types": [type(Counter).__name__[:10], type(a).__name__],
        "repr": repr(a).split(",")[0],
        "direct": outcome(lambda: actor_class(), "instantiated directly", "Plain", ".remote()"),
        "inherit": outcome(inherit),
        "call": outcome(lambda: a.up(1), "cannot be called directly", "up.remote()"),
        "unknown": outcome(lambda: a.nothing, "nothing"),
        "private": outcome(lambda: a._nothing),
        "args": outcome(lambda: a.up.remote(1, 2, 3), "too many"),
        "keyword": outcome(lambda: a.up.remote(no=1), "unexpected", "no"),
        "init args": outcome(lambda: Counter.remote(1, 2), "too many"),
        "init keyword": outcome(lambda: Counter.remote(no=2), "unexpected"),
        "values": get(
            [a.up.remote(), a.up.remote(by=5), a.call.remote(lambda x, y: x + y, 1, y=2)]
        ),
        "has": [hasattr(Counter, n) for n in ("remote", "options", "bind", "method")],
        "id": len(a._actor_id.hex()),
        "method": type(a.up).__name__,
        "dir": [n in dir(a) for n in ("up", "pid", "nothing")],
        "options": [hasattr(Counter.options(num_cpus=1), n) for n in ("remote", "bind", "options")],
        "set": outcome(lambda: setattr(a, "x", 1)),
        "no init": get(actor_class.remote().f.remote()),
        "bad target": outcome(lambda: ray.remote(num_cpus=1)(3)),
    }


@snippet("F2.02", "F2.14", "F2.16", "F2.17", "F2.18", "F2.19", "F2.29")
def wrong_options() -> Any:
    class A:
        pass

    class Async:
        async def f(self) -> None: ...

    remote = ray.remote(A)

    def make(target: Any = A, **options: Any) -> Any:
        return outcome(lambda: type(ray.remote(**options)(target)).__name__[:10], *options)

    def change(**options: Any) -> Any:
        return outcome(lambda: hasattr(remote.options(**options), "remote"), *options)

    def start(cls: Any = remote, **options: Any) -> Any:
        return outcome(lambda: type(cls.options(**options).remote()).__name__, *options)

    return {
        "unknown": make(no_such=1),
        "task's": [make(max_calls=1), make(max_retries=1), make(num_returns=1), make(retry_exceptions=True)],
        "max_restarts": [make(max_restarts=v) for v in (0, -1, 3, -2, "1", None)],
        "max_task_retries": [make(max_task_retries=v) for v in (0, -1, 3, -2, "1")],
        "max_concurrency": [make(max_concurrency=v) for v in (1, 10, 0, -1, "1")],
        "max_pending_calls": [make(max_pending_calls=v) for v in (-1, 10, 0, -2, "1")],
        "lifetime": [make(lifetime=v) for v in ("detached", "non_detached", None, "odd", 3)],
        "name": [start(name=v) for v in ("", 3)],
        "namespace": [start(name="x", namespace=v) for v in ("", 3)],
        "get_if_exists": [change(get_if_exists=True), change(get_if_exists=True, name="a"), make(get_if_exists=3)],
        "groups": [make(concurrency_groups=v) for v in ({"io": 2}, {"io": "2"}, {"io": 0}, [], {3: 1})],
        "groups later": change(concurrency_groups={"io": 2}),
        "order": [
            start(max_concurrency=2, allow_out_of_order_execution=False),
            start(ray.remote(Async), allow_out_of_order_execution=False),
            start(allow_out_of_order_execution=True),
            start(allow_out_of_order_execution=3),
        ],
        "resources": [make(num_cpus=-1), make(num_gpus="1"), make(resources={"CPU": 1}), make(memory="1")],
        "tensor": [make(enable_tensor_transport=v) for v in (True, False, 3)],
        "backpressure": [make(_actor_generator_backpressure_num_objects=v) for v in (1, 0)],
        "labels": [make(label_selector={"a": "b"}), make(label_selector={"a": 1})],
    }  # fmt: skip


@snippet("F2.15", "F2.14", "F2.20", "F2.29")
def methods() -> Any:
    class A:
        @ray.method(num_returns=2)
        def two(self) -> Any:
            return 1, 2

        def three(self) -> Any:
            return 1, 2, 3

        def gen(self, n: int = 3) -> Any:
            for i in range(n):
                yield i

        async def agen(self) -> Any:
            for i in range(3):
                await asyncio.sleep(0)
                yield i

        @ray.method(num_returns=3)
        def gen3(self) -> Any:
            for i in range(3):
                yield i

    class Sync:
        def gen(self) -> Any:
            yield 1
            raise ValueError("in the stream")

        def f(self) -> int:
            return 1

    a, s = ray.remote(A).remote(), ray.remote(Sync).remote()

    def mark(**options: Any) -> Any:
        return outcome(lambda: callable(ray.method(**options)(lambda self: None)), *options)

    return {
        "two": get(a.two.remote()),
        "three": get(a.three.options(num_returns=3).remote()),
        "zero": a.three.options(num_returns=0).remote(),
        "negative": outcome(lambda: a.three.options(num_returns=-1).remote(), "num_returns"),
        "gen": [get(r) for r in a.gen.remote(2)],
        "gen type": type(a.gen.remote()).__name__,
        "agen": [get(r) for r in a.agen.remote()],
        "gen3": outcome(lambda: get(a.gen3.remote())),
        "stream no gen": outcome(lambda: s.f.options(num_returns="streaming").remote(), "generator"),
        "failing": [outcome(lambda r=ref: get(r), "in the stream") for ref in s.gen.remote()],
        "unknown": mark(no_such=1),
        "positional": outcome(lambda: ray.method(3)),
        "nothing": outcome(lambda: callable(ray.method())),
        "known": mark(num_returns=1, concurrency_group="io", max_task_retries=1,
                      retry_exceptions=True, enable_task_events=True),
        "options": [outcome(lambda o=o: a.three.options(**o) is not None, *o) for o in (
            {"no_such": 1}, {"name": "x"}, {"concurrency_group": "x"}, {"max_task_retries": 1},
            {"retry_exceptions": True}, {"num_cpus": 1}, {"enable_task_events": True},
            {"_generator_backpressure_num_objects": 1})],
        "unknown group": outcome(
            lambda: get(a.three.options(concurrency_group="nope").remote()), "nope"
        ),
        "bind": hasattr(a.three, "bind"),
    }  # fmt: skip


@snippet("F2.04", "F2.09", "F2.12", "F2.13", "F2.14")
def concurrency() -> Any:
    @ray.remote
    class Async:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> str:
            await self.event.wait()
            return "set"

        async def set(self) -> None:
            self.event.set()

        async def loop(self) -> bool:
            return asyncio.get_running_loop() is not None

        def sync(self) -> Any:
            return threading.current_thread() is threading.main_thread()

        async def fetch(self, refs: list[Any]) -> Any:
            return await refs[0], await asyncio.gather(*refs)

    @ray.remote(max_concurrency=2)
    class Threads:
        def __init__(self) -> None:
            self.barrier = threading.Barrier(2)

        def meet(self) -> bool:
            self.barrier.wait(20)
            return True

    @ray.remote(concurrency_groups={"io": 1, "compute": 1})
    class Groups:
        def __init__(self) -> None:
            self.event = threading.Event()

        @ray.method(concurrency_group="io")
        def wait(self) -> bool:
            return self.event.wait(20)

        @ray.method(concurrency_group="compute")
        def set(self) -> None:
            self.event.set()

        def default(self) -> int:
            return 5

    a, t, g, c = Async.remote(), Threads.remote(), Groups.remote(), Counter.remote()
    waiting = a.wait.remote()
    get(a.set.remote())
    blocked = g.wait.remote()
    default = get(g.default.remote())
    get(g.set.options(concurrency_group="compute").remote())
    refs = [c.up.remote() for _ in range(100)]
    get(c.call.remote(lambda: os.environ.__setitem__("MARK", "here")))
    return {
        "async": [get(waiting), get(a.loop.remote())],
        "fetch": get(a.fetch.remote([ray.put(1), ray.put(2)])),
        "threads": get([t.meet.remote(), t.meet.remote()]),
        "groups": [get(blocked), default],
        "order": get(refs) == list(range(1, 101)),
        "environment": get(c.call.remote(lambda: os.environ["MARK"])),
    }


@snippet("F2.06", "F2.07", "F2.08", "F2.24")
def lifetime() -> Any:
    def gone(name: str) -> bool:
        def probe() -> bool:
            try:
                ray.get_actor(name)
            except ValueError:
                return True
            return False

        return bool(until(probe))

    a = Counter.options(name="dropped").remote()
    get(a.up.remote())
    del a
    k = Counter.options(name="killed").remote()
    get(k.up.remote())
    slow = k.sleep.remote(60)
    ray.kill(k)
    handles = [Counter.remote(), Counter.remote()]
    same = get(handles[0].call.remote(lambda h: h, handles[0]))

    @ray.remote
    def use(h: Any) -> Any:
        return ray.get(h.up.remote())

    @ray.remote
    def holds() -> Any:
        return ray.get_runtime_context().get_assigned_resources()

    class R:
        def have(self) -> Any:
            return ray.get_runtime_context().get_assigned_resources()

    remote = ray.remote(R)
    weak = Counter.options(name="weak").remote()
    get(weak.up.remote())
    found = ray.get_actor("weak")
    del weak
    return {
        "dropped": gone("dropped"),
        "running when killed": outcome(lambda: get(slow), "actor"),
        "after kill": outcome(lambda: get(k.up.remote()), "ray.kill"),
        "name free": gone("killed"),
        "kill again": outcome(lambda: ray.kill(k)),
        "kill other": outcome(lambda: ray.kill("a"), "ray.kill() only supported for actors"),
        "kill ref": outcome(lambda: ray.kill(ray.put(1)), "ray.kill() only supported for actors"),
        "same": [same == handles[0], hash(same) == hash(handles[0]), handles[0] != handles[1]],
        "passed": get(use.remote(handles[1])),
        "resources": [
            get(remote.remote().have.remote()),
            get(remote.options(num_cpus=1).remote().have.remote()),
            get(remote.options(num_cpus=0).remote().have.remote()),
            get(remote.options(memory=10_000_000).remote().have.remote()),
        ],
        "weak": [gone("weak"), outcome(lambda: get(found.up.remote()))],
    }


@snippet("F2.10", "F2.11")
def constructors() -> Any:
    @ray.remote
    class Broken:
        def __init__(self) -> None:
            raise ValueError("broken from the start")

        def f(self) -> None: ...

    b = Broken.remote()
    found: dict[str, Any] = {
        "call": outcome(
            lambda: get(b.f.remote()), "error raised in its creation task", "broken from the start"
        )
    }
    try:
        get(b.f.remote())
    except ray.exceptions.ActorDiedError as error:
        found["fields"] = [
            error.actor_init_failed,
            error.preempted,
            error.actor_id == b._actor_id.hex(),
            "broken" in error.error_msg,
        ]
    c = Counter.remote()
    get(c.up.remote())
    c.die.remote()
    found["died"] = outcome(lambda: get(c.up.remote()), "the actor died")
    try:
        get(c.up.remote())
    except ray.exceptions.ActorDiedError as error:
        found["died fields"] = [
            error.actor_init_failed,
            error.preempted,
            error.actor_id == c._actor_id.hex(),
            type(error.error_msg).__name__,
        ]
    return found


@snippet("F2.16", "F2.17", "F2.27", "F2.29")
def named() -> Any:
    a = Counter.options(name="one").remote()
    get(a.up.remote())
    again = Counter.options(name="one", get_if_exists=True).remote()
    other = Counter.options(name="other", get_if_exists=True).remote()
    d = Counter.options(name="forever", lifetime="detached", namespace="deep").remote()
    get(d.up.remote())
    found = {
        "get": get(ray.get_actor("one").up.remote()),
        "again": [get(again.up.remote()), again == a],
        "other": get(other.up.remote()),
        "taken": outcome(lambda: Counter.options(name="one").remote(), "one", "already"),
        "list": sorted(ray.util.list_named_actors()),
        "all": sorted(entry["name"] for entry in ray.util.list_named_actors(all_namespaces=True)),
        "keys": sorted(ray.util.list_named_actors(all_namespaces=True)[0]),
        "name": get(a.call.remote(lambda: ray.get_runtime_context().get_actor_name())),
    }
    ray.kill(d)
    found["after"] = outcome(lambda: ray.get_actor("forever", namespace="deep"))
    return found


@snippet("F2.18", "F5.05", "F2.11", limit_s=120)
def restarts() -> Any:
    a = Counter.options(max_restarts=1, max_task_retries=1).remote(10)
    found: dict[str, Any] = {"before": get(a.up.remote())}
    first = get(a.pid.remote())
    os.kill(first, signal.SIGKILL)
    found["after"] = get(a.up.remote(), 60)
    found["new"] = get(a.pid.remote()) != first
    os.kill(get(a.pid.remote()), signal.SIGKILL)
    found["used up"] = outcome(lambda: get(a.up.remote()))
    b = Counter.options(max_restarts=-1).remote()
    get(b.up.remote())
    found["no retry"] = outcome(lambda: get(b.die.remote()), "restart", "unavailable")
    found["lives"] = until(lambda: "returns" in outcome(lambda: get(b.up.remote())))
    c = Counter.options(max_restarts=1).remote()
    get(c.up.remote())
    ray.kill(c, no_restart=False)
    found["kill, restart"] = until(lambda: "returns" in outcome(lambda: get(c.up.remote())))

    @ray.remote(max_restarts=1)
    class Knows:
        def was(self) -> bool:
            return ray.get_runtime_context().was_current_actor_reconstructed

        def pid(self) -> int:
            return os.getpid()

    k = Knows.options(max_task_retries=2).remote()
    found["was"] = get(k.was.remote())
    os.kill(get(k.pid.remote()), signal.SIGKILL)
    found["was then"] = get(k.was.remote(), 60)

    @ray.remote
    class Retry:
        def __init__(self) -> None:
            self.n = 0

        @ray.method(max_task_retries=2, retry_exceptions=[ValueError])
        def f(self) -> int:
            self.n += 1
            if self.n < 3:
                raise ValueError("again")
            return self.n

        def tries(self) -> int:
            return self.n

        def g(self) -> None:
            self.n += 1
            raise ValueError("again")

    r = Retry.remote()
    found["method retries"] = outcome(lambda: get(r.f.remote()))
    q = Retry.remote()
    found["options"] = outcome(
        lambda: get(q.g.options(max_task_retries=1, retry_exceptions=True).remote())
    )
    found["tries"] = get(q.tries.remote())
    return found


@snippet("F2.19")
def pending_calls() -> Any:
    a = Counter.options(max_pending_calls=2).remote()
    get(a.up.remote())
    refs = [a.sleep.remote(1)]

    def many() -> None:
        for _ in range(10):
            refs.append(a.sleep.remote(0))

    return outcome(many, "max_pending_calls", "2")


@snippet("F2.21")
def cancelling() -> Any:
    @ray.remote
    class Async:
        async def wait(self) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            return "no"

        async def was(self) -> bool:
            return self.cancelled

    @ray.remote(max_concurrency=2)
    class Threads:
        def wait(self) -> str:
            deadline = time.monotonic() + 20
            while not ray.get_runtime_context().is_canceled() and time.monotonic() < deadline:
                time.sleep(0.01)
            return "saw it" if ray.get_runtime_context().is_canceled() else "no"

        def f(self) -> int:
            return 1

    a, t, c = Async.remote(), Threads.remote(), Counter.remote()
    get(c.up.remote())
    one = a.wait.remote()
    time.sleep(1)
    ray.cancel(one)
    two = t.wait.remote()
    get(t.f.remote())
    time.sleep(1)
    ray.cancel(two)
    busy = c.sleep.remote(3)
    queued = c.up.remote()
    ray.cancel(queued)
    return {
        "async": outcome(lambda: get(one), "cancel"),
        "was": get(a.was.remote()),
        "thread": outcome(lambda: get(two)),
        "queued": outcome(lambda: get(queued), "cancel"),
        "busy": get(busy),
        "value": outcome(lambda: get(c.up.remote(), 5)),
        "force": outcome(lambda: ray.cancel(c.sleep.remote(1), force=True), "force", "actor"),
    }


@snippet("F2.22")
def leaving() -> Any:
    @ray.remote
    class A:
        def leave(self) -> None:
            ray.actor.exit_actor()

        def f(self) -> int:
            return 1

    @ray.remote
    class B:
        async def leave(self) -> None:
            ray.actor.exit_actor()

    a, b = A.remote(), B.remote()
    get(a.f.remote())
    ref = a.leave.remote()
    return {
        "leave": outcome(lambda: get(ref), "exit_actor"),
        "after": outcome(lambda: get(a.f.remote()), "exit_actor"),
        "async": outcome(lambda: get(b.leave.remote()), "exit_actor"),
        "driver": outcome(ray.actor.exit_actor, "actor"),
        "task": outcome(lambda: get(ray.remote(lambda: ray.actor.exit_actor()).remote()), "actor"),
    }


@snippet("F2.23")
def built_ins() -> Any:
    a = Counter.remote(5)
    found = {
        "ready": outcome(lambda: get(a.__ray_ready__.remote())),
        "call": outcome(lambda: get(a.__ray_call__.remote(lambda self, x: self.n + x, 2))),
        "terminate": outcome(lambda: get(a.__ray_terminate__.remote())),
    }
    found["after"] = outcome(lambda: get(a.up.remote()))
    return found


@snippet("F2.25")
def actor_pool() -> Any:
    from ray.util import ActorPool

    a, b = Counter.remote(), Counter.remote()
    pool = ActorPool([a, b])
    found: dict[str, Any] = {
        "map": list(pool.map(lambda actor, v: actor.call.remote(abs, v), [-1, -2, -3, -4])),
        "unordered": sorted(
            pool.map_unordered(lambda actor, v: actor.call.remote(abs, v), [-1, -2, -3])
        ),
        "none": [
            outcome(pool.get_next, "no more results"),
            outcome(pool.get_next_unordered, "no more results"),
        ],
        "has": [pool.has_next(), pool.has_free()],
    }
    pool.submit(lambda actor, v: actor.sleep.remote(v), 3)
    found["submitted"] = [pool.has_next(), pool.has_free()]
    found["timeout"] = outcome(lambda: pool.get_next(timeout=0.1))
    found["unordered timeout"] = outcome(lambda: pool.get_next_unordered(timeout=0.1))
    found["value"] = pool.get_next()
    found["push known"] = outcome(lambda: pool.push(a), "already")
    idle = pool.pop_idle()
    found["pop"] = [type(idle).__name__, type(pool.pop_idle()).__name__, pool.pop_idle()]
    found["push"] = pool.push(idle)
    pool.submit(lambda actor, v: actor.fail.remote(ValueError(v)), "x")
    found["error"] = outcome(pool.get_next)
    found["still free"] = pool.has_free()
    pool.submit(lambda actor, v: actor.sleep.remote(v), 0.5)
    pool.submit(lambda actor, v: actor.up.remote(v), 1)
    found["queued"] = [type(pool.get_next()).__name__, pool.has_next()]
    found["mixed"] = outcome(pool.get_next_unordered)
    return found


@snippet("F2.26")
def queues() -> Any:
    from ray.util.queue import Empty, Full, Queue

    q = Queue(maxsize=2)
    found: dict[str, Any] = {
        "put": [q.put(1), q.put_nowait(2)],
        "full": [q.full(), q.empty(), q.size(), q.qsize(), len(q), q.maxsize],
        "more": [outcome(lambda: q.put_nowait(3)), outcome(lambda: q.put(3, timeout=0.1)),
                 outcome(lambda: q.put(3, block=False))],
        "get": [q.get(), q.get_nowait()],
        "less": [outcome(q.get_nowait), outcome(lambda: q.get(timeout=0.1)),
                 outcome(lambda: q.get(block=False))],
        "negative": [outcome(lambda: q.get(timeout=-1)), outcome(lambda: q.put(1, timeout=-1))],
        "batch": [q.put_nowait_batch([1, 2]), q.get_nowait_batch(2)],
        "batch errors": [outcome(lambda: q.put_nowait_batch([1, 2, 3])),
                         outcome(lambda: q.get_nowait_batch(1)),
                         outcome(lambda: q.put_nowait_batch(3)),
                         outcome(lambda: q.get_nowait_batch("x")),
                         outcome(lambda: q.get_nowait_batch(-1))],
        "classes": [[c.__name__ for c in Empty.__mro__], [c.__name__ for c in Full.__mro__]],
    }  # fmt: skip

    async def go() -> Any:
        await q.put_async("a")
        return await q.get_async(), await _caught(q.get_async(timeout=0.1))

    async def _caught(awaitable: Any) -> str:
        try:
            await awaitable
        except Exception as error:
            return type(error).__name__
        return "nothing"

    found["async"] = asyncio.run(go())

    @ray.remote
    def produce(queue: Any) -> None:
        queue.put("from a task")

    get(produce.remote(q))
    found["shared"] = q.get()
    found["actor options"] = Queue(actor_options={"num_cpus": 1}).empty()
    found["shutdown"] = q.shutdown()
    found["after"] = outcome(lambda: q.put(1))
    found["forced"] = Queue().shutdown(force=True)
    return found


@snippet("F2.28", "F14.04")
def helpers() -> Any:
    from ray.util import as_completed, map_unordered

    square = ray.remote(lambda x: x * x)
    refs = [square.remote(i) for i in range(5)]
    return {
        "completed": sorted(as_completed(refs)),
        "refs": sorted(ray.get(r) for r in as_completed(refs, yield_obj_refs=True)),
        "chunk": sorted(as_completed(refs, chunk_size=2)),
        "map": sorted(map_unordered(square, range(5))),
        "back": sorted(map_unordered(square, range(5), backpressure_size=2)),
        "few": outcome(lambda: list(map_unordered(square, range(5), backpressure_size=0))),
        "small chunk": outcome(lambda: list(as_completed(refs, chunk_size=0))),
        "handles": outcome(lambda: sorted(map_unordered(Counter.remote().up, [1, 1]))),
    }


@snippet("F2.30", cluster=None)
def legacy() -> Any:
    def can(name: str) -> Any:
        import importlib

        return outcome(lambda: importlib.import_module(name).__name__.rpartition(".")[2])

    return [can("ray.util.actor_group"), can("ray.util.iter"), can("ray.util.actor_pool")]
