"""The bound on the requests that a replica processes at a time."""

from __future__ import annotations

import asyncio
from collections import deque


class Turnstile:
    """So many requests at a time; further ones in the order in which they came."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.ongoing = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """A place, if there is one."""
        is_free = self.ongoing < self.most and not self.waiting
        self.ongoing += is_free
        return is_free

    async def enter(self) -> None:
        """Once there is a place; to be called where :meth:`take` gave none."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # it was given in this moment
            else:
                self.waiting.remove(place)
            raise

    def leave(self) -> None:
        """A place is free."""
        self.ongoing -= 1
        if self.waiting:
            self.let_in()

    def let_in(self) -> None:
        """Give what is free to those who wait."""
        while self.waiting and self.ongoing < self.most:
            place = self.waiting.popleft()
            if not place.done():
                self.ongoing += 1
                place.set_result(None)

    @property
    def total(self) -> int:
        """Requests that are here."""
        return self.ongoing + len(self.waiting)
