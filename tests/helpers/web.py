"""A head with a dashboard, started as an operator starts it, and asked over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.harness import Session, clean_env, free_port
from helpers.shared import cluster as shared

CLI = os.environ.get("RAY_CLI", str(Path(sys.executable).parent / "ray"))

# What a request may take: a deadline against a hang.
ANSWER_S = 60


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Shell:
    """The command, in a place of its own."""

    home: Path

    def __call__(self, *args: str) -> str:
        """What it prints; it has to succeed."""
        done = subprocess.run(
            [CLI, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_env({"RAY_TMPDIR": str(self.home)}),
            timeout=ANSWER_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()

    @property
    def session(self) -> Path:
        """The folder of the session that was started last."""
        return (self.home / "ray" / "session_latest").resolve()


@contextlib.contextmanager
def shell() -> Iterator[Shell]:
    """A command whose clusters end with the block."""
    shared.stop()
    made = Shell(Path(tempfile.mkdtemp(prefix="head", dir="/tmp")))
    try:
        yield made
    finally:
        made("stop", "--force")
        shutil.rmtree(made.home, ignore_errors=True)


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
        done = subprocess.run(
            [CLI, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.env,
            timeout=ANSWER_S,
            check=False,
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
        """What its daemons have written, for the report of a failure."""
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
        """One request; with ``token=False`` only the headers that are given."""
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
