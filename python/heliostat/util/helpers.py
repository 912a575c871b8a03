"""Results as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import heliostat


def as_completed(
    refs: Sequence[Any],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Give the values of references in the order in which they are ready.

    Args:
        refs: The references.
        chunk_size: How many are waited for and fetched at once, at least 1. Default 10.
        yield_obj_refs: Give the references themselves. Default False.
        **kwargs: Further keywords of ``ray.wait``, such as ``timeout``.

    Yields:
        A value, or a reference.

    Raises:
        ValueError: ``chunk_size`` is below 1, or ``num_returns`` is given.

    Examples:
        >>> import ray
        >>> from ray.util import as_completed
        >>> sorted(as_completed([ray.put(1), ray.put(2)]))
        [1, 2]
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be >= 1, got {chunk_size}")
    if "num_returns" in kwargs:
        raise ValueError("Use the `chunk_size` argument instead of `num_returns`.")
    rest = list(refs)
    while rest:
        ready, rest = heliostat.wait(rest, num_returns=min(chunk_size, len(rest)), **kwargs)
        yield from ready if yield_obj_refs else heliostat.get(ready)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    **kwargs: Any,
) -> Iterator[Any]:
    """Call a remote function for every item, and give results in the order in which they are ready.

    Args:
        fn: A remote function, or an actor's method, of one argument.
        items: The items. They are read as calls are made.
        backpressure_size: How many calls are under way at most. Default 100; ``None``: no bound.
        chunk_size: How many results are waited for and fetched at once, at least 1. Default 10.
        yield_obj_refs: Give references instead of values. Default False.
        **kwargs: Further keywords of ``ray.wait``.

    Yields:
        A result, or a reference.

    Raises:
        ValueError: ``backpressure_size`` or ``chunk_size`` is below 1.

    Examples:
        >>> import ray
        >>> from ray.util import map_unordered
        >>> @ray.remote
        ... def square(x):
        ...     return x * x
        >>> sorted(map_unordered(square, range(4)))
        [0, 1, 4, 9]
    """
    if backpressure_size is None:
        backpressure_size = 1 << 30
    if backpressure_size <= 0:
        raise ValueError("backpressure_size must be positive.")
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be >= 1, got {chunk_size}")
    chunk_size = min(chunk_size, backpressure_size)

    on_their_way: list[Any] = []
    rest = iter(items)
    more = True
    while more or on_their_way:
        while more and len(on_their_way) < backpressure_size:
            try:
                item = next(rest)
            except StopIteration:
                more = False
            else:
                on_their_way.append(fn.remote(item))
        if not on_their_way:
            return
        number = min(chunk_size, len(on_their_way))
        ready, on_their_way = heliostat.wait(on_their_way, num_returns=number, **kwargs)
        yield from ready if yield_obj_refs else heliostat.get(ready)
