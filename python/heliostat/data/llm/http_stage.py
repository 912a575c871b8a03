"""Requests to a service, one for each row."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.data.llm.stages import Loop, Stage

if TYPE_CHECKING:
    from types import ModuleType

    import aiohttp

    from heliostat.data.aliases import Row


AGAIN = (408, 429, 502, 503, 504)  # statuses after which a request is sent again
SAID_MAX = 500  # letters of an answer that an error shows
WHO = "Requests of ray.data.llm"


class HttpRequestStage(Stage):
    """Sends the payload of each row.

    Args:
        url: Where.
        headers: Of the requests.
        interval_s: Between two requests of this worker, which then are under way together; None: one after
            the other.
        retries_max: How often a request is sent again.
        wait_s: Before that, the first time; it doubles.
        session: Makes an ``aiohttp.ClientSession``.
    """

    needs = ("payload",)

    def __init__(
        self,
        url: str,
        headers: dict[str, object] | None,
        interval_s: float | None,
        retries_max: int,
        wait_s: float,
        session: Callable[[], aiohttp.ClientSession] | None,
    ) -> None:
        self._url, self._headers, self._interval_s = url, dict(headers or {}), interval_s
        self._retries_max, self._wait_s = retries_max, wait_s
        self._session = session or required("aiohttp", WHO, "llm").ClientSession
        self._next = 0.0  # when the next request may go
        self._loop = Loop()

    async def change(self, rows: list[Row]) -> Iterable[Row]:
        """The answer to each."""
        found: list[Row] = await self._loop.wait(self._all(rows))
        return found

    async def _all(self, rows: list[Row]) -> list[Row]:
        async with self._session() as session:
            if self._interval_s is None:
                return [await self._answer(session, row["payload"]) for row in rows]
            return list(
                await asyncio.gather(*(self._answer(session, row["payload"]) for row in rows))
            )

    async def _turn(self) -> None:
        """Wait until one more request may go. Those that are sent again count, too."""
        if self._interval_s is None:
            return
        now = time.monotonic()
        at = max(now, self._next)
        self._next = at + self._interval_s
        await asyncio.sleep(at - now)

    async def _answer(self, session: aiohttp.ClientSession, payload: object) -> Row:
        client = required("aiohttp", WHO, "llm")
        broken = (client.ClientConnectionError, client.ClientPayloadError, asyncio.TimeoutError)
        why = ""
        for attempt in range(self._retries_max + 1):
            if attempt:
                await asyncio.sleep(self._wait_s * 2 ** (attempt - 1))
            await self._turn()
            body, headers = self._request(client, payload)
            try:
                async with session.post(self._url, data=body, headers=headers) as answer:
                    if answer.status in AGAIN:
                        why = f"{answer.status} {answer.reason}"
                        continue
                    text = await answer.text()
            except broken as error:
                why = f"{type(error).__name__}: {error}"
                continue
            try:
                return {"http_response": json.loads(text)}
            except ValueError:
                raise RuntimeError(
                    f"{self._url} answered {answer.status} with text that is not JSON: {text[:SAID_MAX]!r}"
                ) from None
        raise RuntimeError(
            f"Reached maximum retries of {self._retries_max} for input row {payload!r}. "
            f"Previous Exception: {why}"
        )

    def _request(
        self, client: ModuleType, payload: object
    ) -> tuple[str | aiohttp.FormData, dict[str, object]]:
        """(body, headers): a form where there are files, else JSON."""
        if not (isinstance(payload, dict) and any(map(_is_file, payload.values()))):
            given = {"Content-Type": "application/json", **self._headers}
            return json.dumps(payload, default=_plain), given
        form = client.FormData()
        for name, value in payload.items():
            if isinstance(value, dict) and "content" in value:
                form.add_field(
                    name,
                    value["content"],
                    filename=value.get("filename", name),
                    content_type=value.get("content_type"),
                )
            elif isinstance(value, (bytes, bytearray)):
                form.add_field(name, bytes(value), filename=name)
            else:
                said = value if isinstance(value, str) else json.dumps(value, default=_plain)
                form.add_field(name, said)
        # The boundary says which kind a form is.
        given = {k: v for k, v in self._headers.items() if k.lower() != "content-type"}
        return form, given


def _is_file(value: object) -> bool:
    return isinstance(value, (bytes, bytearray)) or (isinstance(value, dict) and "content" in value)


def _plain(value: object) -> object:
    """Return a value that JSON does not know as one that it knows."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")
