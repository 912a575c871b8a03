"""An iterator that runs ahead in a thread of its own.

Two threads that wake each other for every batch spend more on that than on a batch that is a view
of a block. Such batches cost no memory, the block being there anyway: so the thread makes all those
of a block in one go, wakes the loop, sleeps, and asks for the next block when few are left. Putting
such a batch and taking one need no lock, as a deque's ends may be used by two threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from heliostat.data.aliases import Value


T = TypeVar("T")

JOIN_S = 5.0
VIEWS_MAX = 256  # batches of one block that wait at most, however little each takes


class Room:
    """The items that a thread has made and nobody has taken yet: at most ``depth``, views not
    counted.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._changed = threading.Condition()
        self._made: deque[Value] = deque()
        self._ended = False
        self._error: BaseException | None = None
        self._unwanted = False
        self._sleeps_above = -1  # the thread sleeps until no more than so many are left

    # --- the thread that makes ---

    def wait(self) -> None:
        """Called before a block is fetched: wait until no more than ``depth`` batches are left."""
        if self._depth:
            with self._changed:
                self._wait_for(self._depth)

    def put(self, item: object, is_view: bool) -> bool:
        """Add an item when there is room; whether anybody still wants items."""
        most = max(self._depth, VIEWS_MAX) if is_view else self._depth
        if is_view and len(self._made) < most and not self._unwanted:
            self._made.append(item)
            return True
        with self._changed:
            if len(self._made) >= most:
                # Many are left: sleep until half of them are taken, not until the next one is.
                self._wait_for(most // 2 if is_view else most - 1)
            if self._unwanted:
                return False
            self._made.append(item)
            if not is_view:
                self._changed.notify_all()
            return True

    def end(self, error: BaseException | None) -> None:
        """No more items will come, because of an error or for none."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def _wait_for(self, left: int) -> None:
        self._sleeps_above = left
        self._changed.notify_all()  # of the views made since the last time
        self._changed.wait_for(lambda: self._unwanted or len(self._made) <= left)
        self._sleeps_above = -1

    # --- the thread that takes ---

    def take(self) -> Iterator[Value]:
        """The items until the end. An error comes where the item would have."""
        made = self._made
        while True:
            if not made:
                with self._changed:
                    self._changed.wait_for(lambda: made or self._ended)
                if not made:
                    if self._error is not None:
                        raise self._error
                    return
            item = made.popleft()
            # The thread says what it waits for before it looks how many are left: one of both sees it.
            if len(made) <= self._sleeps_above:
                with self._changed:
                    self._changed.notify_all()
            yield item
            del item

    def close(self) -> None:
        """Stop fetching: no item is wanted any more."""
        with self._changed:
            self._unwanted = True
            self._made.clear()
            self._changed.notify_all()


def ahead(items: Iterator[tuple[T, bool]], room: Room) -> Generator[T, None, None]:
    """The items of (item, whether it is a view of a block that is there anyway), made in advance."""

    def pump() -> None:
        error: BaseException | None = None
        try:
            for item, is_view in items:
                wanted = room.put(item, is_view)
                del item
                if not wanted:
                    break
        except BaseException as raised:
            error = raised
        finally:
            if hasattr(items, "close"):
                with contextlib.suppress(Exception):
                    items.close()
        room.end(error)

    thread = threading.Thread(target=pump, name="heliostat-data-prefetch", daemon=True)
    thread.start()
    try:
        yield from room.take()
    finally:
        room.close()
        thread.join(JOIN_S)
