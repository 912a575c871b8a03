"""Iterators whose items come from actors, and functions that run there. Deprecated, as it is in Ray.

A :class:`ParallelIterator` describes actors and what they do to their items; ``gather_sync`` and
``gather_async`` bring them here as a :class:`LocalIterator`.
"""

from __future__ import annotations

import functools
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import heliostat
from heliostat.util.annotations import Deprecated
from heliostat.util.iter_local import LocalIterator, _NextValueNotReady
from heliostat.util.iter_metrics import SharedMetrics

__all__ = [
    "LocalIterator",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
]

T = TypeVar("T")

LocalStep = Callable[[LocalIterator[Any]], LocalIterator[Any]]


@Deprecated
def from_items(items: list[T], num_shards: int = 2, repeat: bool = False) -> ParallelIterator[T]:
    """Deal items out to actors, in turn.

    Args:
        items: The items.
        num_shards: How many actors. Default 2.
        repeat: Begin again at the end, without end. Default False.

    Returns:
        The iterator.

    Examples:
        >>> import ray
        >>> from ray.util.iter import from_items
        >>> sorted(from_items([1, 2, 3, 4]).for_each(lambda x: 10 * x).gather_sync())
        [10, 20, 30, 40]
    """
    kind = type(items[0]).__name__ if items else "None"
    name = f"from_items[{kind}, {len(items)}, shards={num_shards}{_repeated(repeat)}]"
    shards = [items[index::num_shards] for index in range(num_shards)]
    made: ParallelIterator[T] = from_iterators(shards, repeat=repeat, name=name)
    return made


@Deprecated
def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator[int]:
    """Iterate over 0 to ``n - 1``: a stretch for each actor; the last one has the rest.

    Args:
        n: The number.
        num_shards: How many actors. Default 2.
        repeat: Begin again at the end, without end. Default False.

    Returns:
        The iterator.

    Examples:
        >>> from ray.util.iter import from_range
        >>> sorted(from_range(4, num_shards=2).gather_sync())
        [0, 1, 2, 3]
    """
    size = n // num_shards
    starts = [index * size for index in range(num_shards)]
    shards = [range(start, end) for start, end in zip(starts, [*starts[1:], n], strict=True)]
    name = f"from_range[{n}, shards={num_shards}{_repeated(repeat)}]"
    made: ParallelIterator[int] = from_iterators(shards, repeat=repeat, name=name)
    return made


@Deprecated
def from_iterators(
    generators: Sequence[Any], repeat: bool = False, name: str | None = None
) -> ParallelIterator[Any]:
    """Make an actor for each iterable, or for each function that returns one.

    Args:
        generators: The iterables or functions. Generators cannot be pickled; give the function instead.
        repeat: Begin again at the end, without end. Default False.
        name: What the iterator is called. Default: how it was made.

    Returns:
        The iterator.

    Examples:
        >>> from ray.util.iter import from_iterators
        >>> numbers = from_iterators([range(2), range(10, 12)])
        >>> sorted(numbers.for_each(lambda x: 2 * x).gather_sync())
        [0, 2, 20, 22]
    """
    name = name or f"from_iterators[shards={len(generators)}{_repeated(repeat)}]"
    worker = heliostat.remote(ParallelIteratorWorker)
    actors = [worker.remote(items, repeat) for items in generators]
    made: ParallelIterator[Any] = from_actors(actors, name)
    return made


@Deprecated
def from_actors(actors: Sequence[Any], name: str | None = None) -> ParallelIterator[Any]:
    """Iterate over the items of these actors, whose class is derived from :class:`ParallelIteratorWorker`.

    Args:
        actors: Their handles.
        name: What the iterator is called. Default: how it was made.

    Returns:
        The iterator.

    Examples:
        >>> import ray
        >>> from ray.util.iter import ParallelIteratorWorker, from_actors
        >>> @ray.remote
        ... class Numbers(ParallelIteratorWorker):
        ...     def __init__(self, n):
        ...         super().__init__(range(n), repeat=False)
        >>> sorted(from_actors([Numbers.remote(2), Numbers.remote(3)]).gather_async())
        [0, 0, 1, 1, 2]
    """
    name = name or f"from_actors[shards={len(actors)}]"
    return ParallelIterator([_ActorSet(actors, [])], name, parent_iterators=[])


