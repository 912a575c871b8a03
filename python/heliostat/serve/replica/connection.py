"""A replica's end of the connection to an ingress: frames in, ASGI messages and frames out.

The answer of most requests is one write. A body that is longer goes out piece by piece, no more than
``WINDOW`` bytes ahead of what the client has taken; a request's body is read likewise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, Protocol

from heliostat.core.platform import serving

REQUEST, BODY, CANCEL, TAKEN = 1, 2, 3, 4
WINDOW = 1 << 20
PIECE_MAX = 256 << 10
# Pieces of a request's body that are told to be taken together.
TAKEN_TOGETHER = WINDOW // 4
# A frame of so many bytes is written at once.
_ALONE = 8 << 10
# Pieces of a body that follow each other at once share a frame, up to so many bytes, for so long: a frame of
# its own, a write and the ingress's wake-up cost many times more than a short piece.
_TOGETHER = 16 << 10
_TOGETHER_S = 0.0005

Serve = Callable[["Exchange"], Coroutine[Any, Any, None]]


class Frames(Protocol):
    """A receiver of the frames of answers."""

    def write(self, data: bytes) -> None:
        """Send one."""

    async def drained(self) -> None:
        """Once they are read as fast as they are written."""


class Exchange:
    """A request and its answer."""

    def __init__(
        self,
        connection: Frames,
        number: int,
        scope: dict[str, Any],
        is_whole: bool,
        body: bytes,
    ) -> None:
        self.connection = connection
        self.number = number
        self.scope = scope
        self.task: asyncio.Task[None] | None = None
        self.pieces: deque[bytes] = deque((body,) if is_whole or body else ())
        self.is_whole = is_whole  # the last piece has come
        self.is_read = False
        self.taken = 0
        self.is_gone = False  # whoever asked
        self.news: asyncio.Future[None] | None = None
        self.start: tuple[int, Any] | None = None
        self.status = 0  # of the answer, once it has begun
        self.has_begun = False
        self.is_answered = False
        self.credit = WINDOW
        self.room: asyncio.Future[None] | None = None
        self.held: list[bytes] = []  # pieces for one frame; there is credit for them
        self.held_size = 0
        self.held_until = 0.0  # for pieces that come before that time
        self.is_release_due = False  # at the loop's next turn

    async def receive(self) -> dict[str, Any]:
        """Return the next part of the body, as ASGI has it; after the last one, that the client has gone."""
        while not self.pieces and not self.is_whole and not self.is_gone:
            self.news = asyncio.get_running_loop().create_future()
            await self.news
        if self.pieces or (self.is_whole and not self.is_read):
            data = self.pieces.popleft() if self.pieces else b""
            self.is_read = self.is_whole and not self.pieces
            self.taken += len(data)
            if self.taken >= TAKEN_TOGETHER and not self.is_whole:
                self.connection.write(serving.encode_taken(self.number, self.taken))
                self.taken = 0
            return {"type": "http.request", "body": data, "more_body": not self.is_read}
        while not self.is_gone and not self.is_answered:
            self.news = asyncio.get_running_loop().create_future()
            await self.news
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message of ASGI. Raises ``OSError`` when the client has gone."""
        if self.is_gone:
            raise OSError("the client has gone")
        kind = message["type"]
        if kind == "http.response.body":
            data, is_last = message.get("body", b""), not message.get("more_body", False)
            if not is_last and self._hold(data):
                return
            if self.start is None:
                raise RuntimeError("http.response.body came before http.response.start")
            await self._send_body(data, is_last)
        elif kind == "http.response.start":
            self.start = message["status"], message.get("headers", ())
            self.status = message["status"]
        else:
            raise RuntimeError(f"An answer has no messages of type {kind!r}.")

    def _hold(self, data: bytes) -> bool:
        """Whether a piece waits for others: the one before it went out just now.

        It goes with the first that comes later, or when the loop has its next turn. So a generator that holds
        up the loop has each piece sent before it goes on, unless two come at once.
        """
        size = self.held_size + len(data)
        if size > _TOGETHER or size > self.credit or perf_counter() > self.held_until:
            return False
        self.held.append(data)
        self.held_size = size
        if not self.is_release_due:
            self.is_release_due = True
            asyncio.get_running_loop().call_soon(self._release_soon)
        return True

    def _release_soon(self) -> None:
        self.is_release_due = False
        self._release()

    def _release(self) -> None:
        """Send the pieces that wait for others."""
        if not self.held:
            return
        data = b"".join(self.held)
        self.held.clear()
        self.held_size = 0
        self.credit -= len(data)
        self.connection.write(serving.encode_piece(self.number, False, data))

    async def _send_body(self, data: bytes, is_last: bool) -> None:
        assert self.start is not None
        if self.held:
            data = b"".join((*self.held, data))
            self.held.clear()
            self.held_size = 0
        if is_last and not self.has_begun and len(data) <= PIECE_MAX:
            self.answer(*self.start, data)
            return
        if not self.has_begun:
            self.has_begun = True
            self.connection.write(
                serving.encode_head(self.number, self.start[0], False, self.start[1], b"")
            )
        view = memoryview(data)
        while len(view) > 0:
            while self.credit == 0:
                self.room = asyncio.get_running_loop().create_future()
                await self.room
            length = min(PIECE_MAX, self.credit, len(view))
            self.credit -= length
            ends = is_last and length == len(view)
            self.connection.write(serving.encode_piece(self.number, ends, bytes(view[:length])))
            view = view[length:]
            if ends:
                self._answered()
                return
            await self.connection.drained()
        if is_last:
            self.connection.write(serving.encode_piece(self.number, True, b""))
            self._answered()
        else:
            self.held_until = perf_counter() + _TOGETHER_S

    async def relay(self, frame: bytes, length: int) -> None:
        """A frame of the answer that another replica has made; ``length``: its bytes of a long body."""
        while length > self.credit and not self.is_gone:
            self.room = asyncio.get_running_loop().create_future()
            await self.room
        self.credit -= length
        self.has_begun = True
        self.connection.write(frame)
        if length:
            await self.connection.drained()

    def is_relayed(self) -> None:
        """The last frame was the answer's last."""
        self._answered()

    def answer(self, status: int, headers: Any, body: bytes) -> None:
        """The whole answer at once; ``body`` has at most ``PIECE_MAX`` bytes."""
        self.status = status
        self.connection.write(serving.encode_head(self.number, status, True, headers, body))
        self.has_begun = True
        self._answered()

    def end_with(self, trailers: bytes) -> None:
        """The answer has begun, and ends with that frame."""
        self._release()
        self.connection.write(trailers)
        self._answered()

    def refuse(self) -> None:
        """Refuse a request that was not begun: another replica may have it."""
        self.connection.write(serving.encode_break(self.number, True))
        self._answered()

    def end(self) -> None:
        """End the answer: one that is not whole is broken off."""
        if not self.is_answered and not self.is_gone:
            self._release()
            self.connection.write(serving.encode_break(self.number, False))
            self._answered()

    def _answered(self) -> None:
        self.is_answered = True
        self._tell()

    def _tell(self) -> None:
        for future in (self.news, self.room):
            if future is not None and not future.done():
                future.set_result(None)

    def on_body(self, is_last: bool, data: bytes) -> None:
        """A part of the request's body."""
        if data:
            self.pieces.append(data)
        self.is_whole = is_last
        self._tell()

    def on_taken(self, count: int) -> None:
        """The client has taken so many bytes."""
        self.credit += count
        self._tell()

    def on_cancel(self) -> None:
        """The client has gone."""
        self.is_gone = True
        self.credit = WINDOW
        self._tell()
        if self.task is not None and not self.is_answered:
            self.task.cancel()


