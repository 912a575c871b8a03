"""A pool of processes with the interface of the standard library's, on actors.

Work goes to the actors in chunks, each to the next actor in turn; an actor runs its chunks one after
the other.
"""

from __future__ import annotations

import itertools
import math
import threading
import traceback
from collections.abc import Callable, Iterable
from multiprocessing import TimeoutError  # noqa: A004 - its own, and no subclass of the builtin
from multiprocessing.pool import RemoteTraceback  # type: ignore[attr-defined] # it is there
from typing import Any

import heliostat
from heliostat.core.platform import settings
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.util.multiprocessing.imap import IMapIterator, UnorderedIMapIterator

Function = Callable[..., Any]
Call = tuple[tuple[Any, ...], dict[str, Any]]


class PoolTaskError(Exception):
    """A call in the pool raised; ``frames``: its traceback as text, where it was raised.

    Examples:
        >>> from ray.util.multiprocessing import Pool, PoolTaskError
        >>> def half(n):
        ...     return 1 / n
        >>> with Pool(1) as pool:
        ...     try:
        ...         pool.map(half, [1, 0])
        ...     except ZeroDivisionError as error:  # what the function raised
        ...         print(error)
        division by zero
        >>> PoolTaskError(ValueError("a")).underlying
        ValueError('a')
    """

    def __init__(self, underlying: BaseException, frames: str = "") -> None:
        super().__init__(underlying, frames)
        self.underlying = underlying
        self.frames = frames


class _Worker:
    """The actor: runs chunks of calls."""

    def __init__(self, initializer: Function | None, initargs: tuple[Any, ...]) -> None:
        if initializer is not None:
            initializer(*initargs)

    def ping(self) -> None:
        """Answer."""

    def run(self, function: Function, calls: list[Call]) -> Any:
        """The results; a call that raised gives a :class:`PoolTaskError`."""
        results: list[Any] = []
        for args, kwargs in calls:
            try:
                results.append(function(*args, **kwargs))
            except Exception as error:
                # The frame of this method is nobody's business.
                frames = error.__traceback__ and error.__traceback__.tb_next
                told = "".join(traceback.format_exception(type(error), error, frames))
                results.append(PoolTaskError(error, told))
        return results


