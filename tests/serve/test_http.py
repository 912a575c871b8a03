"""Requests over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import queue
import select
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from ray import serve
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

from tests.helpers.harness import IS_HELIOSTAT, free_port
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}


@pytest.mark.contract("F12.01", "F12.02", "F12.04")
def test_an_answer_is_what_the_deployment_returns(web: Client) -> None:
    @serve.deployment
    class Echo:
        async def __call__(self, request: Request) -> Any:
            kind = request.query_params["kind"]
            return {
                "text": "é",
                "bytes": b"\x00\xff",
                "none": None,
                "json": {"path": request.url.path, "numbers": [1, 2.5]},
                "response": JSONResponse({"a": 1}, status_code=418, headers={"x-a": "b"}),
            }[kind]

    serve.run(Echo.bind(), route_prefix="/echo")
    text = web.get("/echo?kind=text")
    assert (text.status, text.text, text.headers["content-type"]) == (
        200,
        "é",
        "text/plain; charset=utf-8",
    )
    assert web.get("/echo?kind=bytes").body == b"\x00\xff"
    assert web.get("/echo?kind=none").body == b""
    found = web.get("/echo/a%20b?kind=json")
    assert found.json() == {"path": "/echo/a b", "numbers": [1, 2.5]}
    assert found.headers["content-type"] == "application/json"
    teapot = web.get("/echo?kind=response")
    assert (teapot.status, teapot.json(), teapot.headers["x-a"]) == (418, {"a": 1}, "b")


@pytest.mark.contract("F12.02", "F12.04")
def test_prefixes_lead_to_applications(web: Client) -> None:
    @serve.deployment
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self) -> str:
            return self.name

    # Not ready until there is an application; afterwards it is, whatever becomes of that.
    assert [web.get(path).status for path in ("/-/healthz", "/-/routes", "/a")] == [503, 503, 404]
    serve.run(Named.bind("a"), name="a", route_prefix="/a")
    serve.run(Named.bind("ab"), name="ab", route_prefix="/a/b")
    serve.run(Named.bind("hidden"), name="hidden", route_prefix=None)
    assert web.get("/-/routes").json() == {"/a": "a", "/a/b": "ab"}
    assert web.get("/-/healthz").text == "success"
    found = [web.get(path).text for path in ("/a", "/a/x", "/a/b", "/a/b/c", "/a/bc")]
    assert found == ["a", "a", "ab", "ab", "a"]
    assert web.get("/ab").status == 404
    with pytest.raises(RayServeException, match="'a'"):
        serve.run(Named.bind("c"), name="c", route_prefix="/a")
    serve.delete("a")
    assert web.get("/a").status == 404
    assert web.get("/a/b").text == "ab"
    assert set(serve.status().applications) == {"ab", "hidden"}


@pytest.mark.contract("F12.04")
def test_a_request_that_raises_is_answered_500(web: Client) -> None:
    @serve.deployment
    async def broken(request: Request) -> str:
        if request.url.path == "/well":
            return "well"
        raise KeyError("no")

    serve.run(broken.bind())
    assert web.get("/").status == 500
    assert web.get("/").text == "Internal Server Error"
    assert web.get("/well").text == "well"


@pytest.mark.contract("F12.04")
def test_requests_have_ids(web: Client) -> None:
    @serve.deployment
    async def show(request: Request) -> str:
        return request.headers["x-request-id"]

    serve.run(show.bind())
    given = web.get("/", {"x-request-id": "mine"})
    assert (given.text, given.headers["x-request-id"]) == ("mine", "mine")
    one, other = web.get("/"), web.get("/")
    assert one.text == one.headers["x-request-id"]
    assert one.text != other.text


@pytest.mark.contract("F12.04")
@pytest.mark.parametrize("size", [0, 1, 100_000, 10 << 20])
def test_bodies_come_back_whole(web: Client, size: int) -> None:
    @serve.deployment
    async def echo(request: Request) -> bytes:
        return await request.body()

    serve.run(echo.bind())
    body = os.urandom(size)
    answer = web.ask("POST", "/", body)
    assert (answer.status, answer.headers["content-length"]) == (200, str(size))
    assert answer.body == body
    pieces = [body[at : at + 300_000] for at in range(0, size, 300_000)]
    assert web.ask("POST", "/", iter(pieces)).body == body  # chunked: of no length that is known


@pytest.mark.contract("F12.04")
def test_a_stream_arrives_while_it_is_made(web: Client, tmp_path: Path) -> None:
    @serve.deployment
    class Stream:
        def __init__(self) -> None:
            self.go = asyncio.Event()

        async def __call__(self, request: Request) -> Any:
            if request.url.path == "/go":
                self.go.set()
                return "went"

            async def items() -> Any:
                yield b"fir"
                yield b"st"  # goes with the one before or after it, not with the end
                await self.go.wait()
                for number in range(300_000):
                    yield b"%06d" % number
                yield b"last"

            async def holds_up_the_loop() -> Any:
                yield b"first"
                with open(fifo) as file:
                    file.read()
                yield b"second"

            return StreamingResponse(items() if request.url.path == "/" else holds_up_the_loop())

    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    serve.run(Stream.bind())
    link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    link.request("GET", "/")
    answer = link.getresponse()
    begin = answer.read1()
    while len(begin) < 5:
        begin += answer.read1()
    assert begin == b"first"
    # Only now is the rest made: an answer that is kept back until it is whole would hang here.
    assert web.get("/go").text == "went"
    # More than is on its way at a time, in short pieces.
    assert answer.read() == b"".join(b"%06d" % number for number in range(300_000)) + b"last"
    link.request("GET", "/held")
    answer = link.getresponse()
    assert answer.read1() == b"first"
    with open(fifo, "w"):
        pass
    assert answer.read() == b"second"
    link.close()


@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray answers a generator with nothing")
@pytest.mark.contract("F12.04")
def test_what_a_generator_yields_is_streamed(web: Client) -> None:
    @serve.deployment
    class Yields:
        def __init__(self) -> None:
            self.go = threading.Event()

        def __call__(self, request: Request) -> Any:
            if request.url.path == "/go":
                self.go.set()
                return "went"
            if request.url.path == "/returned":

                async def items() -> Any:
                    yield {"a": 1}
                    yield [2]

                return items()
            if request.url.path == "/bad":
                return (1 // number for number in (0, 1))
            return self.numbers()

        def numbers(self) -> Any:
            yield "é"
            self.go.wait()
            yield b"\xff"

    @serve.deployment
    class Itself:
        async def __call__(self) -> Any:
            for number in range(3):
                yield str(number)

    serve.run(Yields.bind())
    link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    link.request("GET", "/")
    answer = link.getresponse()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.read1() == "é".encode()
    assert web.get("/go").text == "went"
    assert answer.read() == b"\xff"
    link.close()
    assert web.get("/returned").text == '{"a":1}\n[2]\n'
    assert web.get("/bad").status == 500
    serve.run(Itself.bind())
    assert web.get("/").text == "012"


@pytest.mark.contract("F12.04")
def test_who_goes_away_has_the_request_cancelled(web: Client) -> None:
    @serve.deployment(max_ongoing_requests=10)
    class Waits:
        def __init__(self) -> None:
            self.begun = asyncio.Event()
            self.cancelled = asyncio.Event()

        async def __call__(self, request: Request) -> str:
            if request.url.path == "/wait":
                self.begun.set()
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            await (self.begun if request.url.path == "/begun" else self.cancelled).wait()
            return request.url.path

    serve.run(Waits.bind())
    link = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    link.request("GET", "/wait")
    assert web.get("/begun").text == "/begun"
    link.close()
    assert web.get("/cancelled").text == "/cancelled"


@pytest.mark.contract("F12.01", "F12.04")
def test_too_many_waiting_requests_are_answered_503(web: Client) -> None:
    @serve.deployment(
        max_ongoing_requests=1, max_queued_requests=1, graceful_shutdown_timeout_s=0.1
    )
    async def hangs(request: Request) -> None:
        await asyncio.get_running_loop().create_future()

    serve.run(hangs.bind())
    answers: queue.Queue[int] = queue.Queue()
    threads = [threading.Thread(target=lambda: answers.put(web.get("/").status)) for _ in range(5)]
    for thread in threads:
        thread.start()
    # One is at the replica and one waits; for the others there is no room.
    assert [answers.get(timeout=60) for _ in range(3)] == [503] * 3
    serve.delete("default")
    # Neither of the two hangs; the one whose replica ended finds no other.
    assert [answers.get(timeout=60) for _ in range(2)] == [503, 503]
    for thread in threads:
        thread.join(60)


@pytest.mark.contract("F12.09")
def test_requests_that_take_too_long_are_answered_408(ray_start: Any) -> None:
    port = free_port()
    serve.start(http_options={"port": port, "request_timeout_s": 0.2})

    @serve.deployment
    async def hangs(request: Request) -> None:
        await asyncio.get_running_loop().create_future()

    serve.run(hangs.bind())
    answer = Client(port).get("/")
    assert answer.status == 408
    assert "request_timeout_s" in answer.text
    serve.shutdown()


@pytest.mark.contract("F12.04")
def test_fastapi_answers_with_methods_of_the_class(web: Client) -> None:
    app = FastAPI()

    @app.get("/outside/{number}")
    def outside(number: int) -> dict[str, int]:
        return {"number": number}

    @serve.deployment
    @serve.ingress(app)
    class Api:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        @app.get("/times/{number}")
        async def times(self, number: int) -> dict[str, int]:
            return {"product": number * self.factor}

        @app.post("/sum")
        def sum(self, numbers: list[int], start: int = 0) -> int:
            return sum(numbers, start)

        def plain(self, x: int) -> int:
            return x * self.factor

    handle = serve.run(Api.bind(3), route_prefix="/api")
    assert web.get("/api/times/5").json() == {"product": 15}
    assert web.get("/api/outside/7").json() == {"number": 7}
    posted = web.ask("POST", "/api/sum?start=1", b"[1, 2]", {"content-type": "application/json"})
    assert posted.json() == 4
    assert web.get("/api/times/x").status == 422
    assert web.get("/api/none").status == 404
    assert web.get("/api/docs").status == 200
    assert handle.plain.remote(2).result(timeout_s=60) == 6


@pytest.mark.contract("F12.04")
def test_any_asgi_application_answers(web: Client) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body = (await receive())["body"]
        await send(
            {
                "type": "http.response.start",
                "status": 201,
                "headers": [(b"x-root", scope["root_path"].encode())],
            }
        )
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})

    @serve.deployment
    @serve.ingress(app)
    class Api:
        pass

    serve.run(Api.bind(), route_prefix="/asgi")
    answer = web.ask("PUT", "/asgi/x", b"body")
    assert (answer.status, answer.body, answer.headers["x-root"]) == (201, b"body!", "/asgi")

    # Without a class, by a function in the replica, and by the class once it is constructed.
    def build() -> Any:
        made = FastAPI()

        @made.get("/hi")
        def hi() -> str:
            return "built"

        return made

    @serve.deployment
    @serve.ingress()
    class Late:
        def __init__(self, word: str) -> None:
            self.word = word

        def __serve_build_asgi_app__(self) -> Any:
            made = FastAPI()
            made.get("/hi")(lambda: self.word)
            return made

    for name, bound in (
        ("alone", serve.deployment(serve.ingress(app)()).bind()),
        ("built", serve.deployment(serve.ingress(build)()).bind()),
        ("late", Late.bind("late")),
    ):
        serve.run(bound, name=name, route_prefix=f"/{name}")
    assert web.ask("PUT", "/alone", b"body").body == b"body!"
    assert [web.get(f"/{name}/hi").json() for name in ("built", "late")] == ["built", "late"]
    with pytest.raises(ValueError, match="__serve_build_asgi_app__"):
        serve.ingress()(type("Empty", (), {}))


@pytest.mark.contract("F12.09")
def test_a_port_that_is_taken_is_named(web: Client, ray_start: Any) -> None:
    serve.shutdown()
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match=str(port)):
            serve.start(http_options={"port": port})
    serve.start(http_options={"port": web.port})
    assert web.get("/-/healthz").text.startswith("No application")


@pytest.mark.contract("F12.04")
def test_fastapi_finds_methods_in_routers_and_under_other_names(web: Client) -> None:
    app, router = FastAPI(), APIRouter(prefix="/v1", dependencies=[Depends(only_with_key)])

    class Base:
        def __init__(self, name: str) -> None:
            self.name = name

        @router.get("/name")
        def tell(self) -> str:
            return self.name

    app.include_router(router)

    @serve.deployment
    @serve.ingress(app)
    class Other(Base):
        @app.get("/same", response_class=PlainTextResponse)
        def same(self) -> str:
            return f"get {self.name}"

        @app.post("/same", include_in_schema=False)
        def same(self) -> str:  # type: ignore[no-redef] # noqa: F811 - Both answer.
            return f"post {self.name}"

    serve.run(Other.bind("x"))
    assert web.get("/v1/name").status == 403
    assert web.get("/v1/name?key=1").text == '"x"'
    assert web.get("/same").text == "get x"
    assert web.ask("POST", "/same").text == '"post x"'
    assert set(web.get("/openapi.json").json()["paths"]) == {"/same", "/v1/name"}


def only_with_key(key: int = 0) -> None:
    if not key:
        raise HTTPException(403)


@pytest.mark.contract("F12.01", "F12.04")
@pytest.mark.parametrize("through_handle", [False, True])
def test_what_is_refused_for_the_queue_says_when_to_come_again(
    web: Client, through_handle: bool
) -> None:
    @serve.deployment(
        max_ongoing_requests=1,
        max_queued_requests=1,
        backpressure_config={"status_code": 429, "retry_after_s": 1.5},
    )
    class Waits:
        async def __call__(self, _: object = None) -> None:
            await asyncio.get_running_loop().create_future()

    @serve.deployment
    class Front:
        def __init__(self, waits: DeploymentHandle) -> None:
            self.waits = waits

        async def __call__(self, _: Request) -> str:
            calls = [self.waits.remote() for _ in range(3)]
            try:
                await asyncio.gather(*calls)
            finally:
                for call in calls:
                    call.cancel()
            return "none was refused"

    serve.run(Front.bind(Waits.bind()) if through_handle else Waits.bind())
    with contextlib.ExitStack() as stack:
        # Of three at once one has the replica and one waits: the third is answered.
        clients = []
        for _ in range(1 if through_handle else 3):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", web.port)))
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            clients.append(client)
        answered, _, _ = select.select(clients, [], [], 60)
        head = answered[0].recv(1 << 16)
    assert head.startswith(b"HTTP/1.1 429 ")
    assert b"\r\nretry-after: 2\r\n" in head.lower()


@pytest.mark.contract("F12.04", "F12.09")
def test_urls_begin_with_what_a_proxy_cuts_off(ray_start: Any) -> None:
    app = FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Front:
        @app.get("/here/{name}")
        def here(self, name: str, request: Request) -> dict[str, str]:
            return {
                "name": name,
                "root": request.scope["root_path"],
                "path": request.scope["path"],
                "url": request.url_for("here", name="b").path,
            }

    port = free_port()
    for wrong in ("outside", "/outside/") if IS_HELIOSTAT else ():
        with pytest.raises(ValueError, match="root_path"):
            serve.start(http_options={"port": port, "root_path": wrong})
    serve.start(http_options={"port": port, "root_path": "/outside"})
    try:
        serve.run(Front.bind(), route_prefix="/inside")
        assert Client(port).get("/inside/here/a").json() == {
            "name": "a",
            "root": "/outside/inside",
            "path": "/outside/inside/here/a",
            "url": "/outside/inside/here/b",
        }
    finally:
        serve.shutdown()