class Connection(asyncio.Protocol):
    """The connection of an ingress."""

    def __init__(self, token: str, serve: Serve) -> None:
        self._reader = serving.FrameReader(token)
        self._serve = serve
        self._exchanges: dict[int, Exchange] = {}
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._resumed: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []  # frames to write together

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=4 * WINDOW)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except ValueError:
            if self._transport is not None:
                self._transport.abort()
            return
        for frame in frames:
            kind, number = frame[0], frame[1]
            if kind == REQUEST:
                exchange = Exchange(self, number, frame[3], frame[2], frame[4])
                self._exchanges[number] = exchange
                exchange.task = self._loop.create_task(self._serve_one(exchange))
                continue
            known = self._exchanges.get(number)
            if known is None:
                continue
            if kind == BODY:
                known.on_body(frame[2], frame[3])
            elif kind == TAKEN:
                known.on_taken(frame[2])
            elif kind == CANCEL:
                known.on_cancel()

    async def _serve_one(self, exchange: Exchange) -> None:
        try:
            await self._serve(exchange)
        finally:
            exchange.end()
            self._exchanges.pop(exchange.number, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.resume_writing()
        for exchange in list(self._exchanges.values()):
            exchange.on_cancel()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)

    async def drained(self) -> None:
        """Once the ingress reads as fast as is written."""
        while self._is_paused:
            self._resumed = self._loop.create_future()
            await self._resumed

    def write(self, data: bytes) -> None:
        """Send a frame; nothing happens once the ingress has gone.

        Beside other requests it goes with what this turn of the loop has to say besides: a write costs as
        much as the rest of a short answer.
        """
        if len(self._exchanges) > 1 and len(data) < _ALONE:
            if not self._held:
                self._loop.call_soon(self._let_go)
            self._held.append(data)
        else:
            self._let_go()
            if self._transport is not None:
                self._transport.write(data)

    def _let_go(self) -> None:
        held, self._held = self._held, []
        if held and self._transport is not None:
            self._transport.write(b"".join(held))
