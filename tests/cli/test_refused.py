"""Settings whose want would be found too late are refused at the start, never passed over."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers import web
from tests.helpers.commands import CLI, ran
from tests.helpers.harness import clean_env, free_port

pytestmark = pytest.mark.heliostat_only("Ray has these parts, or fails elsewhere")

VARIABLES = [
    ("RAY_gcs_storage", "redis"),
    ("RAY_gcs_storage", "rocksdb"),
    ("RAY_external_storage_namespace", "mine"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    with web.folder("refused") as home:
        yield home


def start(home: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return ran(
        [CLI, *args],
        env=clean_env({"RAY_TMPDIR": str(home), **variables}),
        within=60,
    )


def head(home: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    quiet = (f"--port={free_port()}", "--num-cpus=1", "--include-dashboard=false")
    return start(home, "start", "--head", *quiet, *args, **variables)


@pytest.mark.contract("F5.10", "F15.08")
@pytest.mark.parametrize(("name", "text"), VARIABLES)
def test_a_start_with_the_variable_is_refused(home: Path, name: str, text: str) -> None:
    for done in (
        head(home, **{name: text}),
        start(home, "start", "--address=127.0.0.1:1", **{name: text}),
    ):
        assert done.returncode != 0
        assert f"{name}={text} is refused" in done.stdout
        assert "Unset it" in done.stdout
    assert not list(home.rglob("session_*")), "nothing was started"


@pytest.mark.contract("F5.10", "F6.01")
def test_a_flag_of_redis_is_refused(home: Path) -> None:
    done = head(home, "--redis-shard-ports=1,2")
    assert done.returncode != 0
    assert "`--redis-shard-ports` is refused" in done.stdout
    assert "Leave it out" in done.stdout
    assert not list(home.rglob("session_*"))


@pytest.mark.contract("F6.11")
@pytest.mark.parametrize("flag", ["--metrics-export-port", "--dashboard-agent-listen-port"])
def test_a_taken_port_is_named_with_its_flag(home: Path, flag: str) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        done = head(home, f"{flag}={port}")
    assert done.returncode != 0
    assert f":{port}: Address already in use" in done.stdout
    assert f"Give another `{flag}`" in done.stdout


@pytest.mark.contract("F5.10", "F15.08")
@pytest.mark.parametrize(("name", "text"), VARIABLES)
def test_a_driver_with_the_variable_is_refused(
    ray_down: None, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=f"{name}={text} is refused"):
        ray.init(address="local", num_cpus=1)


@pytest.mark.contract("F5.10")
def test_a_cluster_that_ends_with_its_driver_keeps_no_state(
    ray_down: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_REDIS_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ConnectionError, match="RAY_REDIS_ADDRESS is refused: this cluster ends"):
        ray.init(address="local", num_cpus=1)


@pytest.mark.contract("F5.10")
@pytest.mark.parametrize(("name", "text"), [VARIABLES[0], VARIABLES[2]])
def test_a_driver_with_the_setting_is_refused(ray_down: None, name: str, text: str) -> None:
    config = {name.removeprefix("RAY_"): text}
    with pytest.raises(ValueError, match=f"{name}={text} is refused"):
        ray.init(address="local", num_cpus=1, _system_config=config)


@pytest.mark.contract("F5.10", "F15.08")
def test_values_that_ask_for_nothing_are_taken(
    home: Path, ray_fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmless = {
        "RAY_USE_TLS": "0",
        "RAY_REDIS_ADDRESS": "",
        "RAY_gcs_storage": "memory",
        "RAY_external_storage_namespace": "default",
    }
    done = head(home, **harmless)
    assert done.returncode == 0, done.stdout
    for name, text in harmless.items():
        monkeypatch.setenv(name, text)
    ray_fresh(num_cpus=1)
    assert ray.get(ray.put(1)) == 1
