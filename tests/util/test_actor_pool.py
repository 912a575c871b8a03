"""``ActorPool`` and ``Queue``."""

from __future__ import annotations

import asyncio
import queue as stdlib_queue
import time
from typing import Any

import pytest
import ray

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


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


@ray.remote
class Worker:
    def echo(self, value: Any) -> Any:
        return value

    def slow(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    def fail(self, value: Any) -> None:
        raise KeyError(value)


@pytest.mark.contract("F2.25")
def test_timeouts_of_a_pool() -> None:
    """Without ``ignore_if_timedout`` the result is still to come; with it, it is given up."""
    from ray.util import ActorPool

    def slow(actor: Any, seconds: float) -> Any:
        return actor.slow.remote(seconds)

    pool = ActorPool([Worker.remote()])
    for take in (pool.get_next, pool.get_next_unordered):
        pool.submit(slow, 1)
        with pytest.raises(TimeoutError, match="Timed out waiting for result"):
            take(timeout=0.05)
        assert pool.has_next()
        assert take(timeout=20) == 1
        pool.submit(slow, 0.5)
        with pytest.raises(TimeoutError, match="ignored"):
            take(timeout=0.05, ignore_if_timedout=True)
        assert not pool.has_next()
        assert pool.has_free()
        with pytest.raises(StopIteration, match="No more results to get"):
            take()


@pytest.mark.contract("F2.25")
def test_who_is_free_in_a_pool() -> None:
    from ray.util import ActorPool

    one, two = Worker.remote(), Worker.remote()
    pool = ActorPool([one])
    assert pool.has_free()
    pool.submit(lambda actor, value: actor.slow.remote(value), 0.3)
    assert not pool.has_free()
    assert pool.pop_idle() is None
    with pytest.raises(ValueError, match="already belongs"):
        pool.push(one)
    pool.submit(lambda actor, value: actor.echo.remote(value), "waits")
    pool.push(two)  # takes what waited
    assert pool.get_next_unordered(timeout=20) == "waits"
    assert pool.pop_idle() == two
    assert pool.get_next_unordered(timeout=20) == 0.3
    assert pool.pop_idle() == one


@pytest.mark.contract("F2.25")
def test_a_pool_goes_on_after_an_error() -> None:
    from ray.util import ActorPool

    pool = ActorPool([Worker.remote()])
    pool.submit(lambda actor, value: actor.fail.remote(value), "bad")
    pool.submit(lambda actor, value: actor.echo.remote(value), "good")
    with pytest.raises(KeyError, match="bad"):
        pool.get_next()
    assert pool.get_next() == "good"


@pytest.mark.contract("F2.26")
def test_a_queue_between_tasks_threads_and_coroutines() -> None:
    from ray.util.queue import Queue

    queue = Queue(maxsize=3, actor_options={"num_cpus": 0.1})

    @ray.remote
    def produce(queue: Any, base: int) -> None:
        for i in range(20):
            queue.put(base + i)

    @ray.remote
    def consume(queue: Any, count: int) -> list[int]:
        return [queue.get(timeout=30) for _ in range(count)]

    @ray.remote
    class Consumer:
        async def take(self, queue: Any, count: int) -> list[int]:
            return [await queue.get_async(timeout=30) for _ in range(count)]

    consumer = Consumer.remote()
    produced = [produce.remote(queue, 0), produce.remote(queue, 100)]
    taken = ray.get([consume.remote(queue, 20), consumer.take.remote(queue, 20)], timeout=60)
    ray.get(produced)
    assert sorted(taken[0] + taken[1]) == [*range(20), *range(100, 120)]
    for part in taken:
        assert [x for x in part if x < 100] == sorted(x for x in part if x < 100), (
            "first in, first out"
        )
    assert queue.empty()


@pytest.mark.contract("F2.26")
def test_a_put_waits_for_room_and_a_get_for_an_item() -> None:
    from ray.util.queue import Queue

    queue = Queue(maxsize=1)
    queue.put("first")

    @ray.remote
    def put(queue: Any) -> str:
        queue.put("second")
        return "put"

    waiting = put.remote(queue)
    assert ray.wait([waiting], timeout=0.3)[0] == []
    assert queue.get() == "first"
    assert ray.get(waiting, timeout=20) == "put"
    assert queue.get(timeout=20) == "second"


@pytest.mark.contract("F2.26")
def test_batches_and_what_they_refuse() -> None:
    from ray.util.queue import Empty, Full, Queue

    queue = Queue(maxsize=3)
    queue.put_nowait_batch([1, 2])
    with pytest.raises(Full):
        queue.put_nowait_batch([3, 4])
    assert len(queue) == queue.size() == 2, "all or none"
    with pytest.raises(Empty):
        queue.get_nowait_batch(3)
    assert queue.get_nowait_batch(2) == [1, 2]
    with pytest.raises(TypeError):
        queue.put_nowait_batch(5)
    with pytest.raises(TypeError):
        queue.get_nowait_batch("2")
    with pytest.raises(ValueError, match="nonnegative"):
        queue.get_nowait_batch(-1)
    with pytest.raises(ValueError, match="non-negative"):
        queue.put(1, timeout=-1)
    assert issubclass(Full, stdlib_queue.Full)
    assert issubclass(Empty, stdlib_queue.Empty)


@pytest.mark.contract("F2.26")
def test_the_coroutines_of_a_queue() -> None:
    from ray.util.queue import Empty, Full, Queue

    async def use(queue: Any) -> Any:
        await queue.put_async(1)
        with pytest.raises(Full):
            await queue.put_async(2, timeout=0.05)
        with pytest.raises(Full):
            await queue.put_async(2, block=False)
        first = await queue.get_async()
        with pytest.raises(Empty):
            await queue.get_async(timeout=0.05)
        with pytest.raises(Empty):
            await queue.get_async(block=False)
        with pytest.raises(ValueError, match="non-negative"):
            await queue.get_async(timeout=-1)
        return first

    assert asyncio.run(use(Queue(maxsize=1))) == 1


def _is_dead(actor: Any) -> bool:
    try:
        ray.get(actor.qsize.remote(), timeout=20)
    except ray.exceptions.RayActorError:
        return True
    return False


@pytest.mark.contract("F2.26")
@pytest.mark.parametrize("force", [False, True])
def test_a_queue_that_is_shut_down_has_no_actor(force: bool) -> None:
    from ray.util.queue import Queue

    queue = Queue()
    queue.put(1)
    holder = queue.actor
    queue.shutdown(force=force, grace_period_s=1)
    assert queue.actor is None
    wait_until(lambda: _is_dead(holder), what="the actor is dead")
