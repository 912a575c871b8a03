"""Machines that are started before their head wait for it, say so, and join."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.commands import CLI
from tests.helpers.harness import clean_env, free_port, wait_until
from tests.helpers.shared import cluster as shared

pytestmark = [
    pytest.mark.contract("F6.02"),
    pytest.mark.heliostat_only("Ray tries for a minute, and does not say so"),
]

WAITS = "Waiting for the head at"


class Place:
    """A machine: commands, and those that still run."""

    def __init__(self, home: Path) -> None:
        self.home, self.port = home, free_port()
        self.env = clean_env({"RAY_TMPDIR": str(home), "HOME": str(home)})
        self.running: list[subprocess.Popen[str]] = []

    def begin(self, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a command; what it says goes to a file."""
        with (self.home / f"said{len(self.running)}").open("w") as said:
            process = subprocess.Popen(
                [CLI, *args],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                text=True,
                env={**self.env, **(env or {})},
            )
        self.running.append(process)
        return process

    def said(self, number: int) -> str:
        return (self.home / f"said{number}").read_text()

    def join(self, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        return self.begin(
            "start", f"--address=127.0.0.1:{self.port}", "--num-cpus=1", *args, env=env
        )

    def start_head(self) -> None:
        quiet = ("--include-dashboard=false", "--num-cpus=2")
        head = self.begin("start", "--head", f"--port={self.port}", *quiet)
        assert head.wait(60) == 0, self.said(len(self.running) - 1)

    def cpus(self) -> str:
        status = subprocess.run(
            [CLI, "status"], env=self.env, capture_output=True, text=True, timeout=60
        )
        found = re.search(r"/(\d+\.\d) CPU", status.stdout)
        return found.group(1) if found else ""


@pytest.fixture
def place() -> Iterator[Place]:
    shared.stop()
    home = Path(tempfile.mkdtemp(prefix="join", dir="/tmp"))
    place = Place(home)
    yield place
    subprocess.run([CLI, "stop", "--force"], env=place.env, timeout=60, check=True)
    for process in place.running:
        if process.poll() is None:
            process.kill()
        process.wait(60)
    shutil.rmtree(home, ignore_errors=True)


def test_nodes_that_come_before_their_head_join_it(place: Place) -> None:
    """One that is waited for, one that stays, and no token yet: the head's start makes it."""
    plain, blocking = place.join(), place.join("--block")
    for number in range(2):
        wait_until(
            lambda number=number: WAITS in place.said(number), what="it says what it waits for"
        )
        assert f"127.0.0.1:{place.port}" in place.said(number)
        assert "onnection refused" in place.said(number)
        assert "no authentication token" in place.said(number)
    assert plain.poll() is None
    assert blocking.poll() is None
    place.start_head()
    assert plain.wait(60) == 0, place.said(0)
    wait_until(lambda: place.cpus() == "4.0", every=0.2, what="all three are there")
    assert "Ray runtime started." in place.said(0)
    assert blocking.poll() is None
    wait_until(lambda: "Ray runtime started." in place.said(1), what="it says that it stays")
    blocking.send_signal(signal.SIGTERM)
    assert blocking.wait(60) == 0, place.said(1)


def test_a_token_file_that_is_missing_is_not_waited_for(place: Place) -> None:
    missing = str(place.home / "secret" / "token")
    joining = place.join(env={"HELIOSTAT_AUTH_TOKEN_PATH": missing})
    assert joining.wait(60) != 0
    assert missing in place.said(0)
    assert "cluster's head node" in place.said(0)
    assert WAITS not in place.said(0)


def test_the_wait_has_an_end_that_names_the_address(place: Place) -> None:
    given_up = place.join(env={"HELIOSTAT_JOIN_WAIT_S": "1"})
    assert given_up.wait(60) != 0
    said = place.said(0)
    assert WAITS in said
    assert "HELIOSTAT_JOIN_WAIT_S" in said
    assert f"Failed to connect to the cluster at 127.0.0.1:{place.port}" in said
    sessions = [path for path in place.home.rglob("session_*") if path.is_dir()]
    assert sessions == [], "nothing is left of it"


def test_a_name_that_is_not_known_yet_is_waited_for(place: Place) -> None:
    waiting = place.begin("start", "--address=head.invalid:6379", "--num-cpus=1")
    wait_until(lambda: WAITS in place.said(0), what="it says what it waits for")
    assert "head.invalid:6379" in place.said(0)
    assert waiting.poll() is None
    os.kill(waiting.pid, signal.SIGINT)
    assert waiting.wait(60) != 0


def test_what_waiting_does_not_help_is_told_at_once(place: Place) -> None:
    place.start_head()
    refused = place.join(env={"HELIOSTAT_AUTH_TOKEN": "b" * 32})
    assert refused.wait(60) != 0
    assert WAITS not in place.said(1)
    assert "authentication token" in place.said(1)
