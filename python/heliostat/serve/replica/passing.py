"""Requests of an ingress to a deployment whose router is the user's own.

The ingress has no Python to ask that router, so it gives all requests to one replica. That replica asks, as a
handle does, and has the replica that was chosen answer: the frames of the answer come back as the items of a
stream, and go on to the ingress as they are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from heliostat.core.platform import serving
from heliostat.exceptions import ActorDiedError
from heliostat.serve.context import RequestContext
from heliostat.serve.exceptions import ReplicaUnavailableError
from heliostat.serve.handle import DeploymentResponseGenerator
from heliostat.serve.replica.connection import PIECE_MAX, Exchange
from heliostat.serve.router import Call, Load, router_of
from heliostat.serve.specs import ANSWER_METHOD, DeploymentID

# The same as those that the ingress asks again where a replica has died.
_REPEATABLE = ("GET", "HEAD", "OPTIONS")

# LIMIT-1: frames of an answer that wait for the client.
_AHEAD_MAX = 8

# A frame, and how many bytes of a body are in it.
Frame = tuple[bytes, int]


async def pass_on(exchange: Exchange, deployment: DeploymentID, request: RequestContext) -> None:
    """Have a replica that the deployment's router chooses answer the request.

    Its whole body is read before. Raises what a call of a handle raises.
    """
    body = bytearray()
    while not exchange.is_read:
        part = await exchange.receive()
        if part["type"] == "http.disconnect":
            return
        body += part["body"]
    given = (exchange.scope, bytes(body), exchange.number)
    may_repeat = exchange.scope.get("method") in _REPEATABLE
    while True:
        call = _Passing(router_of(deployment), tuple(request), ANSWER_METHOD, True, given, {})
        call.router.submit(call)
        try:
            async for frame, length in DeploymentResponseGenerator(call):
                await exchange.relay(frame, length)
        except ActorDiedError:
            if exchange.has_begun or not may_repeat:
                raise
            may_repeat = False
        else:
            exchange.is_relayed()
            return


class _Passing(Call):
    """A call whose answer is not far ahead of the client."""

    __slots__ = ()

    def method_of(self, load: Load) -> Callable[..., Any]:
        stream = load.place.actor.handle_stream
        return stream.options(_generator_backpressure_num_objects=_AHEAD_MAX).remote  # type: ignore[no-any-return] # a handle's


class ForwardedRequest(Exchange):
    """A request that another replica has from an ingress, and passes on to this one."""

    def __init__(self, scope: dict[str, Any], body: bytes, number: int) -> None:
        # Frames go where `write` of this puts them.
        super().__init__(self, number, scope, True, body)
        self.frames: deque[Frame] = deque()
        self.changed = asyncio.Event()
        self.was_refused = False

    def write(self, data: bytes) -> None:
        """A frame without a part of a body that is bounded."""
        self._give(data, 0)

    async def drained(self) -> None:
        """Once the frames are on their way."""
        while self.frames and not self.is_gone:
            self.room = asyncio.get_running_loop().create_future()
            await self.room

    def _give(self, frame: bytes, length: int) -> None:
        self.frames.append((frame, length))
        self.changed.set()

    async def _send_body(self, data: bytes, is_last: bool) -> None:
        assert self.start is not None
        if is_last and not self.has_begun and len(data) <= PIECE_MAX:
            self.answer(*self.start, data)
            return
        if not self.has_begun:
            self.has_begun = True
            self.write(serving.encode_head(self.number, self.start[0], False, self.start[1], b""))
        for begin in range(0, len(data), PIECE_MAX) or ((0,) if is_last else ()):
            piece = bytes(data[begin : begin + PIECE_MAX])
            ends = is_last and begin + PIECE_MAX >= len(data)
            self._give(serving.encode_piece(self.number, ends, piece), len(piece))
            await self.drained()
        if is_last:
            self._answered()

    def refuse(self) -> None:
        """Refuse a request that was not begun: the other replica is to choose again."""
        self.was_refused = True
        self._answered()

    def is_taken(self) -> None:
        """The frames that there were are on their way."""
        self._tell()


async def answers(
    serve: Callable[[Exchange], Coroutine[Any, Any, None]],
    replica: str,
    scope: dict[str, Any],
    body: bytes,
    number: int,
) -> AsyncIterator[Frame]:
    """The frames with which this replica answers a request that was passed on to it.

    Raises ``ReplicaUnavailableError`` where it was not begun.
    """
    passed = ForwardedRequest(scope, body, number)
    passed.task = asyncio.get_running_loop().create_task(serve(passed))
    passed.task.add_done_callback(lambda _: passed.changed.set())
    try:
        while not passed.task.done():
            while passed.frames:
                yield passed.frames.popleft()
            passed.is_taken()
            passed.changed.clear()
            if not passed.frames and not passed.task.done():
                await passed.changed.wait()
        if passed.was_refused:
            raise ReplicaUnavailableError(replica)
        passed.end()  # if it is not whole
        while passed.frames:
            yield passed.frames.popleft()
    finally:
        if not passed.task.done():
            passed.on_cancel()
