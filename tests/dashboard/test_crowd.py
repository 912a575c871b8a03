"""Many who ask at once are all answered."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05"),
    pytest.mark.heliostat_only("Ray's dashboard is another program"),
]

READERS = 1000
# A deadline against a hang.
ANSWERS_S = 120


async def ask(port: int, path: str, token: str, begin: asyncio.Event) -> str:
    """The status of an answer, to one who connects with all the others."""
    await begin.wait()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        await writer.drain()
        return (await reader.read()).split(b" ", 2)[1].decode()
    finally:
        writer.close()


async def crowd(head: Head, path: str) -> Counter[str]:
    begin = asyncio.Event()
    readers = [
        asyncio.create_task(ask(head.web_port, path, head.token, begin)) for _ in range(READERS)
    ]
    begin.set()
    return Counter(await asyncio.wait_for(asyncio.gather(*readers), ANSWERS_S))


@pytest.mark.parametrize(
    "path", ["/api/gcs_healthz", "/nodes?view=summary", "/api/v0/tasks", "/api/v0/nodes"]
)
def test_a_thousand_who_ask_at_once_are_all_answered(head: Head, path: str) -> None:
    assert asyncio.run(crowd(head, path)) == {"200": READERS}
