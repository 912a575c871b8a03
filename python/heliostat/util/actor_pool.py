"""A pool of actors that work is handed to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import heliostat

V = TypeVar("V")


class ActorPool:
    """Hands values to those actors of a pool that are free.

    Args:
        actors: Handles of the actors.

    Examples:
        >>> import ray
        >>> from ray.util import ActorPool
        >>> @ray.remote
        ... class Doubler:
        ...     def double(self, x):
        ...         return 2 * x
        >>> pool = ActorPool([Doubler.remote(), Doubler.remote()])
        >>> list(pool.map(lambda actor, x: actor.double.remote(x), [1, 2, 3]))
        [2, 4, 6]
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle: list[Any] = list(actors)
        self._running: dict[Any, tuple[int, Any]] = {}  # ref: (its index, its actor)
        self._by_index: dict[int, Any] = {}
        self._next_task = 0
        self._next_return = 0
        self._waiting: list[tuple[Callable[[Any, Any], Any], Any]] = []

    def map(self, fn: Callable[[Any, V], Any], values: Iterable[V]) -> Iterator[Any]:
        """Call ``fn`` for every value. Results of before that nobody took are dropped.

        Args:
            fn: Takes an actor and a value; returns the reference of a call.
            values: The values, one call each.

        Returns:
            The results in the order of the values, as they come.
        """
        self._drop_pending()
        for value in values:
            self.submit(fn, value)
        return self._all(self.get_next)

    def map_unordered(self, fn: Callable[[Any, V], Any], values: Iterable[V]) -> Iterator[Any]:
        """Call ``fn`` for every value. Results of before that nobody took are dropped.

        Args:
            fn: Takes an actor and a value; returns the reference of a call.
            values: The values, one call each.

        Returns:
            The results in the order in which they are ready.
        """
        self._drop_pending()
        for value in values:
            self.submit(fn, value)
        return self._all(self.get_next_unordered)

    def _drop_pending(self) -> None:
        """Results of before that nobody took are not results of this map."""
        while self.has_next():
            try:
                self.get_next_unordered(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                continue

    def _all(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()

    def submit(self, fn: Callable[[Any, V], Any], value: V) -> None:
        """Call ``fn(actor, value)`` as soon as an actor is free.

        Args:
            fn: Takes an actor and the value; returns the reference of a call.
            value: The value.
        """
        if not self._idle:
            self._waiting.append((fn, value))
            return
        actor = self._idle.pop()
        ref = fn(actor, value)
        key = tuple(ref) if isinstance(ref, list) else ref
        self._running[key] = (self._next_task, actor)
        self._by_index[self._next_task] = ref
        self._next_task += 1

    def has_next(self) -> bool:
        """Whether there are results to come."""
        return bool(self._running)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Take the next result in the order of submission.

        Args:
            timeout: Seconds to wait. Default ``None``: without end.
            ignore_if_timedout: A result that is late is given up, and its actor is free again. Default
                False.

        Returns:
            The result.

        Raises:
            StopIteration: There is no result to come.
            TimeoutError: It was not there in time.
            ValueError: The result was taken by ``get_next_unordered``.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        if self._next_return >= self._next_task:
            raise ValueError("It is not allowed to call get_next() after get_next_unordered().")
        ref = self._by_index[self._next_return]
        late = False
        if timeout is not None:
            ready, _ = heliostat.wait([ref], timeout=timeout)
            late = not ready
            if late and not ignore_if_timedout:
                raise TimeoutError("Timed out waiting for result")
        del self._by_index[self._next_return]
        self._next_return += 1
        _, actor = self._take(ref)
        return self._result(ref, actor, late)

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Take the result that is ready first.

        Args:
            timeout: Seconds to wait. Default ``None``: without end.
            ignore_if_timedout: A result that is late is given up, and its actor is free again. Default
                False.

        Returns:
            The result.

        Raises:
            StopIteration: There is no result to come.
            TimeoutError: None was there in time.
        """
        if not self.has_next():
            raise StopIteration("No more results to get")
        ready, _ = heliostat.wait(list(self._running), num_returns=1, timeout=timeout)
        if not ready and not ignore_if_timedout:
            raise TimeoutError("Timed out waiting for result")
        ref = ready[0] if ready else next(iter(self._running))
        index, actor = self._take(ref)
        del self._by_index[index]
        self._next_return = max(self._next_return, index + 1)
        return self._result(ref, actor, late=not ready)

    def _take(self, ref: Any) -> tuple[int, Any]:
        """The place of a call among all, and its actor; the call runs no longer for the pool."""
        return self._running.pop(tuple(ref) if isinstance(ref, list) else ref)

    def _result(self, ref: Any, actor: Any, late: bool) -> Any:
        """The result of a call, whose actor is free again; one that has died leaves the pool."""
        if late:
            self._return(actor)
            raise TimeoutError("Timed out waiting for result. The task is ignored.")
        try:
            value = heliostat.get(ref)
        except heliostat.exceptions.ActorDiedError:
            self._next_waiting()
            raise
        except BaseException:
            self._return(actor)
            raise
        self._return(actor)
        return value

    def _return(self, actor: Any) -> None:
        self._idle.append(actor)
        self._next_waiting()

    def _next_waiting(self) -> None:
        if self._waiting and self._idle:
            self.submit(*self._waiting.pop(0))

    def has_free(self) -> bool:
        """Whether an actor is free and nothing waits for one."""
        return bool(self._idle) and not self._waiting

    def pop_idle(self) -> Any:
        """Take a free actor out of the pool; ``None`` where there is none."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Put an actor into the pool.

        Args:
            actor: Its handle.

        Raises:
            ValueError: It is in the pool already.
        """
        busy = [known for _, known in self._running.values()]
        if actor in self._idle or actor in busy:
            raise ValueError("Actor already belongs to current ActorPool")
        self._return(actor)
