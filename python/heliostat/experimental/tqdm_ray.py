"""Progress bars for tasks and actors: the driver draws those of all processes, one below the other."""

from __future__ import annotations

import builtins
import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from heliostat import _heliostat
from heliostat._heliostat import current, is_connected
from heliostat.core.driver import progress_bars

__all__ = ["instance", "safe_print", "tqdm"]

RAY_TQDM_MAGIC = progress_bars.MAGIC


def instance() -> progress_bars.Bars:
    """The bars of this driver.

    Examples:
        >>> from ray.experimental import tqdm_ray
        >>> with tqdm_ray.instance().hidden():  # while the bars are away
        ...     print("half of it is done")
        half of it is done
    """
    return progress_bars.bars


def safe_print(*args: Any, **kwargs: Any) -> None:
    """As ``print``, above the bars of this driver instead of across them.

    Args:
        *args: As of ``print``.
        **kwargs: As of ``print``.

    Examples:
        >>> from ray.experimental import tqdm_ray
        >>> tqdm_ray.safe_print("half of it is done")
        half of it is done
    """
    with progress_bars.bars.hidden():
        builtins.print(*args, **kwargs)  # noqa: T201 - which is what it is for


class tqdm:
    """``tqdm.tqdm`` in any process, drawn by the driver. Knows some of its arguments.

    Args:
        iterable: What to go through. Default: nothing; call ``update``.
        desc: The text before the bar.
        total: How many items there will be. Default: the length of the iterable, if it has one.
        unit: What an item is called. Default ``"it"``.
        position: Has no effect: the driver lays bars out.
        flush_interval_s: The bar is drawn at most every so many seconds. Default 1. The last state
            always is.

    Examples:
        >>> import ray
        >>> from ray.experimental import tqdm_ray
        >>> @ray.remote
        ... def total(n):
        ...     return sum(tqdm_ray.tqdm(range(n), desc="adding"))  # the driver draws the bar
        >>> ray.get(total.remote(5))
        10
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable[Any] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        if total is None and hasattr(iterable, "__len__"):
            total = len(iterable)  # type: ignore[arg-type] # looked at above
        self._iterable = iterable
        self._desc = desc or ""
        self._total = total
        self._unit = unit or "it"
        self._uuid = uuid.uuid4().hex
        self._x = 0
        self._closed = False
        given = flush_interval_s is not None
        self._interval = flush_interval_s if given else self.DEFAULT_FLUSH_INTERVAL_SECONDS
        self._sent = 0.0

    def set_description(self, desc: str) -> None:
        """Write something else before the bar.

        Args:
            desc: The text.
        """
        self._desc = desc
        self._send()

    def update(self, n: int = 1) -> None:
        """Count ``n`` more.

        Args:
            n: How many items more. Default 1.
        """
        self._x += n
        self._send()

    def refresh(self) -> None:
        """Draw it as it is, unless that was done just now."""
        self._send()

    def close(self) -> None:
        """Draw it for the last time."""
        if not self._closed:
            self._closed = True
            self._send(always=True)

    @property
    def total(self) -> int | None:
        """The number of items in all."""
        return self._total

    @total.setter
    def total(self, total: int | None) -> None:
        self._total = total

    @property
    def n(self) -> int:
        """The number of items so far."""
        return self._x

    @n.setter
    def n(self, n: int) -> None:
        self._x = n

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise ValueError("No iterable provided")
        for item in self._iterable:
            self.update()
            yield item
        self.close()

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, always: bool = False) -> None:
        now = time.monotonic()
        if not always and now - self._sent < (self._interval or 0.0):
            return
        self._sent = now
        state = {
            "uuid": self._uuid,
            "desc": self._desc,
            "unit": self._unit,
            "total": self._total,
            "x": self._x,
            "closed": self._closed,
            "ip": _heliostat.session()["host"] if is_connected() else "",
            "pid": os.getpid(),
        }
        if is_connected() and not current().is_driver:
            # One write: lines of other threads stay lines.
            sys.stdout.write(progress_bars.line(state) + "\n")
            sys.stdout.flush()
        else:
            progress_bars.bars.process_state_update(state)
