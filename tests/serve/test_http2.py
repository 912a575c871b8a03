"""HTTP/2 and TLS: the same applications, over what browsers and proxies speak."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from ray import serve
from ray.serve.config import HTTPOptions
from starlette.requests import Request

from tests.helpers.certificates import Authority
from tests.helpers.harness import free_port

CLUSTER = {"num_cpus": 4}
# A deadline against a hang.
S = 60

pytestmark = pytest.mark.heliostat_only(
    "Ray's proxy speaks HTTP/1.1, and shows its certificate by uvicorn"
)


@serve.deployment(max_ongoing_requests=200, ray_actor_options={"num_cpus": 0})
class Echo:
    async def __call__(self, request: Request) -> Any:
        if request.url.path == "/large":
            return b"x" * (8 << 20)
        return {
            "version": request.scope["http_version"],
            "scheme": request.url.scheme,
            "host": request.headers.get("host"),
            "cookies": request.cookies,
            "length": len(await request.body()),
        }


OPENED: list[Link] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Connections end with their test."""
    yield
    while OPENED:
        OPENED.pop().sock.close()


class Link:
    """A connection of HTTP/2, and what came back on its streams."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.sock: socket.socket = socket.create_connection(("127.0.0.1", port), timeout=S)
        OPENED.append(self)
        if context is not None:
            context.set_alpn_protocols(["h2"])
            secured = context.wrap_socket(self.sock, server_hostname="127.0.0.1")
            assert secured.selected_alpn_protocol() == "h2"
            self.sock = secured
        config = H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False
        )
        self.h2 = H2Connection(config)
        self.h2.initiate_connection()
        self.takes = True  # data, as it comes
        self.heads: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()
        self.is_over = False
        self.flush()

    def flush(self) -> None:
        self.sock.sendall(self.h2.data_to_send())

    def ask(self, path: str, body: bytes = b"", headers: Any = (), end: bool = True) -> int:
        stream = self.h2.get_next_available_stream_id()
        method = "POST" if body else "GET"
        head = [
            (":method", method),
            (":scheme", "http"),
            (":path", path),
            (":authority", "a.example"),
        ]
        self.h2.send_headers(stream, [*head, *headers], end_stream=end and not body)
        if body:
            self.h2.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    def hear(self) -> None:
        """What comes next."""
        data = self.sock.recv(1 << 16)
        if not data:
            self.is_over = True
            return
        for event in self.h2.receive_data(data):
            if isinstance(event, ResponseReceived | TrailersReceived):
                self.heads.setdefault(event.stream_id, {}).update(dict(event.headers))
            elif isinstance(event, DataReceived):
                before = self.bodies.get(event.stream_id, b"")
                self.bodies[event.stream_id] = before + event.data
                if self.takes and event.flow_controlled_length:
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, StreamReset):
                self.reset.add(event.stream_id)
            elif isinstance(event, ConnectionTerminated):
                self.is_over = True
        self.flush()

    def answer(self, stream: int) -> tuple[str, bytes]:
        """Status and body, once they are whole."""
        while stream not in self.ended:
            assert stream not in self.reset
            assert not self.is_over
            self.hear()
        return self.heads[stream][":status"], self.bodies.get(stream, b"")

    def until_over(self) -> None:
        while not self.is_over:
            try:
                self.hear()
            except (ConnectionError, ProtocolError):
                return


def _start(**options: Any) -> int:
    port = free_port()
    serve.start(http_options=HTTPOptions(port=port, **options))
    serve.run(Echo.bind())
    return port


@pytest.fixture
def port(ray_start: Any) -> Iterator[int]:
    yield _start()
    serve.shutdown()


def test_requests_share_a_connection(port: int) -> None:
    link = Link(port)
    streams = [link.ask(f"/?n={number}") for number in range(100)]
    for stream in streams:
        status, body = link.answer(stream)
        assert status == "200"
        assert b'"version":"2"' in body
        assert b'"host":"a.example"' in body
    assert link.answer(link.ask("/", b"x" * 10_000, [("content-length", "10000")]))[0] == "200"
    status, body = link.answer(link.ask("/", headers=[("cookie", "a=1"), ("cookie", "b=2")]))
    assert b'"cookies":{"a":"1","b":"2"}' in body, "an application sees one header"
    assert link.answer(link.ask("/-/healthz")) == ("200", b"success")


def test_a_body_without_a_length_and_a_large_answer(port: int) -> None:
    link = Link(port)
    stream = link.ask("/", b"x" * 1000, end=False)
    for _ in range(100):
        while link.h2.local_flow_control_window(stream) < 1000:
            link.hear()
        link.h2.send_data(stream, b"x" * 1000)
        link.flush()
    link.h2.end_stream(stream)
    link.flush()
    assert b'"length":101000' in link.answer(stream)[1]
    assert link.answer(link.ask("/large")) == ("200", b"x" * (8 << 20))


def test_two_hosts_are_refused(port: int) -> None:
    link = Link(port)
    assert link.answer(link.ask("/", headers=[("host", "b.example")]))[0] == "400"
    assert link.answer(link.ask("/", headers=[("host", "a.example")]))[0] == "200"
    twice = [("host", "a.example"), ("host", "a.example")]
    stream = link.ask("/", headers=twice)
    while stream not in link.ended | link.reset and not link.is_over:
        link.hear()
    assert link.heads.get(stream, {}).get(":status") != "200"


def test_http1_is_spoken_at_the_same_port(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=S) as sock:
        # In pieces, and with a method that begins as HTTP/2 does.
        for piece in ("P", "RI", "NT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):
            sock.sendall(piece.encode())
            time.sleep(0.05)
        said = b"".join(iter(lambda: sock.recv(1 << 16), b""))
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b'"version":"1.1"' in said


@pytest.mark.parametrize("keep_alive", [1])
def test_a_client_that_asks_for_nothing_or_takes_nothing_is_let_go(
    ray_start: Any, keep_alive: int
) -> None:
    port = _start(keep_alive_timeout_s=keep_alive)
    try:
        idle = Link(port)
        assert idle.answer(idle.ask("/"))[0] == "200"
        idle.until_over()
        greedy = Link(port)
        greedy.takes = False  # the window is never opened again
        greedy.ask("/large")
        greedy.until_over()
        assert sum(map(len, greedy.bodies.values())) < 8 << 20
        with socket.create_connection(("127.0.0.1", port), timeout=S) as silent:
            silent.sendall(b"PRI * HT")
            assert silent.recv(1) == b""
    finally:
        serve.shutdown()


def test_resets_one_after_the_other_end_the_connection(port: int) -> None:
    link = Link(port)
    try:
        for _ in range(5000):
            stream = link.ask("/")
            link.h2.reset_stream(stream)
            link.flush()
        link.until_over()
    except OSError:
        pass  # it was closed while we sent
    again = Link(port)
    assert again.answer(again.ask("/"))[0] == "200"


# --- TLS


def _pair(authority: Authority, name: str, password: str | None = None) -> dict[str, str]:
    certificate, key = authority.sign(name, "127.0.0.1", password=password)
    return {"ssl_certfile": str(certificate), "ssl_keyfile": str(key)}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def _get(port: int, context: ssl.SSLContext) -> bytes:
    """A request of HTTP/1.1 over TLS."""
    with _secured(port, context) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def _secured(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=S)
    try:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")
    except OSError:
        plain.close()
        raise


@pytest.mark.contract("F12.09")
@pytest.mark.parametrize("password", [None, "secret"])
def test_https_is_spoken_with_the_users_certificate(
    ray_start: Any, authority: Authority, password: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _pair(authority, f"server{password}", password)
    if password is None:  # by paths of the program's folder, which is not the server's
        monkeypatch.chdir(Path(files["ssl_certfile"]).parent)
        files = {name: Path(path).name for name, path in files.items()}
    port = _start(**files, ssl_keyfile_password=password)
    try:
        context = ssl.create_default_context(cafile=str(authority.path))
        said = _get(port, context)
        assert said.startswith(b"HTTP/1.1 200 ")
        assert b'"scheme":"https"' in said
        older = ssl.create_default_context(cafile=str(authority.path))
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        assert _get(port, older).startswith(b"HTTP/1.1 200 ")
        link = Link(port, context)
        assert b'"scheme":"https"' in link.answer(link.ask("/"))[1]
        with socket.create_connection(("127.0.0.1", port), timeout=S) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert not plain.recv(1 << 16).startswith(b"HTTP"), "nothing is said in the clear"
    finally:
        serve.shutdown()


@pytest.mark.contract("F12.09")
def test_clients_without_a_certificate_are_refused_where_authorities_are_named(
    ray_start: Any, authority: Authority, tmp_path: Path
) -> None:
    port = _start(**_pair(authority, "server"), ssl_ca_certs=str(authority.path))
    try:
        stranger = Authority(tmp_path).sign("stranger", "127.0.0.1")
        for shown in (None, stranger):
            context = ssl.create_default_context(cafile=str(authority.path))
            if shown is not None:
                context.load_cert_chain(*shown)
            with pytest.raises(OSError):
                assert not _get(port, context)
                raise OSError("nothing was said")
        context = ssl.create_default_context(cafile=str(authority.path))
        context.load_cert_chain(*authority.sign("client", "127.0.0.1"))
        assert _get(port, context).startswith(b"HTTP/1.1 200 ")
    finally:
        serve.shutdown()


def test_a_new_certificate_is_shown_without_a_restart(ray_start: Any, authority: Authority) -> None:
    files = _pair(authority, "renewed")
    port = _start(**files)
    try:
        context = ssl.create_default_context(cafile=str(authority.path))

        def shown() -> bytes | None:
            with _secured(port, context) as sock:
                return sock.getpeercert(binary_form=True)

        before = shown()
        assert before is not None
        assert before == shown()
        _pair(authority, "renewed")
        assert shown() not in (None, before)
        Path(files["ssl_certfile"]).write_text("nothing")
        assert shown() not in (None, before), "what is of no use does not take its place"
    finally:
        serve.shutdown()


def test_files_of_no_use_are_named(ray_start: Any, authority: Authority, tmp_path: Path) -> None:
    files = _pair(authority, "server")
    other = _pair(authority, "other")["ssl_keyfile"]
    hidden = _pair(authority, "hidden", "secret")["ssl_keyfile"]
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("nothing")
    wrong: dict[str, dict[str, Any]] = {
        "ssl_certfile=.*nothing": {"ssl_certfile": str(nothing)},
        "ssl_keyfile=.*absent": {"ssl_keyfile": str(tmp_path / "absent")},
        "not the key of ssl_certfile": {"ssl_keyfile": other},
        "ssl_ca_certs=.*nothing": {"ssl_ca_certs": str(nothing)},
        "ssl_keyfile=.*cannot be used": {"ssl_keyfile": hidden, "ssl_keyfile_password": "guess"},
    }
    for words, options in wrong.items():
        with pytest.raises(RuntimeError, match=words):
            serve.start(http_options=HTTPOptions(port=free_port(), **{**files, **options}))
    for name in ("ssl_certfile", "ssl_ca_certs"):
        half = {name: files["ssl_certfile"]}
        with pytest.raises(ValueError, match="ssl_"):
            HTTPOptions(**half)
    serve.shutdown()
