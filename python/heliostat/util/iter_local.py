"""Iterators of this process that are described before they run, and that can be pickled until then."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import heliostat
from heliostat.util.iter_metrics import MetricsContext, SharedMetrics

T = TypeVar("T")

Source = Callable[[float | None], Iterable[Any]]
Step = Callable[[Iterator[Any]], Iterator[Any]]

# Of an iterator that is taken as far as it has items ("*") no more are taken at once.
_PULL_MAX = 100


class _NextValueNotReady(Exception):
    """An item in the place of one that would have to be waited for."""


class LocalIterator(Generic[T]):
    """Items of a source, through functions that run in the process that iterates.

    It can be pickled before its first item is taken, and is to be iterated by one process.

    Args:
        base_iterator: A function that takes the timeout and returns the iterable.
        shared_metrics: What notes are kept of it.
        local_transforms: The functions that the items go through. Default: none.
        timeout: Seconds after which a ``_NextValueNotReady`` is given instead of waiting longer.
            Default: never.
        name: What it is called. Default ``"unknown"``.

    Examples:
        >>> from ray.util.iter import from_items
        >>> local = from_items([1, 2, 3, 4], num_shards=1).gather_sync()
        >>> list(local.filter(lambda x: x % 2 == 0).for_each(lambda x: x * x))
        [4, 16]
    """

    # A function with a method of this name has it called before each item is fetched.
    ON_FETCH_START_HOOK_NAME = "_on_fetch_start"

    thread_local = threading.local()

    def __init__(
        self,
        base_iterator: Source,
        shared_metrics: SharedMetrics,
        local_transforms: Sequence[Step] | None = None,
        timeout: float | None = None,
        name: str | None = None,
    ) -> None:
        self.base_iterator = base_iterator
        self.built_iterator: Iterator[Any] | None = None
        self.local_transforms = list(local_transforms or ())
        self.shared_metrics = shared_metrics
        self.timeout = timeout
        self.name = name or "unknown"

    @staticmethod
    def get_metrics() -> MetricsContext:
        """The notes of the iterator whose function asks.

        Raises:
            ValueError: No function of an iterator asks.
        """
        metrics: MetricsContext | None = getattr(LocalIterator.thread_local, "metrics", None)
        if metrics is None:
            raise ValueError("Cannot access context outside an iterator.")
        return metrics

    def __iter__(self) -> Iterator[T]:
        if self.built_iterator is None:
            made = iter(self.base_iterator(self.timeout))
            for step in self.local_transforms:
                made = step(made)
            self.built_iterator = made
        return self.built_iterator

    def __next__(self) -> T:
        return next(iter(self))

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    def _then(self, step: Step, name: str) -> LocalIterator[Any]:
        steps = [*self.local_transforms, step]
        return LocalIterator(
            self.base_iterator, self.shared_metrics, steps, name=f"{self.name}.{name}"
        )

    # ---- functions on items ----

    def transform(self, fn: Callable[[Iterable[T]], Iterable[Any]]) -> LocalIterator[Any]:
        """Apply a function to the whole iterator.

        Args:
            fn: Takes an iterable of items; returns one.

        Returns:
            The new iterator.
        """
        return self._then(functools.partial(_transformed, fn), "transform()")

    def for_each(
        self,
        fn: Callable[[T], Any],
        max_concurrency: int = 1,
        resources: dict[str, Any] | None = None,
    ) -> LocalIterator[Any]:
        """Apply a function to each item.

        Args:
            fn: Takes an item; returns another.
            max_concurrency: How many tasks at once; results come in the order in which they end. Default 1:
                ``fn`` is called here; 0: no bound.
            resources: Options of those tasks, as of ``ray.remote``.

        Returns:
            The new iterator.
        """
        step: Step
        if max_concurrency == 1:
            step = functools.partial(_each, fn, self.shared_metrics)
        else:
            step = functools.partial(_each_in_tasks, fn, max_concurrency, resources or {})
        if hasattr(fn, self.ON_FETCH_START_HOOK_NAME):
            step = functools.partial(_announced, step, fn, self.shared_metrics)
        return self._then(step, "for_each()")

    def filter(self, fn: Callable[[T], bool]) -> LocalIterator[T]:
        """Keep the items for which a function is true.

        Args:
            fn: Takes an item; returns whether it stays.

        Returns:
            The new iterator.
        """
        return self._then(functools.partial(_filtered, fn, self.shared_metrics), "filter()")

    def batch(self, n: int) -> LocalIterator[list[T]]:
        """Make lists of the items; the last one may be shorter.

        Args:
            n: How many items a list has.

        Returns:
            The new iterator.
        """
        return self._then(functools.partial(_batched, n), f"batch({n})")

    def flatten(self) -> LocalIterator[Any]:
        """The items of the items."""
        return self._then(_flattened, "flatten()")

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator[T]:
        """The items in random order, as random as a buffer of that many can make it.

        Args:
            shuffle_buffer_size: How many items the buffer has.
            seed: Of the random order. Default: another one each time.

        Returns:
            The new iterator.
        """
        text = f"shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})"
        return self._then(functools.partial(_shuffled, shuffle_buffer_size, seed), text)

    def combine(self, fn: Callable[[T], list[Any]]) -> LocalIterator[Any]:
        """Apply a function to each item and give the items of the lists that it returns.

        Args:
            fn: Takes an item; returns a list.

        Returns:
            The new iterator.
        """
        made = self.for_each(fn).flatten()
        made.name = f"{self.name}.combine()"
        return made

    def zip_with_source_actor(self) -> LocalIterator[Any]:
        """Pairs of the actor that an item came from, and the item; after ``gather_async`` alone."""
        made = self.for_each(_with_source)
        made.name = f"{self.name}.zip_with_source_actor()"
        return made

    # ---- taking items ----

    def take(self, n: int) -> list[T]:
        """Take the next items.

        Args:
            n: How many at most.

        Returns:
            The items.
        """
        return list(itertools.islice(iter(self), n))

    def show(self, n: int = 20) -> None:
        """Print the next items.

        Args:
            n: How many at most. Default 20.
        """
        for item in itertools.islice(iter(self), n):
            print(item)  # noqa: T201 - which is what it is for

    # ---- several iterators ----

    def duplicate(self, n: int) -> list[LocalIterator[T]]:
        """Make several iterators over the same items; one that is ahead waits for the others.

        Args:
            n: How many, at least 2.

        Returns:
            The iterators.

        Raises:
            ValueError: ``n`` is below 2.
        """
        if n < 2:
            raise ValueError("Number of copies must be >= 2")
        copies = _Copies(self, n)
        return [
            LocalIterator(
                functools.partial(copies.items, index),
                self.shared_metrics,
                name=f"{self.name}.duplicate[{index}]",
            )
            for index in range(n)
        ]

    def union(
        self,
        *others: LocalIterator[T],
        deterministic: bool = False,
        round_robin_weights: Sequence[float | str] | None = None,
    ) -> LocalIterator[T]:
        """Give the items of several iterators, as they are ready.

        Args:
            *others: The other iterators.
            deterministic: In turn. Default False.
            round_robin_weights: How many items are taken of each in its turn; of a fraction, one with that
                probability; ``"*"``: what is ready. Default: 1 of each.

        Returns:
            The new iterator.

        Raises:
            ValueError: Another argument is not an iterator, or there are not as many weights as iterators.
        """
        for other in others:
            if not isinstance(other, LocalIterator):
                raise ValueError(f"other must be of type LocalIterator, got {type(other)}")
        parts = [self, *others]
        shared = SharedMetrics(parents=[part.shared_metrics for part in parts])
        weights: Sequence[float | str] = round_robin_weights or [1] * len(parts)
        if len(weights) != len(parts):
            raise ValueError("Length of round robin weights must equal number of iterators total.")
        if round_robin_weights:
            waits: list[float | None] = [0 if weight == "*" else None for weight in weights]
        else:
            waits = [None if deterministic else 0] * len(parts)
        branches: list[tuple[float | str, LocalIterator[T]]] = [
            (weight, LocalIterator(part.base_iterator, shared, part.local_transforms, timeout=wait))
            for weight, part, wait in zip(weights, parts, waits, strict=True)
        ]
        name = f"LocalUnion[{self}, {', '.join(map(str, others))}]"
        return LocalIterator(functools.partial(_united, branches), shared, name=name)


# ---- steps: each makes one iterator of another, and passes on what is not ready ----


@contextlib.contextmanager
def _noted(metrics: SharedMetrics) -> Iterator[None]:
    LocalIterator.thread_local.metrics = metrics.get()
    yield


def _waits(item: Any) -> bool:
    return isinstance(item, _NextValueNotReady)


def _transformed(fn: Callable[[Any], Any], items: Iterator[Any]) -> Iterator[Any]:
    yield from fn(items)


def _each(fn: Callable[[Any], Any], metrics: SharedMetrics, items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        while not _waits(item):
            with _noted(metrics):
                result = fn(item)
            yield result
            if not _waits(result):  # otherwise the function itself is not ready, and is asked again
                break
        else:
            yield item


def _each_in_tasks(
    fn: Callable[[Any], Any], most: int, options: dict[str, Any], items: Iterator[Any]
) -> Iterator[Any]:
    remote = heliostat.remote(fn).options(**options)
    running: list[Any] = []
    for item in items:
        if _waits(item):
            yield item
            continue
        if most and len(running) >= most:
            done, running = heliostat.wait(running)
            yield from heliostat.get(done)
        running.append(remote.remote(item))
    while running:
        done, running = heliostat.wait(running)
        yield from heliostat.get(done)


def _announced(step: Step, fn: Any, metrics: SharedMetrics, items: Iterator[Any]) -> Iterator[Any]:
    """Calls the function's hook before it waits for an item, once for each."""
    made = step(items)
    while True:
        with _noted(metrics):
            fn._on_fetch_start()
        for item in made:
            yield item
            if not _waits(item):
                break
        else:
            return


