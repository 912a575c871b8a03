"""A driver that `uv run` starts: its workers have the same environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.test_interpreters import find_uv, make_wheel
from tests.helpers.harness import IS_HELIOSTAT, clean_env

pytestmark = [
    pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's packages are not in uv's environment"),
    pytest.mark.contract("F7.05"),
]

PROJECT = """
[project]
name = "mine"
version = "0"
requires-python = ">=3.10"
dependencies = ["of_project"]

[tool.uv]
no-index = true
find-links = ["{wheels}"]
"""

DRIVER = """
import os, sys
import ray

ray.init(num_cpus=2, logging_level="error")

def look():
    import of_project, of_command
    import helper
    return of_project.VALUE, of_command.VALUE, helper.VALUE, os.getcwd()

@ray.remote
class Actor:
    def look(self):
        import subprocess
        child = [sys.executable, "-c", "import of_project, of_command; print(of_command.VALUE)"]
        return look(), subprocess.run(child, capture_output=True, text=True).stdout.strip()

task = ray.get(ray.remote(look).remote())
actor, child = ray.get(Actor.remote().look.remote())
assert task == actor, (task, actor)
print("here", *look()[:3])
print("task", *task[:3])
print("child", child)
print("elsewhere", task[3] != os.getcwd())
print("arguments", *sys.argv[1:])
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if find_uv() is None:
        pytest.skip("this environment has no uv: the extra `default` brings it")
    from heliostat.core.runtime_env import interpreters

    make_wheel(tmp_path / "wheels", "of_project", "1.0")
    make_wheel(tmp_path / "wheels", "of_command", "2.0")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT.format(wheels=tmp_path / "wheels"))
    (folder / "main.py").write_text(DRIVER)
    (folder / "helper.py").write_text("VALUE = 'code'\n")
    # uv's environment has no Heliostat: it is not on an index that the test could ask.
    interpreters.alone(tmp_path)
    return folder


def run(project: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    variables = clean_env(
        {
            "PYTHONPATH": str(project.parent / "heliostat_alone"),
            "UV_CACHE_DIR": str(project.parent / "cache"),
            "UV_PYTHON": sys.executable,
            "UV_PYTHON_DOWNLOADS": "never",
            **env,
        }
    )
    variables.pop("VIRTUAL_ENV", None)
    uv = find_uv()
    assert uv is not None
    return subprocess.run(
        [uv, "run", *command],
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        ("--with", "of_command", "main.py", "--flag", "x"),
        ("--quiet", "--with=of_command", "python", "main.py", "--flag", "x"),
    ],
)
def test_workers_have_the_environment_of_the_command(project: Path, command: tuple[str]) -> None:
    done = run(project, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "here 1.0 2.0 code",
        "task 1.0 2.0 code",
        "child 2.0",
        "elsewhere True",
        "arguments --flag x",
    ]


def test_workers_stay_as_they_are_where_that_is_wanted(project: Path) -> None:
    done = run(project, "--with", "of_command", "main.py", RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
    assert "elsewhere False" in done.stdout, done.stdout + done.stderr


def test_what_uv_says_is_the_error(project: Path) -> None:
    source = """
import ray
ray.init(num_cpus=1, logging_level="error", runtime_env={"py_executable": "uv run --with no_such_thing"})
try:
    ray.get(ray.remote(lambda: 1).remote())
except ray.exceptions.RuntimeEnvSetupError as error:
    print("found", "no_such_thing" in str(error).replace("-", "_"))
"""
    (project / "other.py").write_text(source)
    done = run(project, "other.py")
    assert done.stdout == "found True\n", done.stdout + done.stderr
