"""An iterator that runs ahead in a thread of its own."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import Any

JOIN_S = 5.0
LOOK_S = 0.5  # how often a full queue looks whether anybody still wants items


class _End:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterator[Any], depth: int) -> Iterator[Any]:
    """The same items, ``depth`` of them made in advance. Errors come where the item would have."""
    if depth <= 0:
        yield from items
        return
    made: queue.Queue[Any] = queue.Queue(maxsize=depth)
    unwanted = threading.Event()

    def put(item: Any) -> bool:
        while not unwanted.is_set():
            with contextlib.suppress(queue.Full):
                made.put(item, timeout=LOOK_S)
                return True
        return False

    def pump() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                if not put(item):
                    break
                del item
        except BaseException as raised:
            error = raised
        finally:
            if hasattr(items, "close"):
                with contextlib.suppress(Exception):
                    items.close()
        put(_End(error))

    thread = threading.Thread(target=pump, name="heliostat-data-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item = made.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
            del item
    finally:
        unwanted.set()
        with contextlib.suppress(queue.Empty):
            while True:
                made.get_nowait()
        thread.join(JOIN_S)