def _filtered(
    fn: Callable[[Any], bool], metrics: SharedMetrics, items: Iterator[Any]
) -> Iterator[Any]:
    for item in items:
        with _noted(metrics):
            keep = _waits(item) or fn(item)
        if keep:
            yield item


def _batched(size: int, items: Iterator[Any]) -> Iterator[Any]:
    batch: list[Any] = []
    for item in items:
        if _waits(item):
            yield item
            continue
        batch.append(item)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def _flattened(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        if _waits(item):
            yield item
        else:
            yield from item


def _shuffled(size: int, seed: int | None, items: Iterator[Any]) -> Iterator[Any]:
    chance = random.Random(seed)
    buffer: list[Any] = []
    for item in items:
        if _waits(item):
            yield item
            continue
        buffer.append(item)
        if len(buffer) >= size:
            yield buffer.pop(chance.randrange(len(buffer)))
    while buffer:
        yield buffer.pop(chance.randrange(len(buffer)))


def _with_source(item: Any) -> tuple[Any, Any]:
    actor = LocalIterator.get_metrics().current_actor
    if actor is None:
        raise ValueError("Could not identify source actor of item")
    return actor, item


class _Copies:
    """An iterator, and the items that each of its copies has yet to take."""

    def __init__(self, parent: LocalIterator[Any], number: int) -> None:
        self._parent = parent
        self._left: list[deque[Any]] = [deque() for _ in range(number)]

    def items(self, index: int, timeout: float | None) -> Iterator[Any]:
        mine = self._left[index]
        while True:
            if len(mine) < max(map(len, self._left)):
                # Another copy is behind this one: its turn.
                yield _NextValueNotReady()
                continue
            if not mine:
                self._parent.timeout = timeout
                try:
                    item = next(self._parent)
                except StopIteration:
                    return
                for waiting in self._left:
                    waiting.append(item)
            yield mine.popleft()


def _united(
    branches: Sequence[tuple[float | str, LocalIterator[Any]]], timeout: float | None
) -> Iterator[Any]:
    active = list(branches)
    while active:
        for branch in list(active):
            weight, items = branch
            for _ in range(_turns(weight)):
                try:
                    item = next(items)
                except StopIteration:
                    active.remove(branch)
                    break
                if _waits(item):
                    if timeout is not None:
                        yield item
                    break
                yield item


def _turns(weight: float | str) -> int:
    """The number of items that a weight is worth this time."""
    if isinstance(weight, str):
        return _PULL_MAX
    whole = int(weight)
    return whole + (random.random() < weight - whole)
