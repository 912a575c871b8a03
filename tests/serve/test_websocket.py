"""WebSockets through the ingress, spoken byte by byte: also what no well-behaved client says."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray
from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from ray import serve

from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 4}
# A deadline against a hang.
S = 60
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Wire:
    """A client's end of a connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=S)
        self.file = self.sock.makefile("rb")

    def ask(self, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        key = base64.b64encode(os.urandom(16)).decode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        usual = {
            "Host": "here",
            "Upgrade": "websocket",
            "Connection": "keep-alive, Upgrade",
            "Sec-WebSocket-Key": key,
            "Sec-WebSocket-Version": "13",
        }
        rows = [f"{name}: {value}" for name, value in {**usual, **given}.items()]
        self.sock.sendall("\r\n".join([f"GET {path} HTTP/1.1", *rows, "", ""]).encode())
        status = int(self.file.readline().split()[1])
        found = {}
        while (line := self.file.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            found[name.lower()] = value.strip()
        if status == 101:
            magic = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
            assert found["sec-websocket-accept"] == accept
        return status, found

    def say(self, kind: int, payload: bytes, *, final: bool = True, mask: bool = True) -> None:
        head = bytes([kind | (0x80 if final else 0)])
        flag = 0x80 if mask else 0
        if len(payload) < 126:
            head += bytes([flag | len(payload)])
        elif len(payload) < 1 << 16:
            head += bytes([flag | 126]) + struct.pack(">H", len(payload))
        else:
            head += bytes([flag | 127]) + struct.pack(">Q", len(payload))
        # A mask of zeros is a mask, and leaves the payload as it is.
        self.sock.sendall(head + (bytes(4) if mask else b"") + payload)

    def hear(self) -> tuple[int, bytes]:
        """The next frame; a connection that has ended is a close without a code."""
        head = self.file.read(2)
        if len(head) < 2:
            return CLOSE, b""
        length = head[1]
        if length == 126:
            [length] = struct.unpack(">H", self.file.read(2))
        elif length == 127:
            [length] = struct.unpack(">Q", self.file.read(8))
        return head[0] & 15, self.file.read(length)

    def code(self) -> int:
        """The code that the server closes with; what it says before is passed over."""
        while True:
            kind, payload = self.hear()
            if kind == CLOSE:
                return int.from_bytes(payload[:2], "big")


@contextmanager
def wire(web: Client, path: str = "", **headers: str) -> Iterator[Wire]:
    made = Wire(web.port)
    try:
        if path:
            assert made.ask(path, **headers)[0] == 101
        yield made
    finally:
        made.file.close()
        made.sock.close()


app = FastAPI()


@serve.deployment(max_ongoing_requests=100, ray_actor_options={"num_cpus": 0})
@serve.ingress(app)
class Sockets:
    def __init__(self) -> None:
        self.ended: list[int] = []
        self.news = asyncio.Event()

    @app.websocket("/echo")
    async def echo(self, ws: WebSocket) -> None:
        await ws.accept(subprotocol=(ws.scope["subprotocols"] or [None])[0])
        try:
            while True:
                message = await ws.receive()
                if message["type"] == "websocket.disconnect":
                    raise WebSocketDisconnect(message["code"])
                if message.get("text") is not None:
                    await ws.send_text(message["text"])
                else:
                    await ws.send_bytes(message["bytes"])
        except WebSocketDisconnect as gone:
            self.ended.append(gone.code)
            self.news.set()

    @app.websocket("/closes")
    async def closes(self, ws: WebSocket) -> None:
        await ws.accept()
        await ws.close(4001, "on purpose")

    @app.websocket("/refuses")
    async def refuses(self, ws: WebSocket) -> None:
        await ws.close()

    @app.websocket("/fails/{when}")
    async def fails(self, ws: WebSocket, when: str) -> None:
        if when == "after":
            await ws.accept()
        raise ValueError("on purpose")

    @app.websocket("/pid")
    async def pid(self, ws: WebSocket) -> None:
        await ws.accept()
        await ws.send_text(str(os.getpid()))
        await asyncio.get_running_loop().create_future()

    @app.get("/plain")
    def plain(self) -> str:
        return "here"

    async def next_end(self) -> list[int]:
        await self.news.wait()
        self.news.clear()
        return self.ended


@pytest.mark.contract("F12.04")
def test_messages_go_both_ways(web: Client) -> None:
    handle = serve.run(Sockets.bind(), route_prefix="/ws")
    with wire(web) as one:
        status, headers = one.ask("/ws/echo", Sec_WebSocket_Protocol="chat, other")
        assert (status, headers["sec-websocket-protocol"]) == (101, "chat")
        for kind, payload in (
            (TEXT, "é".encode()),
            (BINARY, b"\x00\xff"),
            (TEXT, b""),
            (BINARY, os.urandom(5 << 20)),  # more than is on its way at a time
        ):
            one.say(kind, payload)
            assert one.hear() == (kind, payload)
        one.say(TEXT, b"in ", final=False)
        one.say(PING, b"?")
        one.say(0, b"parts")
        assert {one.hear(), one.hear()} == {(PONG, b"?"), (TEXT, b"in parts")}
        one.say(CLOSE, struct.pack(">H", 4000) + b"bye")
        assert one.code() == 4000
    assert handle.next_end.remote().result(timeout_s=S) == [4000]
    assert web.get("/ws/plain").json() == "here"


@pytest.mark.contract("F12.04")
def test_an_application_closes_refuses_and_fails(web: Client) -> None:
    serve.run(Sockets.bind())
    with wire(web, "/closes") as one:
        assert one.hear() == (CLOSE, struct.pack(">H", 4001) + b"on purpose")
    with wire(web) as one:
        assert one.ask("/refuses")[0] == 403
    with wire(web) as one:
        assert one.ask("/fails/before")[0] == 500
    with wire(web, "/fails/after") as one:
        assert one.code() == 1011
    with wire(web) as one:
        assert one.ask("/none")[0] in (403, 404)

    @serve.deployment(ray_actor_options={"num_cpus": 0})
    def plain(_request: Any) -> str:
        return "here"

    serve.run(plain.bind(), name="plain", route_prefix="/plain-app")
    with wire(web) as one:
        assert one.ask("/plain-app")[0] == 403


@pytest.mark.contract("F12.04")
def test_a_client_that_breaks_the_protocol_is_closed(web: Client) -> None:
    handle = serve.run(Sockets.bind())
    with wire(web) as one:
        status, headers = one.ask("/echo", Sec_WebSocket_Version="12")
        assert (status, headers["sec-websocket-version"]) == (426, "13") or status == 400
    with wire(web, "/echo") as neighbour:
        for kind, payload, mask, code in (
            (TEXT, b"unmasked", False, 1002),
            (3, b"no such kind", True, 1002),
            (0, b"nothing begun", True, 1002),
            (PING, b"x" * 126, True, 1002),  # too long for a ping
            (TEXT, b"\xff", True, 1007),
        ):
            with wire(web, "/echo") as one:
                one.say(kind, payload, mask=mask)
                assert one.code() == code, payload
            assert handle.next_end.remote().result(timeout_s=S)
        with wire(web, "/echo") as one:  # a length of 2**62
            one.sock.sendall(b"\x82\xff" + (1 << 62).to_bytes(8, "big") + bytes(4))
            assert one.code() == 1009
        assert handle.next_end.remote().result(timeout_s=S)
        with wire(web, "/echo") as one:
            one.sock.sendall(b"\x81")  # and gone in the middle of a frame
        assert handle.next_end.remote().result(timeout_s=S)[-1] == 1006
        neighbour.say(TEXT, b"unharmed")
        assert neighbour.hear() == (TEXT, b"unharmed")


@pytest.mark.contract("F12.04")
def test_clients_hear_of_the_end_of_their_replica(web: Client) -> None:
    # Its socket never hears of the client's end, and would be waited for.
    serve.run(Sockets.options(graceful_shutdown_timeout_s=0).bind())
    with wire(web, "/pid") as one:
        kind, pid = one.hear()
        assert kind == TEXT
        os.kill(int(pid), 9)
        # Ray's proxy says 1012 or just ends.
        assert one.code() in (0, 1006, 1011, 1012)
    with wire(web, "/pid") as one:
        assert one.hear()[1] != pid
    assert ray.is_initialized()
