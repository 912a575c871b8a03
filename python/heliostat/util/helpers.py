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
    """The values of the references (or the references themselves) in the order they are ready.

    They are fetched by ``chunk_size``; further keywords go to ``wait``.
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
    """``fn`` of every item, in the order the results are ready.

    At most ``backpressure_size`` calls are on their way at a time.
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
