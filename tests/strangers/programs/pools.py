"""ActorPool, multiprocessing.Pool, joblib, Queue, and the like that take the place of another library."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time

import ray
from ray.util import ActorPool
from ray.util.multiprocessing import Pool
from ray.util.queue import Empty, Full, Queue

from tests.strangers.kit import main, raised, stranger


@ray.remote(num_cpus=0)
class Doubler:
    def double(self, x: int) -> int:
        return 2 * x

    def slow(self, x: int) -> int:
        time.sleep(600)
        return x

    def die(self) -> None:
        os._exit(1)

    def fail(self, x: int) -> int:
        raise ValueError(x)


def square(x: int) -> int:
    return x * x


@stranger("docs: ActorPool", [[0, 2, 4, 6, 8, 10], [0, 2, 4, 6]])
def map_and_map_unordered() -> object:
    """map keeps the order; map_unordered gives all."""
    pool = ActorPool([Doubler.remote() for _ in range(2)])
    ordered = list(pool.map(lambda a, v: a.double.remote(v), range(6)))
    return [ordered, sorted(pool.map_unordered(lambda a, v: a.double.remote(v), range(4)))]


@stranger("ray#51979", "TimeoutError")
def next_unordered_in_time() -> object:
    """Nothing is ready within the timeout: TimeoutError, and the pool can go on."""
    pool = ActorPool([Doubler.remote()])
    pool.submit(lambda a, v: a.slow.remote(v), 1)
    return type(raised(lambda: pool.get_next_unordered(timeout=0.1))).__name__


@stranger("ray#23107", [2, 4, 6])
def map_after_a_submit() -> object:
    """A value that was submitted before and not fetched does not turn up among those of map."""
    pool = ActorPool([Doubler.remote() for _ in range(2)])
    pool.submit(lambda a, v: a.double.remote(v), 50)
    return [v for v in pool.map(lambda a, v: a.double.remote(v), [1, 2, 3]) if v != 100]


@stranger("ray#64646", ["RayActorError", [2, 4]])
def a_dead_actor_in_the_pool() -> object:
    """An actor of the pool dies: its value raises, and the others do the rest."""
    pool = ActorPool([Doubler.remote(), Doubler.remote()])
    pool.submit(lambda a, v: a.die.remote(), None)
    error = raised(pool.get_next)
    rest = sorted(pool.map(lambda a, v: a.double.remote(v), [1, 2]))
    return [
        "RayActorError" if isinstance(error, ray.exceptions.RayActorError) else repr(error),
        rest,
    ]


@stranger("forum: an exception in ActorPool", ["ValueError", 4])
def an_error_leaves_the_actor_in_the_pool() -> object:
    """A method that raises does not take its actor out of the pool."""
    pool = ActorPool([Doubler.remote()])
    pool.submit(lambda a, v: a.fail.remote(v), 1)
    error = raised(pool.get_next)
    pool.submit(lambda a, v: a.double.remote(v), 2)
    return ["ValueError" if isinstance(error, ValueError) else repr(error), pool.get_next()]


@stranger("docs: ActorPool, push and pop", [False, True, 2])
def pool_push_and_pop() -> object:
    """pop_idle takes an idle actor out, push puts one in; the same one twice is refused."""
    actor = Doubler.remote()
    pool = ActorPool([actor])
    popped = pool.pop_idle()
    free = pool.has_free()
    pool.push(popped)
    assert isinstance(raised(lambda: pool.push(actor)), ValueError)
    pool.submit(lambda a, v: a.double.remote(v), 1)
    return [free, popped is not None, pool.get_next()]


@stranger("docs: Distributed multiprocessing.Pool", [[0, 1, 4], [3, 7], 9, [0, 1, 4], [0, 1, 4]])
def a_pool_as_of_multiprocessing() -> object:
    """map, starmap, apply, imap and imap_unordered."""
    with Pool(2) as pool:
        return [
            pool.map(square, range(3)),
            pool.starmap(lambda a, b: a + b, [(1, 2), (3, 4)]),
            pool.apply(square, (3,)),
            list(pool.imap(square, range(3), chunksize=2)),
            sorted(pool.imap_unordered(square, range(3))),
        ]


@stranger("ray#24081", [0, 1, 4, 9])
def a_generator_for_imap() -> object:
    """imap_unordered of a generator, whose length nobody knows."""
    with Pool(2) as pool:
        return sorted(pool.imap_unordered(square, (i for i in range(4))))


scale = 1


def _set_scale() -> None:
    global scale
    scale = 10


def _scaled(x: int) -> int:
    return x * scale


@stranger("ray#37705", "some answer")
def a_pool_initializer() -> object:
    """An initializer that sets a global of the script: the pool starts, and map gives one value an item."""
    with Pool(1, initializer=_set_scale) as pool:
        found = pool.map(_scaled, range(4))
    return "some answer" if len(found) == 4 else found


@stranger(
    "docs: Distributed multiprocessing.Pool, errors",
    ["ZeroDivisionError", ["ok", 5.0], ["failed", True]],
)
def callbacks_and_errors_of_a_pool() -> object:
    """apply_async: a callback gets the value, an error callback the exception; get raises it."""
    found: list[list[object]] = []
    done = threading.Semaphore(0)

    def ok(value: object) -> None:
        found.append(["ok", value])
        done.release()

    def failed(error: BaseException) -> None:
        found.append(["failed", isinstance(error, Exception)])
        done.release()

    with Pool(1) as pool:
        pool.apply_async(lambda: 10 / 2, callback=ok).get(timeout=60)
        result = pool.apply_async(lambda: 1 / 0, error_callback=failed)
        error = raised(lambda: result.get(timeout=60))
        done.acquire(timeout=60)
        done.acquire(timeout=60)
    name = "ZeroDivisionError" if isinstance(error, ZeroDivisionError) else repr(error)
    return [name, *sorted(found, key=lambda f: str(f[0]), reverse=True)]


@stranger("docs: Distributed scikit-learn / Joblib", [0, 1, 4, 9, 16], needs=("joblib",))
def joblib_on_ray() -> object:
    """joblib's Parallel with the backend "ray"."""
    import joblib
    from ray.util.joblib import register_ray

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        return joblib.Parallel()(joblib.delayed(square)(i) for i in range(5))


