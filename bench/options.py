"""Rows for what the contract has beyond plain calls: options, errors, utilities; see README.md.

Everything runs through core.py's harness. A row far behind its neighbours is a slow path that nobody
looked at.
"""

import asyncio
import contextlib
import functools
import io
import itertools
import os
import tempfile

import core
from core import Row, Server, actor, batch, ones, puts, remote, small, sync, task

core.ROWS.clear()


# ---- what runs remotely ----
def fail():
    raise ValueError("no")


def identity(x):
    return x


def first(refs):
    import ray

    return ray.get(refs[0])


def call(handle):
    import ray

    return ray.get(handle.small.remote())


def ask(names):
    import ray

    context = ray.get_runtime_context()
    for _ in range(100):
        for name in names:
            getattr(context, name)()


def once(path, end):
    """Ends badly the first time that it runs for this path."""
    if not os.path.exists(path):
        open(path, "w").close()
        end()
    return b"ok"


def crash():
    os._exit(1)


class Odd:
    def two(self):
        return 1, 2

    def fail(self):
        raise ValueError("no")

    def items(self, n):
        for i in range(n):  # Ray cannot take `yield from range(n)`
            yield i


class AsyncOdd:
    async def small(self):
        return b"ok"

    async def items(self, n):
        for i in range(n):
            yield i


class Own:
    """Pickled by a serializer of its own."""

    def __init__(self, value):
        self.value = value


# ---- the shapes of a call ----
def start(call, **options):
    """Calls with options at each of them."""
    return lambda *args: call.options(**options).remote(*args)


def caught(start, *args):
    def fn():
        try:
            core.ray.get(start(*args))
        except ValueError:
            return
        raise AssertionError("no error")

    return fn


def repeated(end, **options):
    """A task that ends badly once and runs again."""
    f, folder, numbers = (
        remote(once, max_retries=1, **options),
        tempfile.mkdtemp(),
        itertools.count(),
    )
    return lambda: core.ray.get(f.remote(f"{folder}/{next(numbers)}", end), timeout=30)


def chain(n):
    f = remote(identity)

    def fn():
        ref = f.remote(0)
        for _ in range(n - 1):
            ref = f.remote(ref)
        return core.ray.get(ref)

    return fn


def listed(start):
    return lambda: core.ray.get(start(puts(1)))


def futures(start, n):
    return lambda: [future.result() for future in [start().future() for _ in range(n)]]


def cancelled(n):
    """Tasks that wait for more CPUs than there are."""
    start = task(num_cpus=1000)

    def fn():
        refs = [start() for _ in range(n)]
        for ref in refs:
            core.ray.cancel(ref)
        for ref in refs:
            try:
                core.ray.get(ref, timeout=30)
            except core.ray.exceptions.TaskCancelledError:
                continue
            raise AssertionError("not cancelled")

    return fn


def items(method, n):
    return lambda: [core.ray.get(ref) for ref in method.remote(n)]


def awaited(start, n):
    async def everything():
        return await asyncio.gather(*[start() for _ in range(n)])

    return lambda: asyncio.run(everything())


def grouped():
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([{"CPU": 1}])
    assert group.wait(timeout_seconds=30)
    return batch(task(scheduling_strategy=PlacementGroupSchedulingStrategy(group)))


def pinned():
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node = core.ray.get_runtime_context().get_node_id()
    return batch(task(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)))


def named(n):
    kept = remote(Server).options(name="bench").remote()
    core.ray.get(kept.small.remote())
    return lambda kept=kept: [core.ray.get_actor("bench") for _ in range(n)]


def either():
    make = remote(Server).options(name="either", get_if_exists=True)
    kept = make.remote()
    return lambda kept=kept: core.ray.get(make.remote().small.remote())


def passed():
    handle = remote(Server).remote()
    return sync(task(call), handle)


def restarted():
    handle = remote(Server, max_restarts=-1, max_task_retries=-1).remote()

    def fn():
        core.ray.kill(handle, no_restart=False)
        core.ray.get(handle.small.remote(), timeout=30)

    return fn


def actor_pool(n):
    from ray.util import ActorPool

    pool = ActorPool([remote(Server).remote() for _ in range(2)])
    return lambda: list(pool.map(lambda a, v: a.small.remote(v), range(n)))


def queue(n):
    from ray.util.queue import Queue

    q = Queue()

    def fn():
        for i in range(n):
            q.put(i)
            q.get()

    return fn


def queue_batch(n):
    from ray.util.queue import Queue

    q, values = Queue(), list(range(n))

    def fn():
        q.put_nowait_batch(values)
        q.get_nowait_batch(n)

    return fn


def as_they_come(start, n):
    from ray.util import as_completed

    return lambda: list(as_completed([start() for _ in range(n)]))


def unordered(n):
    from ray.util import map_unordered

    f = remote(identity)
    return lambda: list(map_unordered(f, range(n), backpressure_size=100))


def pool(body):
    from ray.util.multiprocessing import Pool

    return functools.partial(body, Pool(2))


def joblib(n):
    from joblib import Parallel, delayed, parallel_config
    from ray.util.joblib import register_ray

    register_ray()

    def fn():
        with parallel_config("ray", n_jobs=2):
            Parallel()(delayed(identity)(i) for i in range(n))

    return fn


def counted(n):
    from ray.util.metrics import Counter

    counter = Counter("bench", description="a counter", tag_keys=("key",))
    return lambda: [counter.inc(1, tags={"key": "value"}) for _ in range(n)]


def state(name):
    from ray.util import state as source

    kept = [remote(Server).remote() for _ in range(2)], puts(100)
    core.ray.get([a.small.remote() for a in kept[0]])
    batch(task(), n=200)()
    return lambda kept=kept: getattr(source, name)()


