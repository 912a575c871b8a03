"""A WebSocket at its application: ASGI messages here, messages within the bodies of an exchange there.

The ingress speaks the protocol with the client (`helio-ingress`: `websocket.rs`) and says how messages lie
in the bodies: a kind, a length, the payload.
"""

from __future__ import annotations

import struct
from typing import Any

from heliostat.serve.replica.answers import TEXT
from heliostat.serve.replica.connection import Exchange

_TEXT, _BINARY, _CLOSE = 1, 2, 3
_HEAD = struct.Struct("<BI")
_CODE = struct.Struct("<H")
_MESSAGE_MAX = 16 << 20
_NORMAL, _ABNORMAL, _FAILED = 1000, 1006, 1011


class Socket:
    """``receive`` and ``send`` of an ASGI application for one WebSocket."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._buffer = bytearray()
        self._is_asked = False  # the application has heard of the handshake
        self._is_open = False
        self.is_over = False  # the client has closed

    async def receive(self) -> dict[str, Any]:
        """The next message of the client; ``websocket.disconnect`` once it has closed."""
        if not self._is_asked:
            self._is_asked = True
            return {"type": "websocket.connect"}
        while (message := self._next()) is None:
            part = await self._exchange.receive()
            if part["type"] == "http.disconnect" or not (part["body"] or part["more_body"]):
                return _gone(_ABNORMAL, "")
            self._buffer += part["body"]
        return message

    def _next(self) -> dict[str, Any] | None:
        if len(self._buffer) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._buffer)
        end = _HEAD.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        if kind == _TEXT:
            return {"type": "websocket.receive", "text": payload.decode()}
        if kind == _BINARY:
            return {"type": "websocket.receive", "bytes": payload}
        self.is_over = True
        return _gone(_CODE.unpack_from(payload)[0], payload[_CODE.size :].decode())

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message of ASGI. Raises ``OSError`` when the client has gone."""
        kind = message["type"]
        if kind == "websocket.accept" and not self._is_open:
            await self._accept(message)
        elif kind == "websocket.send" and self._is_open:
            text = message.get("text")
            if text is not None:
                await self._say(_TEXT, text.encode())
            else:
                await self._say(_BINARY, message["bytes"])
        elif kind == "websocket.close":
            await self._close(message.get("code") or _NORMAL, message.get("reason") or "")
        elif kind.startswith("websocket.http.response.") and not self._is_open:
            await self._exchange.send({**message, "type": kind.removeprefix("websocket.")})
        else:
            raise RuntimeError(f"A WebSocket has no message {kind!r} at this time.")

    async def _accept(self, message: dict[str, Any]) -> None:
        headers = list(message.get("headers") or ())
        chosen = message.get("subprotocol")
        if chosen is not None:
            headers.append((b"sec-websocket-protocol", chosen.encode()))
        self._is_open = True
        await self._exchange.send(
            {"type": "http.response.start", "status": 101, "headers": headers}
        )
        await self._exchange.send({"type": "http.response.body", "more_body": True})

    async def _say(self, kind: int, payload: bytes, *, is_last: bool = False) -> None:
        if len(payload) > _MESSAGE_MAX:
            raise ValueError(
                f"A message of a WebSocket has at most {_MESSAGE_MAX} bytes, not {len(payload)}."
            )
        if self.is_over and not is_last:
            raise OSError("the client has gone")
        body = _HEAD.pack(kind, len(payload)) + payload
        await self._exchange.send(
            {"type": "http.response.body", "body": body, "more_body": not is_last}
        )

    async def _close(self, code: int, reason: str) -> None:
        if self._exchange.is_answered or self._exchange.is_gone:
            return
        if self._is_open:
            await self._say(_CLOSE, _CODE.pack(code) + reason.encode(), is_last=True)
        else:
            self._exchange.answer(403, TEXT, b"")

    async def end(self, *, has_failed: bool) -> None:
        """The application has returned, or raised."""
        if has_failed and not self._is_open:
            if not self._exchange.has_begun:
                self._exchange.answer(500, TEXT, b"Internal Server Error")
            return
        await self._close(_FAILED if has_failed else _NORMAL, "")


def _gone(code: int, reason: str) -> dict[str, Any]:
    return {"type": "websocket.disconnect", "code": code, "reason": reason}
