"""Arrays in dicts and tuples, as observations of ``Dict`` and ``Tuple`` spaces are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def mapped(function: Callable[..., Any], nest: Any, *others: Any) -> Any:
    """The same nest with ``function`` of each leaf (and of those at its place in the others)."""
    if isinstance(nest, dict):
        return {k: mapped(function, v, *(other[k] for other in others)) for k, v in nest.items()}
    if isinstance(nest, tuple):
        return tuple(mapped(function, *parts) for parts in zip(nest, *others, strict=True))
    return function(nest, *others)


def leaves(nest: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves with their paths: ``""`` for a nest that is one, ``"camera/left"``, ``"0"``."""
    if isinstance(nest, dict):
        parts: Any = nest.items()
    elif isinstance(nest, tuple):
        parts = enumerate(nest)
    else:
        yield path, nest
        return
    for key, part in parts:
        yield from leaves(part, f"{path}/{key}" if path else str(key))


def first(nest: Any) -> Any:
    """Return the first leaf of a tree."""
    return next(leaves(nest))[1]


def put(nest: Any, index: Any, value: Any) -> None:
    """Set ``leaf[index]`` to the leaf of ``value`` at its place."""
    if isinstance(nest, dict):
        for key, part in nest.items():
            put(part, index, value[key])
    elif isinstance(nest, tuple):
        for part, own in zip(nest, value, strict=True):
            put(part, index, own)
    else:
        nest[index] = value


def at(nest: Any, index: Any) -> Any:
    """The nest of ``leaf[index]``."""
    return mapped(lambda leaf: leaf[index], nest)