@stranger("docs: Queue", ["Full", "Full", [1, 2], "Empty", "Empty", 0])
def a_bounded_queue() -> object:
    """maxsize=2: the third put is refused at once or after the timeout; get of nothing likewise."""
    queue: Queue = Queue(maxsize=2)
    queue.put(1)
    queue.put(2)
    found: list[object] = []
    for call, kind in (
        (lambda: queue.put(3, block=False), Full),
        (lambda: queue.put(3, timeout=0.1), Full),
    ):
        found.append("Full" if isinstance(raised(call), kind) else "no")
    found.append([queue.get(), queue.get()])
    for get in (lambda: queue.get(block=False), lambda: queue.get(timeout=0.1)):
        found.append("Empty" if isinstance(raised(get), Empty) else "no")
    found.append(queue.size())
    queue.shutdown()
    return found


@stranger("ray#49183", "Empty")
def a_queue_in_a_coroutine() -> object:
    """get_async with a timeout raises Empty, as get does."""
    queue: Queue = Queue()

    async def wait() -> None:
        await queue.get_async(timeout=0.1)

    error = raised(lambda: asyncio.run(wait()))
    queue.shutdown()
    return "Empty" if isinstance(error, Empty) else repr(error)


@stranger("forum: producer and consumer with a queue", [list(range(20)), True])
def a_producer_and_a_consumer() -> object:
    """One task puts, another gets, through a queue that holds three."""
    queue: Queue = Queue(maxsize=3)

    @ray.remote
    def produce() -> None:
        for i in range(20):
            queue.put(i)
        queue.put(None)

    @ray.remote
    def consume() -> list[int]:
        return list(iter(queue.get, None))

    produced, consumed = produce.remote(), consume.remote()
    found = ray.get(consumed)
    ray.get(produced)
    empty = queue.empty()
    queue.shutdown()
    return [found, empty]


@stranger("docs: Queue, batches", [[1, 2, 3], "Full", [1, 2]])
def queue_batches() -> object:
    """put_nowait_batch puts all or nothing, get_nowait_batch takes so many."""
    queue: Queue = Queue(maxsize=4)
    queue.put_nowait_batch([1, 2, 3])
    too_many = raised(lambda: queue.put_nowait_batch([4, 5]))
    first = queue.get_nowait_batch(2)
    queue.put_nowait_batch([])
    found = [[1, 2, 3], "Full" if isinstance(too_many, Full) else repr(too_many), first]
    queue.shutdown()
    return found


@stranger("ray#28328", [[1, 2], [3, 4], "alive"])
def pythons_own_pool_in_an_actor() -> object:
    """A pool of forked processes within a method, twice; the actor goes on."""

    @ray.remote
    class Forks:
        def act(self, numbers: list[int]) -> list[int]:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                return pool.map(abs, numbers)

        def state(self) -> str:
            return "alive"

    forks = Forks.remote()
    found = [ray.get(forks.act.remote([-1, -2])), ray.get(forks.act.remote([-3, -4]))]
    return [*found, ray.get(forks.state.remote())]


@stranger("ray#7542", [[0, 1, 4], [0, 1, 8]])
def a_pool_after_a_pool() -> object:
    """A second Pool in the same program works as the first did."""
    found = []
    for power in (2, 3):
        with Pool(processes=2) as pool:
            found.append(pool.map(lambda x, power=power: x**power, range(3)))
    return found


@stranger("ray#23184", [4, [0, 1, 2, 3]], needs=("joblib",))
def joblib_uses_every_worker() -> object:
    """Four jobs that wait for each other run in four processes at a time."""
    import joblib
    from ray.util.joblib import register_ray

    register_ray()

    @ray.remote(num_cpus=0)
    class Meeting:
        def __init__(self) -> None:
            self.there = 0

        def come(self) -> None:
            self.there += 1

        def count(self) -> int:
            return self.there

    meeting = Meeting.remote()

    def meet(number: int) -> tuple[int, int]:
        ray.get(meeting.come.remote())
        deadline = time.monotonic() + 60
        while ray.get(meeting.count.remote()) < 4:
            assert time.monotonic() < deadline, "the others never came"
            time.sleep(0.05)
        return number, os.getpid()

    with joblib.parallel_backend("ray", n_jobs=4):
        met = joblib.Parallel()(joblib.delayed(meet)(number) for number in range(4))
    return [len({pid for _, pid in met}), [number for number, _ in met]]


if __name__ == "__main__":
    main()
