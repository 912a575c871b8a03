"""Whatever arrives at a socket of the session, only that connection ends.

A frame is a little-endian length of four bytes and that many bytes; the first frame of a
connection is a greeting (Protobuf) with the wire version, the token and the role.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.helpers.harness import Session, session_of, wait_until
from tests.helpers.shared import cluster as shared

pytestmark = [
    pytest.mark.heliostat_only("what Ray's sockets do with such bytes is Ray's business"),
    pytest.mark.usefixtures("head"),
]

# Within this time a connection that says nothing sensible has to be closed.
CLOSED_WITHIN_S = 60.0

GIB_4 = 2**32 - 1

PORTS = ("NodeManagerPort", "MetricsExportPort")


def frame(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def greeting(token: str, version: int = 1, role: int = 4) -> bytes:
    """A whole greeting: field 1 the version, field 3 the token, field 4 the role."""
    text = token.encode()
    length = (
        bytes([len(text) & 0x7F | 0x80, len(text) >> 7]) if len(text) > 127 else bytes([len(text)])
    )
    return frame(bytes([0x08, version, 0x1A]) + length + text + bytes([0x20, role]))


PAYLOADS: dict[str, bytes] = {
    "garbage": random.Random(1).randbytes(4096),
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "text": b"hello\n",
    "length-4GiB-little": struct.pack("<I", GIB_4) + b"x" * 64,
    "length-4GiB-big": struct.pack(">I", GIB_4) + b"x" * 64,
    "length-64bit": struct.pack("<Q", 2**63) + b"x" * 64,
    "length-2GiB": struct.pack("<I", 2**31 - 1) + b"\x01" * 64,
    "half-a-frame": struct.pack("<I", 100) + b"half",
    "empty-frames": frame(b"") * 50,
    "frame-of-garbage": frame(random.Random(2).randbytes(300)),
    "greeting-without-token": greeting(""),
    "greeting-with-wrong-token": greeting("no token of ours"),
    "greeting-with-endless-token": greeting("x" * 3000),
    "greeting-of-unknown-role": greeting("", role=99),
    "greeting-of-another-version": greeting("", version=77),
    "half-a-length": b"\x08\x00",
    "nothing": b"",
}


@ray.remote
def one() -> int:
    return 1


@contextmanager
def started() -> Iterator[Cluster]:
    """The head of a cluster: a session with every kind of door."""
    shared.stop()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    try:
        ray.init(address=cluster.address)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="module")
def head() -> Iterator[Cluster]:
    with started() as cluster:
        yield cluster


@pytest.fixture
def session(head: Cluster) -> Session:
    return session_at(head)


def session_at(head: Cluster) -> Session:
    assert head.head_node is not None
    return session_of(head.head_node.get_session_dir_path())


def doors(session: Session) -> dict[str, Callable[[], socket.socket]]:
    """Every way into the session: its socket files and its TCP ports."""

    def unix(path: Path) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(CLOSED_WITHIN_S)
        client.connect(str(path))
        return client

    found: dict[str, Callable[[], socket.socket]] = {
        str(path): lambda path=path: unix(path) for path in session.sockets()
    }
    host = ray.util.get_node_ip_address()
    for port in session.ports():
        found[f"{host}:{port}"] = lambda port=port: socket.create_connection(
            (host, port), CLOSED_WITHIN_S
        )
    return found


def open_doors(session: Session) -> Iterator[tuple[str, socket.socket]]:
    """A connection through each way into the session."""
    for door, connect in doors(session).items():
        # The socket file of a worker that has ended is still there.
        with suppress(ConnectionRefusedError):
            yield door, connect()


def send(client: socket.socket, payload: bytes) -> None:
    try:
        client.sendall(payload)
        client.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # closed already, which is an answer


def is_closed(client: socket.socket) -> bool:
    """Read until the other side ends the connection."""
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def resident_mib(session: Session) -> float:
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in session.daemons())
    return pages * 4096 / 2**20


@contextmanager
def unharmed(session: Session) -> Iterator[None]:
    """The same daemon goes on, serves tasks, and has not grown."""
    before, size = session.daemons(), resident_mib(session)
    yield
    assert ray.get([one.remote() for _ in range(20)]) == [1] * 20
    assert ray.get(ray.put(b"x" * 1_000_000)) == b"x" * 1_000_000
    assert session.daemons() == before
    assert resident_mib(session) < size + 64


@pytest.mark.contract("F6.22", "F0.18")
def test_there_are_doors_to_try(session: Session) -> None:
    assert len(session.daemons()) == 1
    assert len(session.sockets()) >= 3, "the daemon, the control service, processes"
    assert session.ports() == {node[name] for node in ray.nodes() for name in PORTS}


@pytest.mark.contract("F6.22")
@pytest.mark.parametrize("name", PAYLOADS)
def test_bytes_that_make_no_sense(session: Session, name: str) -> None:
    """LIMIT-1: a length is believed only up to a bound."""
    with unharmed(session):
        for door, client in open_doors(session):
            with client:
                send(client, PAYLOADS[name])
                assert is_closed(client), f"{door} stays open after {name}"


@pytest.mark.contract("F6.22")
def test_half_a_frame_is_not_waited_for_without_end(session: Session) -> None:
    """The other half never comes, and the connection stays open on this side."""
    with unharmed(session):
        waiting = []
        for door, client in open_doors(session):
            client.sendall(PAYLOADS["half-a-frame"])
            waiting.append((door, client))
        for door, client in waiting:
            with client:
                assert is_closed(client), f"{door} waits for the rest"


def own_token() -> str:
    return (Path.home() / ".heliostat" / "auth_token").read_text().strip()


@pytest.mark.contract("F6.22")
@pytest.mark.parametrize(
    "name", ["garbage", "length-4GiB-little", "frame-of-garbage", "half-a-frame"]
)
def test_bytes_after_the_right_token(session: Session, name: str) -> None:
    """Whoever holds the token may still send nonsense."""
    with unharmed(session):
        for door, client in open_doors(session):
            with client:
                send(client, greeting(own_token()) + PAYLOADS[name])
                assert is_closed(client), f"{door} stays open after {name}"


@pytest.mark.contract("F6.22")
def test_bad_connections_are_logged_without_filling_the_disk(
    head: Cluster, session: Session
) -> None:
    """An operator finds the first one; a flood of them gives no more than a line each."""
    host, port = ray.util.get_node_ip_address(), ray.nodes()[0]["NodeManagerPort"]

    def knock() -> None:
        with socket.create_connection((host, port), CLOSED_WITHIN_S) as client:
            send(client, PAYLOADS["garbage"])
            assert is_closed(client)

    def said() -> int:
        return sum("connection closed" in line for line in session.logs().splitlines())

    before = said()
    # Earlier tests may have used up what this source has in a minute.
    wait_until(lambda: knock() or said() > before, what="a line about it")
    before = said()
    for _ in range(100):
        knock()
    ray.get(one.remote())
    assert said() - before <= 60, "thirty a minute, and a minute may have begun"


@pytest.mark.contract("F6.22")
def test_many_idle_connections(session: Session) -> None:
    with unharmed(session):
        held = []
        try:
            for connect in doors(session).values():
                for _ in range(50):
                    try:
                        held.append(connect())
                    except OSError:
                        break
            assert ray.get(one.remote()) == 1
        finally:
            for client in held:
                client.close()


@pytest.mark.contract("F6.22")
def test_bytes_one_at_a_time(session: Session) -> None:
    with unharmed(session):
        for connect in doors(session).values():
            with connect() as client:
                for byte in PAYLOADS["garbage"][:64]:
                    try:
                        client.send(bytes([byte]))
                    except OSError:
                        break
                send(client, b"")
                assert is_closed(client)


@pytest.mark.contract("F6.22", "F0.15")
@pytest.mark.parametrize(
    "token", ["", "no token of ours", "x" * 3000], ids=["none", "wrong", "long"]
)
def test_a_wrong_token_is_refused_with_a_reason(session: Session, token: str) -> None:
    """AUTH-1: and the refusal says what to do."""
    with unharmed(session):
        for door, client in open_doors(session):
            with client:
                client.sendall(greeting(token))
                said = b""
                while part := client.recv(65536):
                    said += part
                assert b"token" in said, f"{door} said {said!r}"


@pytest.mark.contract("F6.22", "F0.15", "F6.02")
def test_a_node_or_driver_with_a_wrong_token_is_told_so(
    head: Cluster, session: Session, run_driver: Any, tmp_path: Path
) -> None:
    """A place of its own stands for another machine, where the session's folder is not seen."""
    path = tmp_path / "token"
    path.write_text("wrong")
    with unharmed(session):
        done = run_driver(
            """
            import sys
            from heliostat.core.platform import auth
            from heliostat.core.driver import daemon
            from heliostat.exceptions import AuthenticationError
            from pathlib import Path

            options = daemon.NodeOptions(
                head=False, address=sys.argv[1], owned=True, temp_dir=Path(sys.argv[2])
            )
            try:
                daemon.start(options, auth.token(create=False))
            except AuthenticationError as error:
                print(f"refused={error}".replace("\\n", " "))
            """,
            args=[head.address, "/tmp/hs-other"],
            env={"RAY_AUTH_TOKEN_PATH": str(path)},
        ).check()
    assert "token" in done.value("refused").lower()


@pytest.mark.contract("F6.22")
def test_the_token_file_is_the_users_own(session: Session) -> None:
    tokens = [p for p in session.directory.rglob("*token*") if p.is_file()]
    assert tokens
    for path in tokens:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.contract("F6.22")
def test_greetings_that_never_end_keep_nobody_out(head: Cluster, session: Session) -> None:
    """More of them than may be pending, on the port that other machines come by."""
    assert head.head_node is not None
    address = (head.head_node.node_ip_address, int(head.address.rpartition(":")[2]))
    whole = greeting(own_token())
    with unharmed(session):
        held = []
        try:
            for _ in range(300):
                client = socket.create_connection(address, CLOSED_WITHIN_S)
                client.sendall(whole[: len(whole) // 2])
                held.append(client)
            head.add_node(num_cpus=1, resources={"late": 1})
            assert ray.get(one.options(resources={"late": 1}).remote()) == 1
        finally:
            for client in held:
                client.close()
            head.remove_node(next(iter(head.worker_nodes)))
