"""Exchanges of many blocks into many parts, without an object for each pair of them.

1,000 blocks in 1,000 parts would be a million objects. So a task puts neighbouring parts into groups,
about as many as a group has parts, and gives an object for each group; further tasks each take one
group of some neighbouring blocks and give its parts. Blocks stay in their order, and so do the rows
of a part: what comes of both ways is the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from heliostat.data import block
from heliostat.data.plan.operators import Bundle

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Function, Value


TOGETHER_BYTES = 4 << 20  # of small blocks that one task splits as one
OBJECTS_MAX = 50_000  # of an exchange in one step
BLOCKS_MIN, BLOCKS_MAX = 16, 1_000  # whose pieces one task of the second step takes


def neighbours(bundles: list[Bundle]) -> list[list[Bundle]]:
    """The bundles in runs of neighbours that have a few megabytes together; a large one is alone."""
    runs: list[list[Bundle]] = []
    size = 0
    for bundle in bundles:
        size += bundle.size
        if not runs or size > TOGETHER_BYTES or len(runs[-1]) == BLOCKS_MAX:
            runs.append([])
            size = bundle.size
        runs[-1].append(bundle)
    return runs


def is_wanted(blocks: int, parts: int) -> bool:
    """Whether there would be too many objects otherwise."""
    return blocks * parts > OBJECTS_MAX


def group_size(parts: int) -> int:
    """Parts of a group; the last one may have fewer."""
    return math.isqrt(max(0, parts - 1)) + 1


def blocks_at_once(blocks: int, groups: int, size: float, most: int | None) -> int:
    """Blocks whose pieces one task of the second step takes, so that they have about ``most`` bytes."""
    fitting = blocks if most is None or not size else int(most * groups * blocks / size)
    return max(1, min(blocks, BLOCKS_MAX, max(BLOCKS_MIN, fitting)))


class Grouped:
    """A function of a block that gives parts, as one that gives groups of them."""

    def __init__(self, function: Function, size: int) -> None:
        self._function, self._size = function, size

    def __call__(self, *args: object) -> list[list[Value]]:
        """Run."""
        parts = list(self._function(*args))
        return [parts[at : at + self._size] for at in range(0, len(parts), self._size)]


def together(*groups: list[object]) -> list[pa.Table]:
    """The parts of a group of several blocks, each joined."""
    return [block.joined(block.concat(list(pieces))) for pieces in zip(*groups, strict=True)]
