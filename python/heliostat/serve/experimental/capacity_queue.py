"""The number of calls of each replica of a deployment, counted once for all processes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass, field

import heliostat as ray
from heliostat.serve import specs
from heliostat.serve.context import get_deployment_actor_context

__all__ = ["CapacityQueue", "CapacityQueueStats", "ReplicaCapacityInfo"]

# How long to wait before a controller that is away is asked again, in seconds.
_AGAIN_S = 0.5


@dataclass
class CapacityQueueStats:
    """``queue_size``: calls that replicas have room for; ``total_``: since it began, or of all replicas."""

    queue_size: int
    num_waiters: int
    num_replicas: int
    total_capacity: int
    total_in_flight: int
    total_acquires: int
    total_releases: int
    total_timeouts: int
    max_waiters_seen: int


@dataclass
class ReplicaCapacityInfo:
    """A replica, how many calls it takes, and how many it has."""

    replica_id: str
    max_capacity: int
    in_flight: int = 0
    since: deque[float] = field(default_factory=deque, repr=False)  # of each of them


@ray.remote(num_cpus=0)
class CapacityQueue:
    """Gives out places at replicas, for ``CapacityQueueRouter``: an actor of ``deployment_actors``.

    Routers of all processes ask the same one, so that together they send a replica no more than it takes, and
    send to the one with the fewest. Replicas come from Serve's controller.

    ``acquire_timeout_s``: how long who asks waits for a place; ``token_ttl_s``: after how long a place that
    nobody has given back is free again, default never (its process may have died).
    """

    def __init__(
        self,
        acquire_timeout_s: float,
        token_ttl_s: float | None = None,
        _enable_long_poll: bool = True,
    ) -> None:
        self._timeout_s = acquire_timeout_s
        self._ttl_s = token_ttl_s
        self._replicas: dict[str, ReplicaCapacityInfo] = {}
        self._waiting: deque[asyncio.Future[str]] = deque()
        self._acquires = self._releases = self._timeouts = self._most_waited = 0
        loop = asyncio.get_running_loop()
        self._tasks = []
        if _enable_long_poll:
            self._tasks.append(loop.create_task(self._follow()))
        if token_ttl_s:
            self._tasks.append(loop.create_task(self._take_back()))

    async def _follow(self) -> None:
        key, version = get_deployment_actor_context().deployment_id, -1
        name = f"capacity queue {ray.get_runtime_context().get_actor_id()}"
        while True:
            try:
                controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
                targets = await controller.listen.remote(key, name, version)
            except Exception:  # another one is on its way
                await asyncio.sleep(_AGAIN_S)
                continue
            version = targets.version
            there = {one.id for one in targets.replicas}
            for gone in self._replicas.keys() - there:
                self.unregister_replica(gone)
            for replica in there:
                self.register_replica(replica, targets.max_ongoing)

    async def _take_back(self) -> None:
        assert self._ttl_s is not None
        while True:
            await asyncio.sleep(self._ttl_s / 2)
            until = time.monotonic() - self._ttl_s
            for one in self._replicas.values():
                while one.since and one.since[0] < until:
                    one.since.popleft()
                    one.in_flight -= 1
            self._feed()

    def register_replica(self, replica_id: str, capacity: int) -> None:
        """A replica takes so many calls at a time, from now on."""
        one = self._replicas.setdefault(replica_id, ReplicaCapacityInfo(replica_id, capacity))
        one.max_capacity = capacity
        self._feed()

    def unregister_replica(self, replica_id: str) -> None:
        """A replica takes no more calls."""
        self._replicas.pop(replica_id, None)

    def _take(self) -> str | None:
        free = [one for one in self._replicas.values() if one.in_flight < one.max_capacity]
        if not free:
            return None
        least = min(one.in_flight for one in free)
        one = random.choice([one for one in free if one.in_flight == least])
        one.in_flight += 1
        one.since.append(time.monotonic())
        return one.replica_id

    def _feed(self) -> None:
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
            elif (replica := self._take()) is not None:
                self._waiting.popleft().set_result(replica)
            else:
                return

    async def acquire(self, timeout_s: float | None = None) -> str | None:
        """The id of the replica with the fewest calls, once one has room; ``None`` after the time.

        Whoever has it calls ``release`` when the call is over.
        """
        self._acquires += 1
        replica = self._take()
        if replica is not None:
            return replica
        place: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._most_waited = max(self._most_waited, self.get_num_waiters())
        try:
            wait_s = self._timeout_s if timeout_s is None else timeout_s
            return await asyncio.wait_for(asyncio.shield(place), wait_s)
        except asyncio.TimeoutError:
            if place.done():
                return place.result()  # it came in this moment
            self._timeouts += 1
            return None
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._give_back(place.result())
            raise
        finally:
            place.cancel()

    def release(self, replica_id: str) -> None:
        """A call of that replica is over."""
        self._releases += 1
        self._give_back(replica_id)

    def _give_back(self, replica_id: str) -> None:
        one = self._replicas.get(replica_id)
        if one is not None and one.in_flight:
            one.in_flight -= 1
            if one.since:
                one.since.popleft()
        self._feed()

    def get_stats(self) -> CapacityQueueStats:
        """Return the state of the queue in numbers."""
        all_of_them = self._replicas.values()
        return CapacityQueueStats(
            self.get_queue_length(),
            self.get_num_waiters(),
            len(self._replicas),
            sum(one.max_capacity for one in all_of_them),
            sum(one.in_flight for one in all_of_them),
            self._acquires,
            self._releases,
            self._timeouts,
            self._most_waited,
        )

    def get_queue_length(self) -> int:
        """The number of calls that replicas have room for."""
        return sum(max(0, one.max_capacity - one.in_flight) for one in self._replicas.values())

    def get_num_waiters(self) -> int:
        """The number of calls that wait for a place."""
        return sum(not one.done() for one in self._waiting)

    def get_registered_replicas(self) -> list[str]:
        """The ids of the replicas."""
        return list(self._replicas)

    def get_replica_in_flight(self) -> dict[str, tuple[int, int]]:
        """The number of calls that each replica has, and takes."""
        return {name: (one.in_flight, one.max_capacity) for name, one in self._replicas.items()}
