"""Having all ranks save behind the same step, which none of them has chosen.

Each rank says how many steps it will have made when the one that it is in is done, and from then on waits
between steps until it knows how far to go. That is as far as the rank that has come furthest: the others can
follow, since a step needs everybody, and nobody can have begun another one.
"""

from __future__ import annotations

import asyncio


class SaveRound:
    """A round of asking the ranks of an attempt to save."""

    def __init__(self, number: int, world_size: int) -> None:
        self.number = number
        self._silent = set(range(world_size))
        self._target: int | None = None
        self._is_known = asyncio.Event()
        self._has_failed = False

    def heard(self, rank: int, made: int | None) -> None:
        """A rank knows that it shall save; None: it has not begun to count steps."""
        self._silent.discard(rank)
        if made is not None:
            self._target = max(self._target or 0, made)
        if not self._silent:
            self._is_known.set()

    async def target(self, made: int) -> int:
        """The number of steps, in all, after which a rank saves that has made ``made``."""
        await self._is_known.wait()
        return made if self._target is None else self._target

    def is_later(self, step: int | None) -> bool:
        """Whether the ranks save a later state than that after ``step`` steps; None: nobody counts them."""
        if step is None:
            return False
        if self._silent or self._has_failed:
            return True
        return self._target is not None and step < self._target

    def failed(self) -> None:
        """Note that the saved state could not be stored: the ranks are asked again, and have gone
        on meanwhile.
        """
        self._has_failed = True

    def end(self) -> None:
        """The attempt is over: nobody waits any longer."""
        self._is_known.set()
