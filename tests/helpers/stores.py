"""Servers in which heads keep a cluster's state, and heads that do."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.helpers.commands import CLI, ran
from tests.helpers.harness import clean_env, is_alive, wait_until

if TYPE_CHECKING:
    from tests.helpers.certificates import Authority


def lasting_port() -> int:
    """A port that stays free for a while: none that the system gives to those who ask for any."""
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("0.0.0.0", port))
            return port


def why_no_redis() -> str:
    """Why Redis cannot be started here; empty when it can."""
    return "" if shutil.which("redis-server") else "not installed: redis-server"


class Redis:
    """A server of its own for one test."""

    def __init__(self, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="redis", dir="/tmp"))
        self.port = lasting_port()
        self.peer_port = lasting_port()
        self.options = options
        self.start()

    def start(self) -> None:
        """Start it, or start it again with what it has on disk."""
        self.process = subprocess.Popen(
            [
                *("redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", ""),
                *("--appendonly", "yes", "--appendfsync", "always", *self.options),
            ],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        wait_until(self._answers, what="redis-server")

    def _answers(self) -> bool:
        assert self.process.poll() is None, "redis-server has ended"
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        return False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def variables(self) -> dict[str, str]:
        """The variables of a head's environment for the store."""
        return {"RAY_REDIS_ADDRESS": self.address}

    def ask(self, command: str) -> None:
        """A command, which Redis takes."""
        with socket.create_connection(("127.0.0.1", self.port), 30) as connection:
            connection.sendall(f"{command}\r\n".encode())
            assert connection.recv(100).startswith(b"+OK"), command

    def signal(self, which: signal.Signals) -> None:
        self.process.send_signal(which)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def why_no_etcd() -> str:
    """Why etcd cannot be started here; empty when it can."""
    return "" if shutil.which("etcd") else "not installed: etcd"


class EncryptedRedis(Redis):
    """Speaks TLS only, and asks for a certificate."""

    def __init__(self, authority: Authority, *hosts: str) -> None:
        self.authority = authority
        own, key = authority.sign("store", *(hosts or ("127.0.0.1",)))
        self.shown = authority.sign("head")
        files = ("--tls-cert-file", str(own), "--tls-key-file", str(key))
        super().__init__(*files, "--tls-ca-cert-file", str(authority.path))

    def start(self) -> None:
        plain = ("--port", "0", "--tls-auth-clients", "yes")
        self.options = (*self.options, *plain, "--tls-port", str(self.port))
        super().start()

    @property
    def variables(self) -> dict[str, str]:
        return {
            "RAY_REDIS_ADDRESS": f"rediss://{self.address}",
            "RAY_REDIS_CA_CERT": str(self.authority.path),
            "RAY_REDIS_CLIENT_CERT": str(self.shown[0]),
            "RAY_REDIS_CLIENT_KEY": str(self.shown[1]),
        }


class Etcd(Redis):
    """A member of an etcd, for one test."""

    scheme = "http"

    def start(self) -> None:
        """Start it, or start it again with what it has on disk."""
        own, peer = f"{self.scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer_port}"
        self.process = subprocess.Popen(
            [
                *("etcd", "--data-dir", str(self.folder / "data")),
                *("--listen-client-urls", own, "--advertise-client-urls", own),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"default={peer}"),
                *self.options,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._answers, what="etcd")

    @property
    def variables(self) -> dict[str, str]:
        return {"HELIOSTAT_CONTROL_STORE": f"etcd://{self.address}"}


class EncryptedEtcd(Etcd):
    """Speaks TLS only, and asks for a certificate."""

    scheme = "https"

    def __init__(self, authority: Authority, *hosts: str) -> None:
        self.authority = authority
        own, key = authority.sign("store", *(hosts or ("127.0.0.1",)))
        self.shown = authority.sign("head")
        files = ("--cert-file", str(own), "--key-file", str(key), "--client-cert-auth")
        super().__init__(*files, "--trusted-ca-file", str(authority.path))

    @property
    def variables(self) -> dict[str, str]:
        return {
            "HELIOSTAT_CONTROL_STORE": f"etcds://{self.address}",
            "HELIOSTAT_CONTROL_STORE_CA_CERT": str(self.authority.path),
            "HELIOSTAT_CONTROL_STORE_CLIENT_CERT": str(self.shown[0]),
            "HELIOSTAT_CONTROL_STORE_CLIENT_KEY": str(self.shown[1]),
        }


class Machine:
    """A stand-in for another machine: a folder of sessions of its own."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="m", dir="/tmp"))
        self.env = clean_env({"RAY_TMPDIR": str(self.home), **variables})
        self.port = lasting_port()
        self.starts: list[subprocess.Popen[str]] = []

    @property
    def address(self) -> str:
        return self.ready()["control_address"]

    def run(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = ran(
            [CLI, *args],
            env=self.env,
            within=120,
        )
        assert not check or done.returncode == 0, done.stdout
        return done

    def head(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run(*self._head(*args), check=check)

    def _head(self, *args: str) -> tuple[str, ...]:
        usual = () if any("dashboard" in arg for arg in args) else ("--include-dashboard=false",)
        return ("start", "--head", f"--port={self.port}", "--num-cpus=0", *usual, *args)

    def standby(self, *args: str) -> Path:
        """Start a head that has to wait; the file of what it says."""
        said = self.home / f"said{len(self.starts)}"
        with said.open("w") as out:
            start = subprocess.Popen(
                [CLI, *self._head(*args)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                text=True,
            )
        self.starts.append(start)
        wait_until(lambda: "This head waits" in said.read_text(), what="a head that waits")
        return said

    def sessions(self) -> list[Path]:
        return [
            path
            for path in (self.home / "ray").glob("session_*")
            if not path.is_symlink() and (path / "node.json").exists()
        ]

    def ready(self) -> dict[str, Any]:
        """The daemon's words when it was ready, and its present ones about the head."""
        (session,) = self.sessions()
        return dict(json.loads((session / "node.json").read_text()))

    def pid(self) -> int:
        (session,) = self.sessions()
        return int((session / "node.pid").read_text())

    def log(self) -> str:
        logs = (self.home / "ray").glob("session_*/logs/node.log")
        return "\n".join(path.read_text() for path in logs if not path.parent.parent.is_symlink())

    def kill(self) -> None:
        """The machine loses its power: its daemon ends, and its folder is gone."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), what="the end of the daemon")

    def close(self) -> None:
        for start in self.starts:
            start.kill()
            start.wait()
        self.run("stop", "--force", check=False)
        shutil.rmtree(self.home, ignore_errors=True)


@contextlib.contextmanager
def machines(variables: Mapping[str, str], count: int) -> Iterator[list[Machine]]:
    all_machines = [Machine(variables) for _ in range(count)]
    try:
        yield all_machines
    finally:
        for machine in all_machines:
            machine.close()
