"""``ActorPool`` and ``Queue``."""

from __future__ import annotations

from typing import Any

import pytest
import ray

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
