"""Results of a pool's ``imap``: submitted a few chunks ahead, taken one by one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing import TimeoutError  # noqa: A004 - its own, and no subclass of the builtin
from typing import Any

import heliostat

Send = Callable[[], Any]


class IMapIterator:
    """The results as they come; ``next(timeout)`` waits no longer than so many seconds.

    ``send`` sends the next chunk and returns its reference, ``None`` when there are no more; at most
    ``ahead`` chunks are on their way, so the iterable may be endless.
    """

    def __init__(self, send: Send, unwrap: Callable[[Any], Any], ahead: int) -> None:
        self._send = send
        self._unwrap = unwrap
        self._ahead = ahead
        self._chunks: deque[Any] = deque()
        self._results: deque[Any] = deque()
        self._more = True
        self._fill()

    def _fill(self) -> None:
        while self._more and len(self._chunks) < self._ahead:
            chunk = self._send()
            if chunk is None:
                self._more = False
            else:
                self._chunks.append(chunk)

    def _take(self, timeout: float | None) -> Any:
        """The reference of the chunk that is next; ``None`` when the time is up."""
        ready, _ = heliostat.wait([self._chunks[0]], timeout=timeout)
        return self._chunks.popleft() if ready else None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        """The next result; raises what its call raised, ``TimeoutError`` when it takes too long."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._results:
            self._fill()
            if not self._chunks:
                raise StopIteration
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            chunk = self._take(left)
            if chunk is None:
                raise TimeoutError
            self._results.extend(heliostat.get(chunk))
            self._fill()
        return self._unwrap(self._results.popleft())


class UnorderedIMapIterator(IMapIterator):
    """The same in the order in which chunks are ready."""

    def _take(self, timeout: float | None) -> Any:
        ready, _ = heliostat.wait(list(self._chunks), timeout=timeout)
        if not ready:
            return None
        self._chunks.remove(ready[0])
        return ready[0]
