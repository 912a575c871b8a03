"""`runtime_env={"py_executable": …}`: the command that workers are started with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import ray

pytestmark = pytest.mark.contract("F7.09")


@ray.remote
def look() -> dict[str, Any]:
    env = ray.get_runtime_context().runtime_env
    return {
        "through": os.environ.get("THROUGH"),
        "given": os.environ.get("GIVEN"),
        "utf8": sys.flags.utf8_mode,
        "folder": os.getcwd(),
        "command": env.get("py_executable"),
    }


@ray.remote
class Looking:
    def look(self) -> Any:
        return ray.get([look.remote(), look.options(runtime_env={"py_executable": ""}).remote()])

    def through(self) -> str | None:
        return os.environ.get("THROUGH")


@pytest.fixture
def command(tmp_path: Path) -> str:
    """A program that leaves a mark and becomes the interpreter of this test."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexport THROUGH="$#"\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_a_task(ray_start: Any, command: str) -> None:
    plain = ray.get(look.remote())
    assert (plain["through"], plain["command"]) == (None, None)
    found = ray.get(look.options(runtime_env={"py_executable": command}).remote())
    assert found["through"] is not None
    assert found["command"] == command
    assert found["folder"] == plain["folder"]
    # And those of before are as they were.
    assert ray.get(look.remote())["through"] is None


def test_options_of_the_interpreter_and_variables(ray_start: Any, command: str) -> None:
    env = {"py_executable": f"{command} -X utf8", "env_vars": {"GIVEN": "yes"}}
    found = ray.get(look.options(runtime_env=env).remote())
    assert (found["utf8"], found["given"]) == (1, "yes")


def test_an_actor_and_what_it_starts(ray_start: Any, command: str) -> None:
    actor = Looking.options(runtime_env={"py_executable": command}, num_cpus=0).remote()
    assert ray.get(actor.through.remote()) is not None
    inherited, _ = ray.get(actor.look.remote())
    assert inherited["through"] is not None


def test_of_a_job(ray_fresh: Any, command: str) -> None:
    ray_fresh(num_cpus=1, runtime_env={"py_executable": command})
    assert ray.get(look.remote())["through"] is not None


def test_one_that_is_not_there(ray_start: Any) -> None:
    ref = look.options(runtime_env={"py_executable": "/no/such/python"}).remote()
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match=r"py_executable|no/such"):
        ray.get(ref, timeout=60)


@pytest.mark.heliostat_only("Ray says it elsewhere, and in other words")
def test_another_version_of_python(ray_start: Any, tmp_path: Path) -> None:
    """Seen by what the node told it, so that no other Python is needed here."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexport HELIOSTAT_NODE_PYTHON=2.7\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    ref = look.options(runtime_env={"py_executable": str(path)}).remote()
    with pytest.raises(ray.exceptions.RuntimeEnvSetupError, match=r"the node's is 2\.7"):
        ray.get(ref, timeout=60)


def test_what_is_no_command(ray_start: Any) -> None:
    with pytest.raises(TypeError, match="py_executable"):
        look.options(runtime_env={"py_executable": ["python"]})
