"""Times of a loop over batches, by phase, in the thread that makes them."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

import heliostat as ray
from heliostat.data.plan.operators import Bundle

if TYPE_CHECKING:
    from heliostat.data.aliases import Value
    from heliostat.data.execute.stats import LoopStats

T = TypeVar("T")


class Timed(Generic[T]):
    """A function; counts the seconds that its calls took."""

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, *args: object) -> T:
        """Call it."""
        begun = time.perf_counter()
        try:
            return self._function(*args)
        finally:
            self.seconds += time.perf_counter() - begun


class Watch:
    """Counts for one epoch."""

    def __init__(self, loop: LoopStats) -> None:
        self._loop = loop
        self._elsewhere_s = 0.0  # in what cutting waits for

    @functools.cached_property
    def _node(self) -> str:
        return ray.get_runtime_context().get_node_id()

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """The time in which nothing is made, because enough has been."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._elsewhere_s += time.perf_counter() - begun

    def waiting(self, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        """The bundles of an execution."""
        while True:
            begun = time.perf_counter()
            bundle = next(bundles, None)
            seconds = time.perf_counter() - begun
            self._loop.bundles_s += seconds
            self._elsewhere_s += seconds
            if bundle is None:
                return
            yield bundle
            del bundle

    @contextlib.contextmanager
    def fetching(self, bundle: Bundle) -> Iterator[None]:
        """A block is brought here."""
        loop, begun = self._loop, time.perf_counter()
        yield
        seconds = time.perf_counter() - begun
        loop.fetch_s += seconds
        self._elsewhere_s += seconds
        loop.here += bundle.node == self._node
        loop.elsewhere += bundle.node not in ("", self._node)
        loop.unknown += not bundle.node
        loop.fetched_rows += bundle.rows
        loop.fetched_bytes += bundle.size

    def cutting(self, batches: Iterator[T]) -> Iterator[T]:
        """Batches that are cut from blocks."""
        while True:
            begun, before = time.perf_counter(), self._elsewhere_s
            batch = next(batches, None)
            self._loop.cut_s += time.perf_counter() - begun - (self._elsewhere_s - before)
            if batch is None:
                return
            yield batch
            del batch

    @contextlib.contextmanager
    def finishing(self, collate: Timed[Value] | None) -> Iterator[None]:
        """A batch gets its form, the program's function being a part of that."""
        begun, before = time.perf_counter(), collate.seconds if collate else 0.0
        yield
        own = collate.seconds - before if collate else 0.0
        self._loop.collate_s += own
        self._loop.format_s += time.perf_counter() - begun - own
