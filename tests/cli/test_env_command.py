"""``heliostat env``: environments of packages, listed, made ahead and removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers import wheels

pytestmark = [
    pytest.mark.contract("F7.04", "F7.07"),
    pytest.mark.heliostat_only("Ray has no such command"),
]

OFFLINE = ["--no-index", "--no-deps"]
Run = Callable[..., str]


def wheel(at: Path, name: str) -> str:
    """A wheel of one module, made by hand: there is no index to be asked."""
    return str(wheels.made(at, name, {f"{name}.py": "VALUE = 'installed'\n"}))


def env_of(path: str) -> dict[str, Any]:
    return {"pip": {"packages": [path], "pip_install_options": OFFLINE, "pip_check": False}}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command, for a folder of sessions of the test's own; what it prints."""

    def act(*arguments: str, fails: bool = False) -> str:
        program = str(Path(sys.executable).with_name("heliostat"))
        said = subprocess.run(
            [program, "env", "--temp-dir", str(tmp_path / "sessions"), *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "HELIOSTAT_PYTHON": sys.executable},
        )
        assert (said.returncode != 0) == fails, said.stdout + said.stderr
        return said.stderr if fails else said.stdout

    return act


def listed(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("list", "--format", "json"))
    return found


@ray.remote
def installed() -> str:
    import of_env_command  # type: ignore[import-not-found] # there in its worker only

    return str(of_env_command.VALUE)


def test_what_was_built_ahead_is_what_workers_take(
    run: Run, ray_fresh: Any, tmp_path: Path
) -> None:
    assert listed(run) == []
    env = env_of(wheel(tmp_path, "of_env_command"))
    assert "is ready after" in run("build", "--runtime-env-json", json.dumps(env))
    [made] = listed(run)
    assert (made["state"], made["tool"], made["uses"]) == ("ready", "pip", 1)
    assert made["packages"] == env["pip"]["packages"]
    assert made["size"] > 1000
    assert made["built_s"] > 0
    ray_fresh(num_cpus=1, _temp_dir=str(tmp_path / "sessions"))
    assert ray.get(installed.options(runtime_env=env).remote(), timeout=120) == "installed"
    [used] = listed(run)
    assert (used["id"], used["built_s"]) == (made["id"], made["built_s"]), "it was not made again"
    assert used["uses"] == 2
    assert "in use" in run("clean")
    ray.shutdown()
    table = run("list").splitlines()
    assert table[0].split()[:3] == ["id", "state", "size"]
    assert made["id"] in table[1]
    assert run("clean", "--unused-days", "1").strip() == "0.0 MiB are free again"
    assert f"{made['id']} is removed" in run("clean", made["id"])
    assert listed(run) == []


def test_a_build_that_failed_is_listed_with_its_reason(
    run: Run, ray_fresh: Any, tmp_path: Path
) -> None:
    ray_fresh(num_cpus=1, _temp_dir=str(tmp_path / "sessions"))
    env = env_of("/nowhere/no-1.0-py3-none-any.whl")
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError):
        ray.get(installed.options(runtime_env=env).remote(), timeout=120)
    [failed] = listed(run)
    assert failed["state"] == "failed"
    assert "nowhere" in failed["error"]
    assert f"{failed['id']} failed: " in run("list")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("build",), "there is nothing to build"),
        (("build", "--runtime-env-json", "[]"), "a runtime_env is a dictionary"),
        (("build", "--runtime-env", "/nowhere.yaml"), "/nowhere.yaml"),
        (("build", "--pip", "/nowhere/x-1.0-py3-none-any.whl"), "nowhere"),
        (("clean", "none"), "there is no environment none"),
        (("sweep",), "invalid choice"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, arguments: tuple[str, ...], says: str) -> None:
    assert says in run(*arguments, fails=True)
