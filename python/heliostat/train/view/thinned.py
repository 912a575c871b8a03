"""Curves of any length in a bounded number of points, made as the points come. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

P = TypeVar("P")


class Thinned(Generic[P]):
    """Keeps the lowest and the highest point of each stretch; stretches grow as the curve does.

    So peaks and dips stay, wherever they are, and so does the last point.

    Args:
        most: How many points are kept at most.
        points: Points with their values, in order.
    """

    def __init__(self, most: int, points: Iterable[tuple[P, float]] = ()) -> None:
        # Two points of each stretch are kept, and the last of all.
        self._most = (most - 1) // 4 * 2
        self._length = 1  # of a stretch that is full, in points
        self._filled = 0  # points in the last stretch
        self._ends: list[tuple[_Place[P], _Place[P]]] = []
        self._last: _Place[P] | None = None
        for point, value in points:
            self.add(point, value)

    def add(self, point: P, value: float) -> None:
        """The curve goes on with a finite value."""
        number = self._last.number + 1 if self._last is not None else 0
        self._last = new = _Place(number, value, point)
        if self._ends and self._filled < self._length:
            self._ends[-1] = _joined(self._ends[-1], (new, new))
            self._filled += 1
            return
        if len(self._ends) == self._most:
            pairs = zip(self._ends[::2], self._ends[1::2], strict=True)
            self._ends = [_joined(*pair) for pair in pairs]
            self._length *= 2
        self._ends.append((new, new))
        self._filled = 1

    @property
    def points(self) -> list[P]:
        """Return the points that are left of the curve, in order."""
        kept = {place.number: place.point for ends in self._ends for place in ends}
        if self._last is not None:
            kept[self._last.number] = self._last.point
        return [kept[number] for number in sorted(kept)]


class _Place(Generic[P]):
    """A point, which one it is, and its value."""

    __slots__ = ("number", "point", "value")

    def __init__(self, number: int, value: float, point: P) -> None:
        self.number, self.value, self.point = number, value, point


def _joined(
    one: tuple[_Place[P], _Place[P]], other: tuple[_Place[P], _Place[P]]
) -> tuple[_Place[P], _Place[P]]:
    """The lowest and the highest point of two stretches."""
    low = one[0] if one[0].value <= other[0].value else other[0]
    high = one[1] if one[1].value >= other[1].value else other[1]
    return low, high
