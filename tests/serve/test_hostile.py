"""Clients that are slow, wrong, or many: they get no more than their share, and others are served."""

from __future__ import annotations

import asyncio
import re
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from ray import serve
from starlette.requests import Request

from tests.helpers.harness import free_port
from tests.helpers.serving import Client, ingress_pid

CLUSTER = {"num_cpus": 4}
# A deadline against a hang.
S = 60
IDLE = 3000

pytestmark = pytest.mark.heliostat_only("Ray's proxy is another program, and has other limits")


@serve.deployment(max_ongoing_requests=2, ray_actor_options={"num_cpus": 0})
class Target:
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, request: Request) -> Any:
        self.seen.append(f"{request.method} {request.url.path}")
        if request.url.path == "/large":
            return b"x" * (64 << 20)
        return f"{len(await request.body())}"

    def requests(self) -> list[str]:
        return self.seen


async def sink(scope: Any, receive: Any, send: Any) -> None:
    """Accepts WebSockets and takes what they say."""
    assert scope["type"] == "websocket"
    await send({"type": "websocket.accept"})
    while (await receive())["type"] != "websocket.disconnect":
        pass


@serve.deployment(max_ongoing_requests=10, ray_actor_options={"num_cpus": 0})
@serve.ingress(sink)
class Sink:
    pass


class Raw:
    """A connection on which anything may be said."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=S)

    def say(self, *lines: str, end: str = "\r\n\r\n") -> None:
        self.sock.sendall(("\r\n".join(lines) + end).encode("latin1"))

    def hear(self) -> bytes:
        """All that comes until the server ends the connection."""
        found = bytearray()
        try:
            while data := self.sock.recv(1 << 16):
                found += data
        except ConnectionError:
            pass
        return bytes(found)

    def hear_or_fail(self) -> None:
        """Raise ``ConnectionError`` when the server ends the connection."""
        self.hear()
        raise ConnectionResetError

    def statuses(self) -> list[int]:
        """Of the answers until the server ends the connection."""
        return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+) ", self.hear())]


@pytest.fixture
def strict(ray_start: Any) -> Iterator[Client]:
    """Serve runs and has little patience."""
    port = free_port()
    serve.start(http_options={"port": port, "keep_alive_timeout_s": 1})
    yield Client(port)
    serve.shutdown()


@contextmanager
def raw(web: Client) -> Iterator[Raw]:
    made = Raw(web.port)
    try:
        yield made
    finally:
        made.sock.close()


def memory_mb() -> float:
    """What the ingress has of the machine's memory."""
    with open(f"/proc/{ingress_pid()}/status") as file:
        [kib] = [line.split()[1] for line in file if line.startswith("VmRSS")]
    return int(kib) / 1024


def is_writable(sock: socket.socket) -> bool:
    """Whether there is room within a moment."""
    return bool(select.select([], [sock], [], 1)[1])


def trickle(one: Raw, *, byte: bytes = b"x") -> None:
    """A byte now and then, until the server has had enough."""
    deadline = time.monotonic() + S
    one.sock.settimeout(0.05)
    with pytest.raises(ConnectionError):
        while time.monotonic() < deadline:
            one.sock.sendall(byte)
            try:
                if one.sock.recv(1 << 16) == b"":
                    raise ConnectionResetError
            except TimeoutError:
                pass


@pytest.mark.contract("F12.04", "F12.09")
def test_heads_that_never_end_hold_nobody_up(strict: Client) -> None:
    handle = serve.run(Target.bind())
    with ExitStack() as stack:
        slow = [stack.enter_context(raw(strict)) for _ in range(100)]
        for one in slow:
            one.say("GET / HTTP/1.1", "Host: here", "x-slow: ", end="")
        assert strict.get("/").text == "0"
        # A byte that comes in time is no head that comes in time.
        trickle(slow[0])
        for one in slow[1:]:
            one.hear()
    assert handle.requests.remote().result(timeout_s=S) == ["GET /"]


@pytest.mark.contract("F12.04", "F12.09")
@pytest.mark.parametrize("length", [1000, 1 << 20])
def test_bodies_that_trickle_hold_nobody_up(strict: Client, length: int) -> None:
    serve.run(Target.bind())
    with ExitStack() as stack:
        slow = [stack.enter_context(raw(strict)) for _ in range(20)]
        for one in slow:
            one.say("POST / HTTP/1.1", "Host: here", f"Content-Length: {length}")
        # Small bodies are awaited before a replica is asked; larger ones are given up, with their place.
        assert strict.get("/").text == "0"
        trickle(slow[0])
        for one in slow[1:]:
            assert one.statuses() == [408]
    assert strict.get("/").text == "0"


