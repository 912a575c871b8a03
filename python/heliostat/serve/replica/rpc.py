"""A call of gRPC at its replica: messages of the user's own kind in, messages and a status out.

The ingress speaks HTTP/2 with the client (`helio-ingress`: `grpc.rs`). Bodies hold messages as gRPC
frames them: whether it is compressed, a length, the bytes. Source: gRPC's "gRPC over HTTP2".
"""

from __future__ import annotations

import asyncio
import base64
import functools
import gzip
import os
import struct
import urllib.parse
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from heliostat.core.platform import serving
from heliostat.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    gRPCStatusError,
)
from heliostat.serve.grpc_util import RayServegRPCContext, gRPCInputStream
from heliostat.serve.replica.connection import Exchange
from heliostat.serve.servicers import Method

# The code of a call whose client has gone.
CANCELLED = 1
_HEAD = struct.Struct(">BI")
# Codes of a status.
_OK, _TIMED_OUT, _EXHAUSTED, _UNIMPLEMENTED, _INTERNAL, _UNAVAILABLE = 0, 4, 8, 12, 13, 14
# An answer begins with these.
_HEADERS = [
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", b"identity,deflate,gzip"),
]
# `grpc.Compression`, by its numbers.
_COMPRESSORS: dict[int, tuple[bytes, Callable[[bytes], bytes] | None]] = {
    1: (b"deflate", zlib.compress),
    2: (b"gzip", gzip.compress),
}
# Headers of the transport, which are not metadata.
_TRANSPORT = {"te", "content-type", "content-length", "host", "x-request-id"}
# A status travels in a header, which clients bound at 8 KiB.
_DETAILS_MAX = 4096
_CUT = "... [truncated]"


@functools.cache
def _most_bytes() -> int:
    return int(os.environ.get("RAY_SERVE_GRPC_MAX_MESSAGE_SIZE") or (2 << 30) - 1)


class RpcError(Exception):
    """A call that ends with a status of its own."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(details)
        self.code = code


class _Arrived:
    """A call's metadata and peer, as ``grpc.ServicerContext`` has them."""

    def __init__(self, scope: dict[str, Any], request_id: str) -> None:
        self._metadata = []
        for name, value in scope["headers"]:
            key = name.decode("latin-1")
            if key.startswith("grpc-") or key in _TRANSPORT:
                continue
            self._metadata.append((key, _decoded(key, value)))
        host, port = scope["client"]
        self._peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        self._trailing = [("request_id", request_id)]

    def auth_context(self) -> dict[str, Any]:
        return {}

    def code(self) -> None:
        return None

    def details(self) -> None:
        return None

    def invocation_metadata(self) -> list[tuple[str, Any]]:
        return self._metadata

    def peer(self) -> str:
        return self._peer

    def peer_identities(self) -> None:
        return None

    def peer_identity_key(self) -> None:
        return None

    def trailing_metadata(self) -> list[tuple[str, Any]]:
        return self._trailing


def _decoded(key: str, value: bytes) -> Any:
    """Metadata whose names end with `-bin` are bytes, in base64 without the end."""
    if not key.endswith("-bin"):
        return value.decode("latin-1")
    return base64.b64decode(value + b"=" * (-len(value) % 4))


def _encoded(key: str, value: Any) -> bytes:
    if key.endswith("-bin"):
        return base64.b64encode(value).rstrip(b"=")
    return value if isinstance(value, bytes) else str(value).encode("latin-1", "replace")


