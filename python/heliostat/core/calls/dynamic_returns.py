"""The value of a call with ``num_returns="dynamic"``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heliostat._heliostat import ObjectRef


class DynamicObjectRefGenerator:
    """References to the items that a generator yielded, all of which are there.

    Args:
        refs: References to the items, in order.

    Examples:
        >>> import ray
        >>> @ray.remote(num_returns="dynamic")
        ... def split(text):
        ...     yield from text.split()
        >>> words = ray.get(split.remote("a few words"))
        >>> isinstance(words, ray.DynamicObjectRefGenerator), len(words)
        (True, 3)
        >>> [ray.get(ref) for ref in words]
        ['a', 'few', 'words']
    """

    def __init__(self, refs: list[ObjectRef]) -> None:
        self._refs = refs

    def __iter__(self) -> Iterator[ObjectRef]:
        # Each item is let go of when it has been handed out.
        while self._refs:
            yield self._refs.pop(0)

    def __len__(self) -> int:
        return len(self._refs)