class AsyncResult:
    """Results that are on their way. ``apply_async``, ``map_async`` and ``starmap_async`` return it.

    Args:
        chunks: References of the calls.
        callback: Is called with what comes.
        error_callback: Is called with the exception instead.
        single: There is one result, not a list.

    Examples:
        >>> from ray.util.multiprocessing import Pool
        >>> with Pool(2) as pool:
        ...     result = pool.map_async(abs, [-1, -2])
        ...     print(result.get(timeout=60), result.ready(), result.successful())
        [1, 2] True True
    """

    def __init__(
        self,
        chunks: list[Any],
        callback: Function | None = None,
        error_callback: Function | None = None,
        single: bool = False,
    ) -> None:
        self._chunks = chunks
        self._single = single
        if callback is not None or error_callback is not None:
            told = (callback, error_callback)
            threading.Thread(target=self._tell, args=told, daemon=True).start()

    def _tell(self, callback: Function | None, error_callback: Function | None) -> None:
        try:
            value = self.get()
        except Exception as error:
            if error_callback is not None:
                error_callback(error)
        else:
            if callback is not None:
                callback(value)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all results are there, or the time is up.

        Args:
            timeout: Seconds. Default ``None``: without end.
        """
        heliostat.wait(self._chunks, num_returns=len(self._chunks), timeout=timeout)

    def get(self, timeout: float | None = None) -> Any:
        """Wait for the results; raises what the first failed call raised.

        Args:
            timeout: Seconds. Default ``None``: without end.

        Returns:
            The result, or the list of results.

        Raises:
            TimeoutError: They were not there in time.
        """
        try:
            chunks = heliostat.get(self._chunks, timeout=timeout)
        except heliostat.exceptions.GetTimeoutError as error:
            raise TimeoutError from error
        results = [_unwrap(result) for chunk in chunks for result in chunk]
        return results[0] if self._single else results

    def ready(self) -> bool:
        """Whether all are there."""
        number = len(self._chunks)
        ready, _ = heliostat.wait(self._chunks, num_returns=number, timeout=0)
        return len(ready) == number

    def successful(self) -> bool:
        """Say whether no call raised.

        Raises:
            ValueError: Not all have ended.
        """
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        try:
            self.get()
        except Exception:
            return False
        return True


def _unwrap(result: Any) -> Any:
    if isinstance(result, PoolTaskError):
        # As the standard library's pool shows where it was.
        raise result.underlying from RemoteTraceback(f'\n"""\n{result.frames}"""')
    return result


class Pool:
    """``multiprocessing.Pool`` with processes on the cluster, each an actor.

    Starts a cluster where there is none.

    Args:
        processes: How many. Default: the CPUs of the cluster.
        initializer: A function that each process calls first.
        initargs: Its arguments.
        maxtasksperchild: A process is replaced after so many chunks. Default: never.
        context: Has no effect.
        ray_address: The cluster, as for ``ray.init``. Default: RAY_ADDRESS, else a new one here.
        ray_remote_args: Options of the actors, as of ``ray.remote``.

    Raises:
        TypeError: ``initializer`` cannot be called.
        ValueError: ``processes`` is below 1.

    Examples:
        >>> import ray
        >>> from ray.util.multiprocessing import Pool
        >>> with Pool(processes=2) as pool:
        ...     pool.map(abs, [-1, 2, -3])
        [1, 2, 3]
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Function | None = None,
        initargs: Iterable[Any] | None = None,
        maxtasksperchild: int | None = None,
        context: Any = None,
        ray_address: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._closed = False
        address = ray_address or settings.text("ADDRESS") or None
        begin_unless_begun(**({"address": address} if address else {"num_cpus": processes}))
        if processes is None:
            processes = int(heliostat.cluster_resources().get("CPU", 0))
        if processes <= 0:
            raise ValueError("Processes in the pool must be >0.")
        if maxtasksperchild is not None and maxtasksperchild < 1:
            raise ValueError("maxtasksperchild must be at least 1, or None for no bound.")
        worker = heliostat.remote(_Worker).options(**(ray_remote_args or {}))
        self._make: Callable[[], Any] = lambda: worker.remote(initializer, tuple(initargs or ()))
        self._max_chunks = maxtasksperchild
        # Chunks that each actor was sent, for those that may run only so many.
        self._sent: list[int] = [0] * processes
        self._actors: list[Any] = [self._make() for _ in range(processes)]
        self._turns = itertools.cycle(range(processes))
        self._ending: list[Any] = []
        heliostat.get([actor.ping.remote() for actor in self._actors])

    # --- one call ---

    def apply(
        self,
        func: Function,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function in one of the processes and wait.

        Args:
            func: The function; it must be possible to pickle it.
            args: Its positional arguments. Default: none.
            kwargs: Its keyword arguments. Default: none.

        Returns:
            What it returns.

        Raises:
            ValueError: The pool is closed.
        """
        return self.apply_async(func, args, kwargs).get()

    def apply_async(
        self,
        func: Function,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        callback: Function | None = None,
        error_callback: Function | None = None,
    ) -> AsyncResult:
        """Call a function in one of the processes.

        Args:
            func: The function; it must be possible to pickle it.
            args: Its positional arguments. Default: none.
            kwargs: Its keyword arguments. Default: none.
            callback: Is called here with the result, in a thread.
            error_callback: Is called here with the exception instead.

        Returns:
            Its result, as a promise.

        Raises:
            ValueError: The pool is closed.
        """
        self._check()
        chunk = self._send(func, [(tuple(args or ()), dict(kwargs or {}))])
        return AsyncResult([chunk], callback, error_callback, single=True)

    # --- many ---

    def map(
        self, func: Function, iterable: Iterable[Any], chunksize: int | None = None
    ) -> list[Any]:
        """Call a function for every item and wait.

        Args:
            func: The function; it must be possible to pickle it.
            iterable: The items, one call each.
            chunksize: How many items are sent to a process at once. Default: about four chunks a process.

        Returns:
            The results in the order of the items.

        Raises:
            ValueError: The pool is closed.
        """
        results: list[Any] = self.map_async(func, iterable, chunksize).get()
        return results

    def map_async(
        self,
        func: Function,
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Function | None = None,
        error_callback: Function | None = None,
    ) -> AsyncResult:
        """Call a function for every item.

        Args:
            func: The function; it must be possible to pickle it.
            iterable: The items, one call each.
            chunksize: How many items are sent to a process at once. Default: about four chunks a process.
            callback: Is called here with the result, in a thread.
            error_callback: Is called here with the exception instead.

        Returns:
            The results, as a promise.

        Raises:
            ValueError: The pool is closed.
        """
        calls: list[Call] = [((item,), {}) for item in iterable]
        return AsyncResult(self._chunks(func, calls, chunksize), callback, error_callback)

    def starmap(
        self, func: Function, iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[Any]:
        """Call ``func(*item)`` for every item and wait.

        Args:
            func: The function; it must be possible to pickle it.
            iterable: The items, one call each.
            chunksize: How many items are sent to a process at once. Default: about four chunks a process.

        Returns:
            The results in the order of the items.

        Raises:
            ValueError: The pool is closed.
        """
        results: list[Any] = self.starmap_async(func, iterable, chunksize).get()
        return results

    def starmap_async(
        self,
        func: Function,
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Function | None = None,
        error_callback: Function | None = None,
    ) -> AsyncResult:
        """Call ``func(*item)`` for every item.

        Args:
            func: The function; it must be possible to pickle it.
            iterable: The items, one call each.
            chunksize: How many items are sent to a process at once. Default: about four chunks a process.
            callback: Is called here with the result, in a thread.
            error_callback: Is called here with the exception instead.

        Returns:
            The results, as a promise.

        Raises:
            ValueError: The pool is closed.
        """
        calls: list[Call] = [(tuple(item), {}) for item in iterable]
        return AsyncResult(self._chunks(func, calls, chunksize), callback, error_callback)

    def imap(
        self, func: Function, iterable: Iterable[Any], chunksize: int | None = 1
    ) -> IMapIterator:
        """Call a function for every item. The iterable is read a few chunks ahead.

        Args:
            func: The function.
            iterable: The items.
            chunksize: How many items are sent to a process at once. Default 1.

        Returns:
            The results in the order of the items, as they come.

        Raises:
            ValueError: The pool is closed.
        """
        return IMapIterator(self._feeder(func, iterable, chunksize), _unwrap, self._ahead())

    def imap_unordered(
        self, func: Function, iterable: Iterable[Any], chunksize: int | None = 1
    ) -> UnorderedIMapIterator:
        """Call a function for every item. The iterable is read a few chunks ahead.

        Args:
            func: The function.
            iterable: The items.
            chunksize: How many items are sent to a process at once. Default 1.

        Returns:
            The results in the order in which they are ready.

        Raises:
            ValueError: The pool is closed.
        """
        feeder = self._feeder(func, iterable, chunksize)
        return UnorderedIMapIterator(feeder, _unwrap, self._ahead())

    def _ahead(self) -> int:
        """The largest number of chunks under way: for each actor one that runs and one that waits."""
        return 2 * len(self._actors)

    def _feeder(
        self, func: Function, iterable: Iterable[Any], chunksize: int | None
    ) -> Callable[[], Any]:
        """Sends the next chunk when it is called; ``None``: there are no more."""
        self._check()
        items = iter(iterable)

        def send() -> Any:
            chunk: list[Call] = [((item,), {}) for item in itertools.islice(items, chunksize or 1)]
            return self._send(func, chunk) if chunk else None

        return send

    def _chunks(
        self,
        func: Function,
        calls: list[Call],
        chunksize: int | None,
    ) -> list[Any]:
        self._check()
        size = chunksize or max(1, math.ceil(len(calls) / (4 * len(self._actors))))
        return [self._send(func, calls[i : i + size]) for i in range(0, len(calls), size)]

    def _send(self, func: Function, calls: list[Call]) -> Any:
        turn = next(self._turns)
        chunk = self._actors[turn].run.remote(func, calls)
        self._sent[turn] += 1
        if self._sent[turn] == self._max_chunks:
            self._replace(turn)
        return chunk

    def _replace(self, turn: int) -> None:
        """Start another process in the place of one, which ends after the chunks that it was sent."""
        old = self._actors[turn]
        old.__ray_terminate__.remote()
        self._ending.append(old)
        self._actors[turn], self._sent[turn] = self._make(), 0

    # --- the end ---

    def _check(self) -> None:
        if self._closed:
            raise ValueError("Pool not running")

    def close(self) -> None:
        """Take no more work; what was sent goes on."""
        self._closed = True
        for actor in self._actors:
            actor.__ray_terminate__.remote()

    def terminate(self) -> None:
        """End at once."""
        self._closed = True
        for actor in [*self._actors, *self._ending]:
            heliostat.kill(actor)

    def join(self) -> None:
        """Wait until the processes have ended; ``close`` or ``terminate`` come first.

        Raises:
            ValueError: The pool is still open.
        """
        if not self._closed:
            raise ValueError("Pool is still running")
        for actor in [*self._actors, *self._ending]:
            try:
                heliostat.get(actor.ping.remote())
            except heliostat.exceptions.RayActorError:
                continue

    def __enter__(self) -> Pool:
        self._check()
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()


__all__ = ["AsyncResult", "Pool", "PoolTaskError", "TimeoutError"]
