"""The results of a deployment as HTTP answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

TEXT = ((b"content-type", b"text/plain; charset=utf-8"),)
PLAIN = ((b"content-type", b"text/plain"),)
JSON = ((b"content-type", b"application/json"),)


def answer_of(value: Any) -> tuple[Any, bytes]:
    """Headers and body: text and bytes as they are, everything else as JSON."""
    if value is None:
        return PLAIN, b""
    if isinstance(value, bytes):
        return PLAIN, value
    if isinstance(value, str):
        return TEXT, value.encode()
    return JSON, json.dumps(_plain(value), separators=(",", ":")).encode()


async def send_items(items: AsyncIterator[Any], send: Callable[[Any], Awaitable[None]]) -> None:
    """Answer with the items of a generator as they come: text and bytes as they are, others as lines of JSON.

    Raises what the generator raises; before its first item nothing was sent.
    """
    has_begun = False
    start = {"type": "http.response.start", "status": 200, "headers": TEXT}
    async for item in items:
        headers, body = answer_of(item)
        if not has_begun:
            has_begun = True
            await send(start)
        if headers is JSON:
            body += b"\n"
        await send({"type": "http.response.body", "body": body, "more_body": True})
    if not has_begun:
        await send(start)
    await send({"type": "http.response.body", "body": b""})


def _plain(value: Any) -> Any:
    """Return a value as JSON can write it. FastAPI's rules where it is installed: data classes,
    models, times.
    """
    if type(value) in (int, float, bool):
        return value
    try:
        from fastapi.encoders import jsonable_encoder
    except ImportError:
        return json.loads(json.dumps(value, default=_numpy))
    return jsonable_encoder(value, custom_encoder=_encoders(value))


def _encoders(_value: Any) -> dict[Any, Any]:
    import sys

    numpy = sys.modules.get("numpy")
    if numpy is None:
        return {}
    return {numpy.ndarray: lambda array: array.tolist(), numpy.generic: lambda one: one.item()}


def _numpy(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"{type(value).__name__} has no JSON; `pip install 'heliostat[serve]'` for FastAPI's encoders"
    )
