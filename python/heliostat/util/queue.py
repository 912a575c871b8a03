"""A queue that lives in an actor, for any number of producers and consumers."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterable
from typing import Any

import heliostat


class Empty(queue.Empty):
    """The queue is empty.

    Examples:
        >>> from ray.util.queue import Empty, Queue
        >>> queue = Queue()
        >>> try:
        ...     queue.get(block=False)
        ... except Empty:
        ...     print("nothing there")
        nothing there
        >>> queue.shutdown()
    """


class Full(queue.Full):
    """No room.

    Examples:
        >>> from ray.util.queue import Full, Queue
        >>> queue = Queue(maxsize=1)
        >>> queue.put("a")
        >>> try:
        ...     queue.put("b", block=False)
        ... except Full:
        ...     print("no room")
        no room
        >>> queue.shutdown()
    """


class Queue:
    """A queue that processes of the cluster share: first in, first out. An actor holds the items.

    Its handle can be passed to tasks and actors.

    Args:
        maxsize: How many items it holds at most. Default 0: no bound.
        actor_options: Options of the actor, as of ``ray.remote``. Default: none.

    Examples:
        >>> import ray
        >>> from ray.util.queue import Queue
        >>> queue = Queue(maxsize=2)
        >>> queue.put("a")
        >>> queue.size(), queue.get(timeout=60)
        (1, 'a')
        >>> queue.shutdown()
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        self.maxsize = maxsize
        holder = heliostat.remote(_Holder)
        self.actor = holder.options(**(actor_options or {})).remote(maxsize)

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """The number of items in the queue."""
        found: int = heliostat.get(self.actor.qsize.remote())
        return found

    def qsize(self) -> int:
        """The number of items in the queue."""
        return self.size()

    def empty(self) -> bool:
        """Whether it holds nothing."""
        return self.size() == 0

    def full(self) -> bool:
        """Whether it has no room."""
        return 0 < self.maxsize <= self.size()

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, and wait for room where there is none.

        Args:
            item: The item; it must be possible to pickle it.
            block: Wait. False: raise at once. Default True.
            timeout: Seconds to wait. Default ``None``: without end.

        Raises:
            Full: There is no room, or none came in time.
            ValueError: ``timeout`` is negative.
        """
        if not block:
            self.put_nowait(item)
            return
        _check(timeout)
        if not heliostat.get(self.actor.put.remote(item, timeout)):
            raise Full

    async def put_async(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """Like :meth:`put`, to be awaited.

        Args:
            item: The item; it must be possible to pickle it.
            block: Wait. False: raise at once. Default True.
            timeout: Seconds to wait. Default ``None``: without end.

        Raises:
            Full: There is no room, or none came in time.
            ValueError: ``timeout`` is negative.
        """
        if block:
            _check(timeout)
        done = self.actor.put.remote(item, timeout) if block else self.actor.put_all.remote([item])
        if not await done:
            raise Full

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take an item, and wait for one where there is none.

        Args:
            block: Wait. False: raise at once. Default True.
            timeout: Seconds to wait. Default ``None``: without end.

        Returns:
            The item.

        Raises:
            Empty: There is no item, or none came in time.
            ValueError: ``timeout`` is negative.
        """
        if not block:
            return self.get_nowait()
        _check(timeout)
        return _item(heliostat.get(self.actor.get.remote(timeout)))

    async def get_async(self, block: bool = True, timeout: float | None = None) -> Any:
        """Like :meth:`get`, to be awaited.

        Args:
            block: Wait. False: raise at once. Default True.
            timeout: Seconds to wait. Default ``None``: without end.

        Returns:
            The item.

        Raises:
            Empty: There is no item, or none came in time.
            ValueError: ``timeout`` is negative.
        """
        if block:
            _check(timeout)
            return _item(await self.actor.get.remote(timeout))
        return _item(await self.actor.take.remote(1))

    def put_nowait(self, item: Any) -> None:
        """Add an item, if there is room.

        Args:
            item: The item; it must be possible to pickle it.

        Raises:
            Full: There is no room.
        """
        if not heliostat.get(self.actor.put_all.remote([item])):
            raise Full

    def put_nowait_batch(self, items: Iterable[Any]) -> None:
        """Add all of the items, or none.

        Args:
            items: The items.

        Raises:
            Full: There is no room for all.
            TypeError: They cannot be iterated.
        """
        if not isinstance(items, Iterable):
            raise TypeError("Argument 'items' must be an Iterable")
        batch = list(items)
        if not heliostat.get(self.actor.put_all.remote(batch)):
            raise Full(f"Cannot add {len(batch)} items to queue of maxsize {self.maxsize}.")

    def get_nowait(self) -> Any:
        """Take an item, if there is one.

        Raises:
            Empty: There is no item.
        """
        return _item(heliostat.get(self.actor.take.remote(1)))

    def get_nowait_batch(self, num_items: int) -> list[Any]:
        """Take so many items, or none.

        Args:
            num_items: How many.

        Returns:
            The items.

        Raises:
            Empty: There are fewer.
            TypeError: ``num_items`` is not an integer.
            ValueError: It is negative.
        """
        if not isinstance(num_items, int):
            raise TypeError("Argument 'num_items' must be an int")
        if num_items < 0:
            raise ValueError("'num_items' must be nonnegative")
        taken: list[Any] | None = heliostat.get(self.actor.take.remote(num_items))
        if taken is None:
            raise Empty(f"Cannot get {num_items} items from the queue.")
        return taken

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the actor; the queue is of no use afterwards.

        Args:
            force: At once. False: after what it was sent. Default False.
            grace_period_s: Seconds that it has for that. Default 5.
        """
        if self.actor is None:
            return
        if not force:
            done = self.actor.__ray_terminate__.remote()
            heliostat.wait([done], timeout=grace_period_s)
        heliostat.kill(self.actor, no_restart=True)
        self.actor = None


def _check(timeout: float | None) -> None:
    if timeout is not None and timeout < 0:
        raise ValueError("'timeout' must be a non-negative number")


def _item(taken: list[Any] | None) -> Any:
    if taken is None:
        raise Empty
    return taken[0]


class _Holder:
    """The actor. What fails for lack of room or items returns nothing: no exception has to travel."""

    def __init__(self, maxsize: int) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    async def qsize(self) -> int:
        return self.queue.qsize()

    async def put(self, item: Any, timeout: float | None) -> bool:
        try:
            await asyncio.wait_for(self.queue.put(item), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    async def get(self, timeout: float | None) -> list[Any] | None:
        try:
            return [await asyncio.wait_for(self.queue.get(), timeout)]
        except asyncio.TimeoutError:
            return None

    async def put_all(self, items: list[Any]) -> bool:
        if 0 < self.queue.maxsize < self.queue.qsize() + len(items):
            return False
        for item in items:
            self.queue.put_nowait(item)
        return True

    async def take(self, number: int) -> list[Any] | None:
        if number > self.queue.qsize():
            return None
        return [self.queue.get_nowait() for _ in range(number)]