def _repeated(repeat: bool) -> str:
    return ", repeat=True" if repeat else ""


class _ActorSet:
    """Actors, and what they do to their items."""

    def __init__(self, actors: Sequence[Any], transforms: Sequence[LocalStep]) -> None:
        self.actors = list(actors)
        self.transforms = list(transforms)

    def init_actors(self) -> None:
        heliostat.get([actor.par_iter_init.remote(self.transforms) for actor in self.actors])

    def with_transform(self, step: LocalStep) -> _ActorSet:
        return _ActorSet(self.actors, [*self.transforms, step])


@Deprecated
class ParallelIterator(Generic[T]):
    """Items that actors make, each its own. Made by the functions of this module.

    It can be pickled; each actor's items are to be taken by one process.

    Args:
        actor_sets: The actors with what they do.
        name: What it is called.
        parent_iterators: The iterators that it was made of.

    Examples:
        >>> from ray.util.iter import from_items
        >>> doubled = from_items([1, 2, 3], num_shards=1).for_each(lambda x: 2 * x)
        >>> list(doubled.batch(2).gather_sync())
        [[2, 4], [6]]
    """

    def __init__(
        self,
        actor_sets: Sequence[_ActorSet],
        name: str,
        parent_iterators: Sequence[ParallelIterator[Any]],
    ) -> None:
        self.actor_sets = list(actor_sets)
        self.name = name
        # Their actors live as long as these are referred to.
        self.parent_iterators = list(parent_iterators)

    def __iter__(self) -> Iterator[T]:
        raise TypeError(
            "A ParallelIterator cannot be iterated directly: call `.gather_sync()` or `.gather_async()`."
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    def _then(self, step: LocalStep, name: str) -> ParallelIterator[Any]:
        sets = [actors.with_transform(step) for actors in self.actor_sets]
        return ParallelIterator(sets, f"{self.name}.{name}", self.parent_iterators)

    # ---- functions that run in the actors ----

    def transform(self, fn: Callable[[Iterable[T]], Iterable[Any]]) -> ParallelIterator[Any]:
        """Apply a function to each actor's iterator.

        Args:
            fn: Takes an iterable of items; returns one.

        Returns:
            The new iterator.
        """
        return self._then(lambda items: items.transform(fn), "transform()")

    def for_each(
        self,
        fn: Callable[[T], Any],
        max_concurrency: int = 1,
        resources: dict[str, Any] | None = None,
    ) -> ParallelIterator[Any]:
        """Apply a function to each item.

        Args:
            fn: Takes an item; returns another.
            max_concurrency: How many tasks an actor has at once. Default 1: it calls ``fn`` itself; 0: no
                bound.
            resources: Options of those tasks, as of ``ray.remote``.

        Returns:
            The new iterator.
        """
        assert max_concurrency >= 0, "max_concurrency must be non-negative."
        return self._then(
            lambda items: items.for_each(fn, max_concurrency, resources), "for_each()"
        )

    def filter(self, fn: Callable[[T], bool]) -> ParallelIterator[T]:
        """Keep the items for which a function is true.

        Args:
            fn: Takes an item; returns whether it stays.

        Returns:
            The new iterator.
        """
        return self._then(lambda items: items.filter(fn), "filter()")

    def batch(self, n: int) -> ParallelIterator[list[T]]:
        """Make lists of the items of each actor; its last one may be shorter.

        Args:
            n: How many items a list has.

        Returns:
            The new iterator.
        """
        return self._then(lambda items: items.batch(n), f"batch({n})")

    def flatten(self) -> ParallelIterator[Any]:
        """The items of the items."""
        return self._then(lambda items: items.flatten(), "flatten()")

    def combine(self, fn: Callable[[T], list[Any]]) -> ParallelIterator[Any]:
        """Apply a function to each item and give the items of the lists that it returns.

        Args:
            fn: Takes an item; returns a list.

        Returns:
            The new iterator.
        """
        made = self.for_each(fn).flatten()
        made.name = f"{self.name}.combine()"
        return made

    def local_shuffle(
        self, shuffle_buffer_size: int, seed: int | None = None
    ) -> ParallelIterator[T]:
        """Each actor's items in random order, see :meth:`LocalIterator.shuffle`.

        Args:
            shuffle_buffer_size: How many items the buffer has.
            seed: Of the random order. Default: another one each time.

        Returns:
            The new iterator.
        """
        text = f"local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})"
        return self._then(lambda items: items.shuffle(shuffle_buffer_size, seed), text)

    # ---- other actors ----

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator[T]:
        """Give the same items from new actors, which take them from the old ones in turn.

        Args:
            num_partitions: How many actors.
            batch_ms: Milliseconds that an actor collects items before it sends them. Default 0: it sends
                one.

        Returns:
            The new iterator.
        """
        for actors in self.actor_sets:
            actors.init_actors()
        sources = [actor for actors in self.actor_sets for actor in actors.actors]
        worker = heliostat.remote(ParallelIteratorWorker)
        made = [
            worker.remote(
                functools.partial(_slice, sources, num_partitions, index, batch_ms), False
            )
            for index in range(num_partitions)
        ]
        name = f"{self.name}.repartition[num_partitions={num_partitions}]"
        return ParallelIterator([_ActorSet(made, [])], name, parent_iterators=[self])

    def union(self, other: ParallelIterator[T]) -> ParallelIterator[T]:
        """Iterate over the actors of both.

        Args:
            other: Another iterator.

        Returns:
            The new iterator.

        Raises:
            TypeError: ``other`` is not one.
        """
        if not isinstance(other, ParallelIterator):
            raise TypeError(f"other must be of type ParallelIterator, got {type(other)}")
        return ParallelIterator(
            [*self.actor_sets, *other.actor_sets],
            f"ParallelUnion[{self}, {other}]",
            [*self.parent_iterators, *other.parent_iterators],
        )

    def select_shards(self, shards_to_keep: Sequence[int]) -> ParallelIterator[T]:
        """Take some of the actors. Two such iterators must have no actor in common.

        Args:
            shards_to_keep: Their indexes.

        Returns:
            The new iterator.

        Raises:
            ValueError: None is named, or the iterator is a union.
        """
        if len(self.actor_sets) > 1:
            raise ValueError("select_shards() is not allowed after union()")
        if not shards_to_keep:
            raise ValueError("at least one shard must be selected")
        (old,) = self.actor_sets
        kept = [actor for index, actor in enumerate(old.actors) if index in shards_to_keep]
        assert len(kept) == len(shards_to_keep), "Invalid actor index"
        name = f"{self}.select_shards({len(shards_to_keep)} total)"
        return ParallelIterator([_ActorSet(kept, old.transforms)], name, self.parent_iterators)

    # ---- bringing items here ----

    def gather_sync(self) -> LocalIterator[T]:
        """All items: the first of each actor, then the second of each, and so on."""
        made = self.batch_across_shards().flatten()
        made.name = f"{self}.gather_sync()"
        return made

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Lists of one item from each actor that still has any."""
        source = functools.partial(_rounds, self.actor_sets)
        return LocalIterator(source, SharedMetrics(), name=f"{self}.batch_across_shards()")

    def gather_async(self, batch_ms: int = 0, num_async: int = 1) -> LocalIterator[T]:
        """Give all items as they come, without an order.

        Args:
            batch_ms: Milliseconds that an actor collects items before it sends them. Default 0: it sends
                one.
            num_async: How many requests each actor has at once. Default 1.

        Returns:
            An iterator in this process.
        """
        _check_pace(num_async, batch_ms, "queue depth")
        metrics = SharedMetrics()
        source = functools.partial(_as_they_come, self.actor_sets, batch_ms, num_async, metrics)
        return LocalIterator(source, metrics, name=f"{self}.gather_async()")

    def take(self, n: int) -> list[T]:
        """Take the first items of :meth:`gather_sync`.

        Args:
            n: How many at most.

        Returns:
            The items.
        """
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print the first items of :meth:`gather_sync`.

        Args:
            n: How many at most. Default 20.
        """
        self.gather_sync().show(n)

    def num_shards(self) -> int:
        """The number of actors."""
        return sum(len(actors.actors) for actors in self.actor_sets)

    def shards(self) -> list[LocalIterator[T]]:
        """An iterator for each actor."""
        return [self.get_shard(index) for index in range(self.num_shards())]

    def get_shard(
        self, shard_index: int, batch_ms: int = 0, num_async: int = 1
    ) -> LocalIterator[T]:
        """Give one actor's items in their order.

        Args:
            shard_index: The actor's index.
            batch_ms: Milliseconds that an actor collects items before it sends them. Default 0: it sends
                one.
            num_async: How many requests each actor has at once. Default 1.

        Returns:
            An iterator in this process.

        Raises:
            ValueError: There is no such actor.
        """
        _check_pace(num_async, batch_ms, "num async")
        places = [(actor, actors) for actors in self.actor_sets for actor in actors.actors]
        if not 0 <= shard_index < len(places):
            raise ValueError("Shard index out of range", shard_index, self.num_shards())
        actor, actors = places[shard_index]
        source = functools.partial(_one_shard, actor, actors.transforms, batch_ms, num_async)
        return LocalIterator(source, SharedMetrics(), name=f"{self.name}.shard[{shard_index}]")


def _check_pace(num_async: int, batch_ms: int, what: str) -> None:
    if num_async < 1:
        raise ValueError(f"{what} must be positive")
    if batch_ms < 0:
        raise ValueError("batch time must be positive")


# ---- sources: they take a time limit, and give a _NextValueNotReady rather than wait longer ----


def _rounds(actor_sets: Sequence[_ActorSet], timeout: float | None) -> Iterator[Any]:
    for actors in actor_sets:
        actors.init_actors()
    active = [actor for actors in actor_sets for actor in actors.actors]
    while active:
        asked = [actor.par_iter_next.remote() for actor in active]
        while len(heliostat.wait(asked, num_returns=len(asked), timeout=timeout)[0]) < len(asked):
            yield _NextValueNotReady()
        items: list[Any] = []
        left: list[Any] = []
        for actor, ref in zip(active, asked, strict=True):
            try:
                items.append(heliostat.get(ref))
            except StopIteration:
                continue
            left.append(actor)
        active = left
        if items:
            yield items
        if timeout is not None:
            yield _NextValueNotReady()


def _as_they_come(
    actor_sets: Sequence[_ActorSet],
    batch_ms: int,
    num_async: int,
    metrics: SharedMetrics,
    timeout: float | None,
) -> Iterator[Any]:
    for actors in actor_sets:
        actors.init_actors()
    every = [actor for actors in actor_sets for actor in actors.actors]
    asked = {
        actor.par_iter_next_batch.remote(batch_ms): actor
        for _ in range(num_async)
        for actor in every
    }

    def again(actor: Any) -> Any:
        return actor.par_iter_next_batch.remote(batch_ms)

    for actor, item in _ready(asked, again, timeout):
        if actor is not None:
            metrics.get().current_actor = actor
        yield item


def _slice(sources: Sequence[Any], step: int, start: int, batch_ms: int) -> Iterator[Any]:
    """The items of all sources whose turn it is; asked for by an actor of its own."""

    def ask(actor: Any) -> Any:
        return actor.par_iter_slice_batch.remote(step=step, start=start, batch_ms=batch_ms)

    for _, item in _ready({ask(actor): actor for actor in sources}, ask, None):
        yield item


def _ready(
    asked: dict[Any, Any], again: Callable[[Any], Any], timeout: float | None
) -> Iterator[tuple[Any, Any]]:
    """Pairs of actor and item; each actor is asked again until it has no more."""
    while asked:
        refs = list(asked)
        if timeout is None:
            heliostat.wait(refs, num_returns=1)
        done, _ = heliostat.wait(refs, num_returns=len(refs), timeout=timeout or 0)
        for ref in done:
            actor = asked.pop(ref)
            try:
                batch = heliostat.get(ref)
            except StopIteration:
                continue
            asked[again(actor)] = actor
            for item in batch:
                yield actor, item
        if timeout is not None:
            yield None, _NextValueNotReady()


def _one_shard(
    actor: Any,
    transforms: Sequence[LocalStep],
    batch_ms: int,
    num_async: int,
    timeout: float | None,
) -> Iterator[Any]:
    heliostat.get(actor.par_iter_init.remote(list(transforms)))
    asked = deque(actor.par_iter_next_batch.remote(batch_ms) for _ in range(num_async))
    while True:
        while not heliostat.wait([asked[0]], timeout=timeout)[0]:
            yield _NextValueNotReady()
        try:
            batch = heliostat.get(asked.popleft())
        except StopIteration:
            return
        asked.append(actor.par_iter_next_batch.remote(batch_ms))
        yield from batch
        if timeout is not None:
            yield _NextValueNotReady()


# ---- the actors ----


@Deprecated
class ParallelIteratorWorker:
    """An actor with items; classes for :func:`from_actors` are derived from it and call its constructor.

    Args:
        item_generator: An iterable, or a function that returns one.
        repeat: Begin again at the end, which an iterator cannot.

    Raises:
        ValueError: ``repeat`` with an iterator.

    Examples:
        >>> import ray
        >>> from ray.util.iter import ParallelIteratorWorker, from_actors
        >>> @ray.remote
        ... class Words(ParallelIteratorWorker):
        ...     def __init__(self, text):
        ...         super().__init__(text.split(), repeat=False)
        >>> list(from_actors([Words.remote("to be or")]).gather_sync())
        ['to', 'be', 'or']
    """

    def __init__(self, item_generator: Any, repeat: bool) -> None:
        self.item_generator = _cycle(item_generator) if repeat else _made(item_generator)
        self.transforms: list[LocalStep] = []
        self.local_it: Iterator[Any] | None = None
        self.next_ith_buffer: dict[int, deque[Any]] = defaultdict(deque)

    def par_iter_init(self, transforms: Sequence[LocalStep]) -> None:
        """Begin, with these functions.

        Args:
            transforms: The functions that the items go through.
        """
        made: LocalIterator[Any] = LocalIterator(lambda _: self.item_generator, SharedMetrics())
        for step in transforms:
            made = step(made)
        self.local_it = iter(made)

    def par_iter_next(self) -> Any:
        """The next item; ``StopIteration`` at the end."""
        assert self.local_it is not None, "must call par_iter_init()"
        return next(self.local_it)

    def par_iter_next_batch(self, batch_ms: int) -> list[Any]:
        """Take the items of so many milliseconds, or the next one.

        Args:
            batch_ms: Milliseconds.

        Returns:
            The items.

        Raises:
            StopIteration: There are no more.
        """
        return _collected(self.par_iter_next, batch_ms)

    def par_iter_slice(self, step: int, start: int) -> Any:
        """Take the next item that one of several readers gets when they take turns.

        Args:
            step: How many readers there are.
            start: Which one asks, from 0.

        Returns:
            The item.

        Raises:
            StopIteration: There are no more.
        """
        assert self.local_it is not None, "must call par_iter_init()"
        mine = self.next_ith_buffer[start]
        if not mine:
            for turn, item in zip(range(step), self.local_it, strict=False):
                self.next_ith_buffer[turn].append(item)
        if not mine:
            raise StopIteration
        return mine.popleft()

    def par_iter_slice_batch(self, step: int, start: int, batch_ms: int) -> list[Any]:
        """As :meth:`par_iter_next_batch`, of those that ``start`` gets.

        Args:
            step: How many readers there are.
            start: Which one asks, from 0.
            batch_ms: Milliseconds.

        Returns:
            The items.
        """
        return _collected(functools.partial(self.par_iter_slice, step, start), batch_ms)


def _made(item_generator: Any) -> Any:
    return item_generator() if callable(item_generator) else item_generator


def _cycle(item_generator: Any) -> Iterator[Any]:
    while True:
        items = iter(_made(item_generator))
        if items is item_generator:
            raise ValueError(
                f"Cannot iterate over {item_generator} multiple times. "
                "Please pass in the base iterable or a function that returns it instead."
            )
        yield from items


def _collected(fetch: Callable[[], Any], batch_ms: int) -> list[Any]:
    """Return the items that come within so many milliseconds, one at least; ``StopIteration`` if
    none comes.
    """
    batch = [fetch()]
    end = time.monotonic() + batch_ms / 1000
    while time.monotonic() < end:
        try:
            batch.append(fetch())
        except StopIteration:
            break
    return batch