@pytest.mark.contract("F12.04", "F12.09")
def test_chunks_that_do_not_come_are_given_up(strict: Client) -> None:
    serve.run(Target.bind())
    with ExitStack() as stack:
        slow = [stack.enter_context(raw(strict)) for _ in range(10)]
        for one in slow:
            one.say("POST / HTTP/1.1", "Host: here", "Transfer-Encoding: chunked")
            one.say("3", "abc", end="\r\n")
        # They have all places of the replica until then.
        assert strict.get("/").text == "0"
        assert [one.statuses() for one in slow] == [[408]] * 10


@pytest.mark.contract("F12.04")
@pytest.mark.parametrize(
    "body", ["zz\r\nabc\r\n", "-1\r\nabc\r\n", "3\r\nabcdef\r\n", "3\r\nabc\r\nzz\r\n"]
)
def test_chunks_that_are_none_are_the_clients_fault(web: Client, body: str) -> None:
    serve.run(Target.bind())
    with raw(web) as one:
        one.say("POST / HTTP/1.1", "Host: here", "Transfer-Encoding: chunked")
        one.say(body, end="")
        assert one.statuses() == [400]


@pytest.mark.heliostat_only("Ray's server is Python")
def test_the_memory_of_a_crowd_is_given_back(web: Client) -> None:
    serve.run(Target.bind())
    pid = ingress_pid()

    def kb() -> int:
        text = Path(f"/proc/{pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if "VmRSS" in line))

    web.get("/")
    before, peaks = kb(), []
    for _ in range(2):
        with ExitStack() as stack:
            crowd = [stack.enter_context(raw(web)) for _ in range(800)]
            for one in crowd:
                one.say("GET /-/healthz HTTP/1.1", "Host: here")
            for one in crowd:
                assert one.sock.recv(1 << 16)
            peaks.append(kb())
        # Each held some 17 kB; a third of that at most is left once they have gone.
        deadline = time.monotonic() + S
        while kb() - before > (peaks[0] - before) / 3:
            assert time.monotonic() < deadline, (before, peaks, kb())
            time.sleep(0.05)


@pytest.mark.contract("F12.04", "F12.09")
def test_answers_that_nobody_takes_are_given_up(strict: Client) -> None:
    serve.run(Target.bind())
    with ExitStack() as stack:
        for _ in range(6):
            one = stack.enter_context(raw(strict))
            one.say("GET /large HTTP/1.1", "Host: here")
        # Three times as many as the replica has places.
        assert strict.get("/").text == "0"
        assert memory_mb() < 256


@pytest.mark.contract("F12.04")
def test_heads_that_are_too_large_are_refused(web: Client) -> None:
    handle = serve.run(Target.bind())
    assert web.get("/", {"x-fits": "x" * 30_000}).status == 200
    for lines, status in (
        (["GET / HTTP/1.1", "Host: here", "x-large: " + "x" * 200_000], 431),
        (["GET / HTTP/1.1", "Host: here", *(f"x-{number}: 1" for number in range(1000))], 431),
        (["GET /" + "x" * 100_000 + " HTTP/1.1", "Host: here"], 414),
    ):
        with raw(web) as one:
            with suppress(OSError):  # it has heard enough
                one.say(*lines)
            assert one.statuses() in ([status], [431], [])
    with raw(web) as one, pytest.raises(ConnectionError):
        one.say("GET / HTTP/1.1", "Host: here", end="\r\n")
        for _ in range(1000):
            one.say("x-more: " + "x" * 10_000, end="\r\n")
    assert web.get("/").text == "0"
    assert set(handle.requests.remote().result(timeout_s=S)) == {"GET /"}


CHUNKED = ("POST / HTTP/1.1", "Host: here", "Transfer-Encoding: chunked")
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: here\r\n\r\n"


# Lines of a head, what follows it, and the status of the answers; None: an error or none.
TWO_MEANINGS: list[tuple[list[str], str, int | None]] = [
    # Two lengths: what one server takes for a body is a request to the other.
    ([*CHUNKED, "Content-Length: 4"], "0\r\n\r\n", 400),
    (["POST / HTTP/1.1", "Host: here", "Content-Length: 5", CHUNKED[2]], "0\r\n\r\n", 400),
    ([*CHUNKED[:2], "Content-Length: 0", "Content-Length: 44"], "", 400),
    ([*CHUNKED[:2], "Content-Length: 0, 44"], "", 400),
    ([*CHUNKED[:2], "Content-Length: +0"], "", 400),
    ([*CHUNKED[:2], "Content-Length: 0x0"], "", 400),
    ([*CHUNKED[:2], "Content-Length: -1"], "", 400),
    ([*CHUNKED[:2], "Content-Length: 99999999999999999999"], "", 400),
    # Codings that one server knows and the other does not.
    ([*CHUNKED[:2], "Transfer-Encoding: xchunked"], "0\r\n\r\n", 400),
    ([*CHUNKED[:2], "Transfer-Encoding: chunked, identity"], "0\r\n\r\n", 400),
    ([*CHUNKED[:2], "Transfer-Encoding: gzip, chunked"], "0\r\n\r\n", 501),
    ([*CHUNKED, "Transfer-Encoding: identity"], "0\r\n\r\n", 400),
    ([*CHUNKED, "Transfer-Encoding: chunked"], "0\r\n\r\n", 501),
    (["POST / HTTP/1.0", "Transfer-Encoding: chunked"], "0\r\n\r\n", 400),
    # Names that one server trims and the other does not.
    ([*CHUNKED[:2], "Transfer-Encoding : chunked"], "0\r\n\r\n", 400),
    ([*CHUNKED[:2], " Transfer-Encoding: chunked"], "0\r\n\r\n", 400),
    ([*CHUNKED[:2], "x: y\r\n Content-Length: 44"], "", 400),
    ([*CHUNKED[:2], "Content-Length\x00: 44"], "", 400),
    ([*CHUNKED[:2], "x: y\rContent-Length: 44"], "", 400),
    # Whose request it is.
    (["POST / HTTP/1.1", "Host: here", "Host: there"], "", 400),
    (["POST / HTTP/1.1"], "", 400),
    (["CONNECT elsewhere:80 HTTP/1.1", "Host: elsewhere"], "", 405),
    # Chunks that are none: there is an answer or there is none, and nothing after it.
    ([*CHUNKED], "zz\r\nabc\r\n0\r\n\r\n", None),
    ([*CHUNKED], "-1\r\nabc\r\n0\r\n\r\n", None),
    ([*CHUNKED], "3\r\nabcdef\r\n0\r\n\r\n", None),
    ([*CHUNKED], "ffffffffffffffffff\r\nabc\r\n0\r\n\r\n", None),
    ([*CHUNKED], "3;" + "x" * 100_000 + "\r\nabc\r\n0\r\n\r\n", None),
    ([*CHUNKED], "0\r\n" + "x: y\r\n" * 10_000 + "\r\n", None),
]


@pytest.mark.contract("F12.04")
def test_what_has_two_meanings_is_refused(web: Client) -> None:
    handle = serve.run(Target.bind())
    heard: list[int] = []
    for lines, body, status in TWO_MEANINGS:
        is_tunnel = lines[0].startswith("CONNECT")
        with raw(web) as one:
            with suppress(OSError):  # it has heard enough
                one.say(*lines, end="\r\n\r\n" + body + ("" if is_tunnel else SMUGGLED))
                if not is_tunnel:
                    one.sock.shutdown(socket.SHUT_WR)
            found = one.statuses()
        heard += found
        if status is None:
            assert all(one >= 400 for one in found), lines
        elif is_tunnel:
            assert found == [status]
        else:
            # A reset may overtake the answer, and a client that ends its half first may count as gone.
            assert found in ([status], []), lines
    assert set(heard) >= {400, 405, 501}
    seen = handle.requests.remote().result(timeout_s=S)
    assert "GET /smuggled" not in seen, seen
    assert web.get("/").status == 200


@pytest.mark.contract("F12.04")
def test_nothing_follows_a_chunked_body(web: Client) -> None:
    handle = serve.run(Target.bind())
    with raw(web) as one:
        one.say(*CHUNKED)
        one.say("3", "abc", "0", "", SMUGGLED, end="")
        heard = one.hear()
    assert heard.endswith(b"3")
    assert b"connection: close" in heard
    assert "GET /smuggled" not in handle.requests.remote().result(timeout_s=S)
    with raw(web) as one:  # what has a length may be followed
        one.say("POST / HTTP/1.1", "Host: here", "Content-Length: 3", end="\r\n\r\nabc")
        one.say("GET / HTTP/1.1", "Host: here", "Connection: close")
        assert one.statuses() == [200, 200]


@pytest.mark.contract("F12.04")
def test_who_closes_one_half_in_a_request_has_gone_away(web: Client) -> None:
    serve.run(Target.bind())
    for _ in range(20):
        with raw(web) as one:  # in the middle of a head
            one.say("GET / HTTP/1.1", "Host: here", end="\r\n")
            one.sock.shutdown(socket.SHUT_WR)
            assert one.statuses() in ([], [400])
        with raw(web) as one:  # in the middle of a body
            one.say("POST / HTTP/1.1", "Host: here", "Content-Length: 1000000")
            one.sock.shutdown(socket.SHUT_WR)
            assert one.statuses() in ([], [408])
        with raw(web) as one:  # a reset
            one.say("POST / HTTP/1.1", "Host: here", "Transfer-Encoding: chunked")
            one.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with raw(web) as one:  # nothing more is read
            one.say("GET / HTTP/1.1", "Host: here")
            one.sock.shutdown(socket.SHUT_RD)
    # The replica has two places: had any of these kept one, nothing would be answered.
    assert [web.get("/").text for _ in range(5)] == ["0"] * 5


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Waits:
    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.go = asyncio.Event()

    async def __call__(self, request: Request) -> str:
        self.begun += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return f"answered {len(await request.body())}"

    async def counts(self) -> tuple[int, int]:
        return self.begun, self.cancelled

    async def let_go(self) -> None:
        self.go.set()


@pytest.mark.contract("F12.04")
def test_who_ends_its_half_has_its_answer(web: Client) -> None:
    handle = serve.run(Waits.bind())

    def until(counts: tuple[int, int]) -> None:
        deadline = time.monotonic() + S
        while (found := handle.counts.remote().result(timeout_s=S)) != counts:
            assert time.monotonic() < deadline, found

    with raw(web) as gone:  # the whole connection ends: nobody waits
        gone.say("GET / HTTP/1.1", "Host: here")
        until((1, 0))
    until((1, 1))
    with raw(web) as gone:  # before it is begun
        gone.say("GET / HTTP/1.1", "Host: here")
        gone.sock.shutdown(socket.SHUT_WR)
        until((2, 1))
    until((2, 2))
    with raw(web) as get, raw(web) as post:
        get.say("GET / HTTP/1.1", "Host: here")
        post.say("POST / HTTP/1.1", "Host: here", "Content-Length: 3", end="\r\n\r\nabc")
        for one in (get, post):
            one.sock.shutdown(socket.SHUT_WR)
        until((4, 2))
        handle.let_go.remote().result(timeout_s=S)
        for one, length in ((get, 0), (post, 3)):
            heard = one.hear()
            # An interim answer asks whether somebody is there.
            assert heard.startswith(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n"), heard
            assert b"connection: close" in heard
            assert heard.endswith(f"answered {length}".encode())


@pytest.mark.contract("F12.04", "F12.09")
def test_idle_connections_cost_little_and_are_closed(ray_start: Any) -> None:
    port = free_port()
    serve.start(http_options={"port": port, "keep_alive_timeout_s": 20})
    web = Client(port)
    try:
        serve.run(Target.bind())
        assert web.get("/").text == "0"
        before = memory_mb()
        with ExitStack() as stack:
            idle = [stack.enter_context(raw(web)) for _ in range(IDLE)]
            for number, one in enumerate(idle):
                if number % 3 == 1:  # a head that does not end
                    one.say("GET / HTTP/1.1", "Host: here", "x-long: " + "x" * 2000, end="")
                elif number % 3 == 2:  # a request, then nothing
                    one.say("GET /-/healthz HTTP/1.1", "Host: here")
                    assert b"success" in one.sock.recv(1 << 16)
            assert [web.get("/").text for _ in range(5)] == ["0"] * 5
            assert memory_mb() - before < IDLE * 32 / 1024  # 32 KiB each
            assert not any(one.hear().startswith(b"HTTP/1.1 2") for one in idle)
        assert web.get("/").text == "0"
    finally:
        serve.shutdown()


@pytest.mark.contract("F12.04")
def test_frames_without_end_do_not_fill_the_memory(web: Client) -> None:
    serve.run(Sink.bind())
    before = memory_mb()
    upgrade = (
        "GET / HTTP/1.1",
        "Host: here",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    mask = bytes(4)
    large = b"\x02\xff" + (1 << 20).to_bytes(8, "big") + mask + bytes(1 << 20)
    more = b"\x00" + large[1:]
    with raw(web) as one:  # a message of 64 MiB in parts: 16 MiB are the most
        one.say(*upgrade)
        assert b" 101 " in one.sock.recv(1 << 16)
        with pytest.raises(ConnectionError):
            one.sock.sendall(large)
            for _ in range(63):
                one.sock.sendall(more)
            one.hear_or_fail()
    with raw(web) as one:  # pings whose answers nobody reads, for longer than buffers last
        one.say(*upgrade)
        assert b" 101 " in one.sock.recv(1 << 16)
        ping = b"\x89\xfd" + mask + bytes(125)
        one.sock.setblocking(False)
        sent = 0
        while sent < 200_000 and is_writable(one.sock):
            sent += one.sock.send(ping * 100) // len(ping)
        assert memory_mb() - before < 64
    for said in (b"\xff" * 4096, b"\x81", bytes(range(256)) * 16, b"\x88\x80" + mask + b"\x88"):
        with raw(web) as one:
            one.say(*upgrade)
            assert b" 101 " in one.sock.recv(1 << 16)
            one.sock.sendall(said)
            one.sock.shutdown(socket.SHUT_WR)
            one.hear()
    assert web.get("/-/healthz").text == "success"
    with raw(web) as one:
        one.say(*upgrade)
        assert b" 101 " in one.sock.recv(1 << 16)
