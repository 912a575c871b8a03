"""The bound on the requests that a replica processes at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from heliostat.core.platform import serving

GENERATOR = "The method returned a generator: call it with `handle.options(stream=True)`."


class Hooks(Protocol):
    """The owner of a gate, which hears of changes."""

    def on_left(self) -> None:
        """A call has ended."""

    def on_failed(self, error: BaseException) -> None:
        """A call has ended with that error."""

    def on_news(self) -> None:
        """There is something to tell."""


class AdmissionGate(serving.GateBase):
    """A bound of requests at a time; further ones go in the order in which they came.

    ``begin`` begins a call as ``serve_gate.rs`` says. ``hooks``: who is told of what is rare.
    """

    def __new__(cls, most: int, hooks: Hooks | None = None) -> AdmissionGate:
        """A gate with that many places."""
        return super().__new__(cls, most, deque())

    def __init__(self, most: int, hooks: Hooks | None = None) -> None:
        self._hooks = hooks

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

    # --- of calls that `begin` has begun

    def left(self) -> None:
        """Note the end of a request while others wait or are told of it."""
        self.let_in()
        assert self._hooks is not None
        self._hooks.on_left()

    def failed(self, error: BaseException) -> None:
        """Note that a request has ended with that error."""
        assert self._hooks is not None
        self._hooks.on_failed(error)

    def tell_soon(self) -> None:
        """There is something to tell."""
        assert self._hooks is not None
        self._hooks.on_news()

    def generator_error(self) -> TypeError:
        """The error of a call whose method has returned a generator."""
        return TypeError(GENERATOR)

    @property
    def total(self) -> int:
        """Requests that are here."""
        return self.ongoing + len(self.waiting)
