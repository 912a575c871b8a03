"""A head with a dashboard, started as an operator starts it, and asked over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.answers import Answer
from tests.helpers.commands import CLI, ran
from tests.helpers.harness import Session, clean_env, free_port
from tests.helpers.shared import cluster as shared

# Seconds that a request may take: a deadline against a hang.
ANSWER_S = 60


@dataclass
class Shell:
    """The command, in a place of its own."""

    home: Path

    def __call__(self, *args: str) -> str:
        """Run the command, which has to succeed, and return its output."""
        done = ran(
            [CLI, *args],
            env=clean_env({"RAY_TMPDIR": str(self.home)}),
            within=ANSWER_S,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    @property
    def session(self) -> Path:
        """The folder of the session that was started last."""
        return (self.home / "ray" / "session_latest").resolve()


@contextlib.contextmanager
def shell() -> Iterator[Shell]:
    """A command whose clusters end with the block."""
    with folder("head") as home:
        yield Shell(home)


@contextlib.contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A folder for sessions that end with the block; this process's own cluster is stopped first."""
    shared.stop()
    home = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    try:
        yield home
    finally:
        Shell(home)("stop", "--force")
        shutil.rmtree(home, ignore_errors=True)


@dataclass
class Head:
    """A head node, and how it is asked."""

    home: Path
    env: dict[str, str]
    token: str
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    said: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.web_port}"

    def run(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = ran(
            [CLI, *args],
            env=self.env,
            within=ANSWER_S,
        )
        assert not check or done.returncode == 0, done.stdout + self.logs()
        return done

    def start(self, *args: str) -> None:
        self.said = self.run(
            "start",
            "--head",
            f"--port={self.port}",
            f"--dashboard-port={self.web_port}",
            "--num-cpus=2",
            *args,
        ).stdout

    def logs(self) -> str:
        """The logs of the head's daemons, for the report of a failure."""
        found = [
            path
            for path in self.home.rglob("node.*")
            if path.suffix in (".log", ".err") and not path.parent.is_symlink()
        ]
        return "".join(f"\n--- {path}\n{path.read_text()}" for path in found)

    def session(self) -> Path:
        return (self.home / "ray" / "session_latest").resolve()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: bool = True,
    ) -> Answer:
        """Make a request; with ``token=False`` only the headers that are given."""
        sent = {"Authorization": f"Bearer {self.token}"} if token else {}
        sent.update(headers or {})
        link = http.client.HTTPConnection("127.0.0.1", self.web_port, timeout=ANSWER_S)
        try:
            link.request(method, path, body=body, headers=sent)
            answer = link.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            link.close()

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer.status, answer.text)
        return answer.json()


def new() -> Head:
    shared.stop()
    home = Path(tempfile.mkdtemp(prefix="dash", dir="/tmp"))
    token = secrets.token_hex(16)
    env = clean_env({"RAY_TMPDIR": str(home), "HELIOSTAT_AUTH_TOKEN": token})
    return Head(home, env, token)


def end(head: Head) -> None:
    head.run("stop", "--force", check=False)
    for path in head.home.rglob("session_*"):
        if path.is_dir() and not path.is_symlink():
            Session(path, frozenset({os.getpid()})).assert_gone(set())
    shutil.rmtree(head.home, ignore_errors=True)