def inspected():
    from ray.util import inspect_serializability

    def fn():
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it finds
            inspect_serializability(small)

    return fn


def own_serializer():
    core.ray.util.register_serializer(Own, serializer=lambda own: own.value, deserializer=Own)
    return lambda: core.ray.get(core.ray.put(Own(1)))


def texts(n):
    return [f"text {i}" for i in range(n)]


def polled(n):
    refs = puts(n)
    return lambda: core.ray.wait(refs, num_returns=n, timeout=0)


# ---- the rows, as core.py has them ----
Row("tasks", "options at each call", 1000, lambda: batch(start(remote(small), name="n")))
Row("tasks", "three returns", 1, lambda: sync(task(lambda: (1, 2, 3), num_returns=3)))
Row("tasks", "error caught", 1, lambda: caught(task(fail)))
Row("tasks", "error then again", 1, lambda: repeated(fail, retry_exceptions=True))
Row("tasks", "crash then again", 1, lambda: repeated(crash))
Row("tasks", "chain of 100", 100, lambda: chain(100))
Row("tasks", "reference in a list", 1, lambda: listed(task(first)))
Row("tasks", "queued and cancelled", 100, lambda: cancelled(100))
Row("tasks", "max_calls=1", 1, lambda: sync(task(max_calls=1)))
Row("tasks", "environment variables", 1, lambda: sync(task(runtime_env={"env_vars": {"A": "1"}})))
Row("tasks", "1 MB in and out", 1, lambda: sync(task(identity), ones(1)))
Row("tasks", "awaited", 1000, lambda: awaited(task(), 1000))
Row(
    "tasks",
    "as futures",
    1000,
    lambda: futures(task(), 1000),
)
Row("tasks", "spread", 1000, lambda: batch(task(scheduling_strategy="SPREAD")))
Row("tasks", "pinned to a node", 1000, pinned)
Row("tasks", "in a placement group", 1000, grouped)
Row("tasks", "memory asked for", 1000, lambda: batch(task(memory=1_000_000)))
Row("tasks", "half a CPU", 1000, lambda: batch(task(num_cpus=0.5)))
Row("tasks", "a label asked for", 1000, lambda: batch(task(label_selector={"a": "!b"})))
Row(
    "tasks",
    "300 questions to the context",
    1,
    lambda: sync(task(ask), ("get_task_id", "get_node_id", "get_assigned_resources")),
)
Row("actors", "two returns", 1, lambda: sync(start(remote(Odd).remote().two, num_returns=2)))
Row(
    "actors",
    "options at each method",
    1000,
    lambda: batch(start(remote(Server).remote().small, name="n")),
)
Row("actors", "method's error caught", 1, lambda: caught(start(remote(Odd).remote().fail)))
Row(
    "actors",
    "concurrency group",
    1000,
    lambda: batch(
        start(remote(AsyncOdd, concurrency_groups={"io": 2}).remote().small, concurrency_group="io")
    ),
)
Row("actors", "limited pending calls", 1000, lambda: batch(actor(Server, max_pending_calls=5000)))
Row("actors", "items of a method", 1000, lambda: items(remote(Odd).remote().items, 1000))
Row(
    "actors", "items of an async method", 1000, lambda: items(remote(AsyncOdd).remote().items, 1000)
)
Row("actors", "__ray_call__", 1, lambda: sync(start(remote(Server).remote().__ray_call__), str))
Row("actors", "get_actor", 100, lambda: named(100))
Row("actors", "get_if_exists and a call", 1, either)
Row("actors", "handle passed and called", 1, passed)
Row("actors", "killed and called again", 1, restarted)
Row("actors", "ActorPool.map", 1000, lambda: actor_pool(1000))
Row("actors", "Queue put and get", 100, lambda: queue(100))
Row("actors", "Queue by thousands", 1, lambda: queue_batch(1000))
Row("objects", "put 1 MB", 1, lambda: functools.partial(core.ray.put, ones(1)))
Row("objects", "put and get 1 MB", 1, lambda: sync(core.ray.put, ones(1)))
Row("objects", "put and get 100k texts", 1, lambda: sync(core.ray.put, texts(100_000)))
Row("objects", "put and get a small dict", 1, lambda: sync(core.ray.put, {"loss": 0.5, "step": 3}))
Row("objects", "serializer of one's own", 1, own_serializer)
Row("objects", "wait for 1000 that are there", 1, lambda: polled(1000))
Row("util", "as_completed", 1000, lambda: as_they_come(task(), 1000))
Row("util", "map_unordered", 1000, lambda: unordered(1000))
Row("util", "Pool.map", 1000, lambda: pool(lambda p: p.map(identity, range(1000))))
Row("util", "Pool.map one at a time", 100, lambda: pool(lambda p: p.map(identity, range(100), 1)))
Row("util", "Pool.apply", 1, lambda: pool(lambda p: p.apply(identity, (1,))))
Row("util", "joblib", 100, lambda: joblib(100))
Row("util", "Counter.inc", 1000, lambda: counted(1000))
Row("util", "list_tasks", 1, lambda: state("list_tasks"))
Row("util", "list_actors", 1, lambda: state("list_actors"))
Row("util", "list_objects", 1, lambda: state("list_objects"))
Row("util", "list_nodes", 1, lambda: state("list_nodes"))
Row("util", "summarize_tasks", 1, lambda: state("summarize_tasks"))
Row("util", "inspect_serializability", 1, inspected)
Row("util", "cluster_resources", 1, lambda: lambda: core.ray.cluster_resources())
Row("util", "available_resources", 1, lambda: lambda: core.ray.available_resources())

if __name__ == "__main__":
    core.start()
