"""The context of a call of gRPC for a deployment's method, besides its message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

__all__ = ["RayServegRPCContext", "gRPCInputStream"]

T = TypeVar("T")


class gRPCInputStream(AsyncIterator[T], Generic[T]):
    """The messages of a client that sends a stream; ends with the last one, and when the call is cancelled.

    Args:
        request_iterator: Where the messages come from.
        cancel_event: Set once the call is cancelled.
    """

    def __init__(
        self, request_iterator: AsyncIterator[T], *, cancel_event: asyncio.Event | None = None
    ) -> None:
        self._messages = request_iterator
        self._cancelled = asyncio.Event() if cancel_event is None else cancel_event
        self._is_over = False

    def __aiter__(self) -> gRPCInputStream[T]:
        return self

    async def __anext__(self) -> T:
        if not self._is_over and not self._cancelled.is_set():
            try:
                return await self._messages.__anext__()
            except StopAsyncIteration:
                pass
        self._is_over = True
        raise StopAsyncIteration

    def is_cancelled(self) -> bool:
        """Whether the client has gone, or ``cancel`` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have no further messages."""
        self._cancelled.set()

    @property
    def is_exhausted(self) -> bool:
        """Whether the end was reached."""
        return self._is_over


class RayServegRPCContext:
    """A call of gRPC, for a method with a parameter ``grpc_context``: what came with it, how it is to end.

    It has the methods of ``grpc.ServicerContext`` that need no connection.

    Args:
        grpc_context: Where the call's metadata and peer are read from.
    """

    def __init__(self, grpc_context: Any) -> None:
        self._auth_context = grpc_context.auth_context()
        self._code = grpc_context.code()
        self._details = grpc_context.details()
        self._metadata = list(grpc_context.invocation_metadata())
        self._peer = grpc_context.peer()
        self._peer_identities = grpc_context.peer_identities()
        self._peer_identity_key = grpc_context.peer_identity_key()
        self._trailing = list(grpc_context.trailing_metadata())
        self._compression: Any = None

    def _first(self, name: str) -> str | None:
        return next((value for key, value in self._metadata if key == name), None)

    def request_id(self) -> str | None:
        """The metadata ``request_id``, if the client sent one."""
        return self._first("request_id")

    def application(self) -> str | None:
        """The metadata ``application``, if the client sent one."""
        return self._first("application")

    def multiplexed_model_id(self) -> str | None:
        """The metadata ``multiplexed_model_id``, if the client sent one."""
        return self._first("multiplexed_model_id")

    def traceparent(self) -> str | None:
        """The metadata ``traceparent`` of W3C's Trace Context, if the client sent one."""
        return self._first("traceparent")

    def tracestate(self) -> str | None:
        """The metadata ``tracestate`` of W3C's Trace Context, if the client sent one."""
        return self._first("tracestate")

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """Return the metadata that the client sent, pairs of key and value."""
        return self._metadata

    def peer(self) -> str:
        """Return the address of the caller: ``ipv4:127.0.0.1:40000``."""
        return str(self._peer)

    def auth_context(self) -> dict[str, Any]:
        """Return the authentication of the caller; empty where the connection has none."""
        return dict(self._auth_context or {})

    def peer_identities(self) -> Any:
        """Return the identities of the caller, by ``peer_identity_key``; ``None`` where it has
        shown none.
        """
        return self._peer_identities

    def peer_identity_key(self) -> str | None:
        """By what who called is known."""
        key: str | None = self._peer_identity_key
        return key

    def code(self) -> Any:
        """The ``grpc.StatusCode`` that was set."""
        return self._code

    def set_code(self, code: Any) -> None:
        """Have the call end with that ``grpc.StatusCode``."""
        self._code = code

    def details(self) -> Any:
        """The text that was set."""
        return self._details

    def set_details(self, details: str) -> None:
        """Have the call's status say that."""
        self._details = details

    def set_compression(self, compression: Any) -> None:
        """Have answers compressed so: a ``grpc.Compression``."""
        self._compression = compression

    def trailing_metadata(self) -> list[tuple[str, str]]:
        """Return the metadata that goes to the client with the status."""
        return self._trailing

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str]]) -> None:
        """Have that go to the client with the status, besides the ``request_id``."""
        kept = [pair for pair in self._trailing if pair[0] == "request_id"]
        self._trailing = kept[:1] + list(trailing_metadata)