class Call:
    """A call, from its metadata to its status."""

    def __init__(self, exchange: Exchange, method: Method, request_id: str) -> None:
        self._exchange = exchange
        self._method = method
        self._buffer = bytearray()
        self._is_over = False  # the client has sent its last message
        self._has_begun = False
        self._compress: Callable[[bytes], bytes] | None = None  # decided as the answer begins
        self._cancelled = asyncio.Event()
        self._metadata = dict(exchange.scope["headers"])
        self.context = RayServegRPCContext(_Arrived(exchange.scope, request_id))

    async def request(self) -> Any:
        """Return the argument of the method: a message, or the stream of them. Raises ``RpcError``."""
        if self._method.takes_stream:
            return gRPCInputStream(self._messages(), cancel_event=self._cancelled)
        message = await self._next()
        if message is None:
            raise RpcError(_INTERNAL, "The call has no message.")
        return self._decode(message)

    async def _messages(self) -> AsyncIterator[Any]:
        try:
            while (message := await self._next()) is not None:
                yield self._decode(message)
        except ConnectionError:
            self._cancelled.set()

    def _decode(self, message: bytes) -> Any:
        try:
            return self._method.decode(message)
        except Exception as error:
            raise RpcError(
                _INTERNAL, f"The message is not of the method's kind: {error}"
            ) from error

    async def _next(self) -> bytes | None:
        while (message := self._whole()) is None:
            if self._is_over:
                if self._buffer:
                    raise RpcError(_INTERNAL, "The last message ends early.")
                return None
            part = await self._exchange.receive()
            if part["type"] == "http.disconnect":
                raise ConnectionError("the client has gone")
            self._buffer += part["body"]
            self._is_over = not part["more_body"]
        return message

    def _whole(self) -> bytes | None:
        if len(self._buffer) < _HEAD.size:
            return None
        is_compressed, length = _HEAD.unpack_from(self._buffer)
        most = _most_bytes()
        if length > most:
            raise RpcError(
                _EXHAUSTED,
                f"The message has {length} bytes, more than {most} (RAY_SERVE_GRPC_MAX_MESSAGE_SIZE).",
            )
        end = _HEAD.size + length
        if len(self._buffer) < end:
            return None
        message = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        return self._inflated(message, most) if is_compressed else message

    def _inflated(self, message: bytes, most: int) -> bytes:
        how = self._metadata.get(b"grpc-encoding", b"identity")
        if how not in (b"gzip", b"deflate"):
            raise RpcError(
                _UNIMPLEMENTED, f"The compression {how.decode('latin-1')!r} is not understood."
            )
        inflater = zlib.decompressobj(zlib.MAX_WBITS | (16 if how == b"gzip" else 0))
        try:
            found = inflater.decompress(message, most)
        except zlib.error as error:
            raise RpcError(_INTERNAL, f"The message cannot be decompressed: {error}") from None
        if inflater.unconsumed_tail:
            raise RpcError(
                _EXHAUSTED,
                f"The message has more than {most} bytes (RAY_SERVE_GRPC_MAX_MESSAGE_SIZE).",
            )
        return found

    async def send(self, answer: Any) -> None:
        """A message to the client. Raises ``RpcError`` where it is none, ``OSError`` after the client."""
        try:
            message = self._method.encode(answer)
        except Exception as error:
            raise RpcError(
                _INTERNAL,
                f"The method returned a {type(answer).__name__}, which is not the method's message: {error}",
            ) from error
        await self._begin()
        if self._compress is not None:
            message = self._compress(message)
        framed = _HEAD.pack(self._compress is not None, len(message)) + message
        await self._exchange.send({"type": "http.response.body", "body": framed, "more_body": True})

    async def _begin(self) -> None:
        if self._has_begun:
            return
        self._has_begun = True
        # The compression that the method has set, where the client understands it.
        name, compress = _COMPRESSORS.get(int(self.context._compression or 0), (b"identity", None))
        accepted = self._metadata.get(b"grpc-accept-encoding", b"").split(b",")
        if name in {one.strip() for one in accepted}:
            self._compress = compress
        else:
            name = b"identity"
        headers = [*_HEADERS, (b"grpc-encoding", name)]
        await self._exchange.send(
            {"type": "http.response.start", "status": 200, "headers": headers}
        )

    async def end(self, code: int, details: str) -> None:
        """The status, with which the call is over."""
        await self._begin()
        if not self._exchange.has_begun:  # a status and no message
            await self._exchange.send(
                {"type": "http.response.body", "body": b"", "more_body": True}
            )
        trailers = [(b"grpc-status", str(code).encode())]
        if details:
            if len(details) > _DETAILS_MAX:
                details = details[: _DETAILS_MAX - len(_CUT)] + _CUT
            trailers.append((b"grpc-message", urllib.parse.quote(details, safe=_SAFE).encode()))
        for key, value in self.context.trailing_metadata():
            trailers.append((key.lower().encode("latin-1", "replace"), _encoded(key, value)))
        self._exchange.end_with(serving.encode_trailers(self._exchange.number, trailers))

    def outcome(self, error: BaseException | None) -> tuple[int, str]:
        """Code and details of the status after the method returned, or raised that."""
        code, details = self.context.code(), self.context.details() or ""
        if code is not None and _number(code) != _OK:
            return _number(code), details or ("" if error is None else str(error))
        if error is None:
            return _OK, details
        if isinstance(error, RpcError):
            return error.code, str(error)
        if isinstance(error, gRPCStatusError):
            code = _INTERNAL if error.grpc_code is None else _number(error.grpc_code)
            return code, error.grpc_details or details or str(error)
        said = details or f"{type(error).__name__}: {error}"
        if isinstance(error, TimeoutError | asyncio.TimeoutError):
            return _TIMED_OUT, said
        if isinstance(error, BackPressureError):
            return _EXHAUSTED, error.message
        if isinstance(error, DeploymentUnavailableError):
            return _UNAVAILABLE, error.message
        return _INTERNAL, said


def unknown(name: str, why: object) -> RpcError:
    """The deployment has no such method."""
    return RpcError(_UNIMPLEMENTED, f"The deployment has no method {name!r}: {why}")


def _number(code: Any) -> int:
    """The number of a ``grpc.StatusCode``, or the number itself."""
    value = getattr(code, "value", code)
    return int(value[0] if isinstance(value, tuple) else value)


# All that a header may have, but for the percent sign.
_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
