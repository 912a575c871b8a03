"""The few parts of WebSocket (RFC 6455) that following a log needs: to read text from a server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncGenerator

from heliostat.util.http import Server

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUED, _TEXT, _BINARY, _CLOSE, _PING = 0, 1, 2, 8, 9
_PONG = 10
_HEAD_MAX = 64 << 10
_FRAME_MAX = 64 << 20  # bytes: nobody sends more of a log at a time


async def texts(server: Server, path: str) -> AsyncGenerator[str, None]:
    """The messages of the server until it closes.

    Raises ``RuntimeError`` with the server's words when it does not begin, and ``ConnectionError`` when
    it ends in the middle of a message.
    """
    host, port, tls = server.place()
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=_HEAD_MAX)
    try:
        await _greet(reader, writer, server, path)
        whole = b""
        while True:
            final, kind, payload = await _frame(reader)
            if kind == _CLOSE:
                writer.write(_masked(_CLOSE, payload[:2]))
                return
            if kind == _PING:
                writer.write(_masked(_PONG, payload))
            elif kind in (_TEXT, _BINARY, _CONTINUED):
                whole += payload
                if final:
                    yield whole.decode(errors="replace")
                    whole = b""
    except asyncio.IncompleteReadError as error:
        raise ConnectionError(f"{server.url} closed the connection") from error
    finally:
        writer.close()


async def _greet(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Server, path: str
) -> None:
    key = base64.b64encode(os.urandom(16))
    lines = [
        f"GET {server.prefix}{path} HTTP/1.1",
        f"Host: {server.host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key.decode()}",
        "Sec-WebSocket-Version: 13",
        *(f"{name}: {value}" for name, value in server.headers.items()),
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
    status, _, rest = head.partition("\r\n")
    fields = dict(line.lower().split(":", 1) for line in rest.splitlines() if ":" in line)
    if " 101 " not in f"{status} ":
        length = int(fields.get("content-length", "0").strip() or 0)
        said = (await reader.readexactly(min(length, _HEAD_MAX))).decode(errors="replace")
        code = status.split(" ")[1] if " " in status else status
        raise RuntimeError(f"Request failed with status code {code}: {said}")
    expected = base64.b64encode(hashlib.sha1(key + _MAGIC, usedforsecurity=False).digest())
    if fields.get("sec-websocket-accept", "").strip() != expected.decode().lower():
        raise RuntimeError(f"What answers at {server.url} speaks no WebSocket.")


async def _frame(reader: asyncio.StreamReader) -> tuple[bool, int, bytes]:
    first, second = await reader.readexactly(2)
    size = second & 0x7F
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    if size > _FRAME_MAX:
        raise ConnectionError(f"a message of {size} bytes is more than a log sends at a time")
    mask = await reader.readexactly(4) if second & 0x80 else b""
    payload = await reader.readexactly(size)
    if mask:
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bool(first & 0x80), first & 0x0F, payload


def _masked(kind: int, payload: bytes) -> bytes:
    """A short frame to the server; a client has to mask what it sends."""
    mask = os.urandom(4)
    body = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload[:125]))
    return bytes([0x80 | kind, 0x80 | len(body)]) + mask + body
