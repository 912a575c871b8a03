"""What a user gets from the wheel alone: installed into an environment with nothing else in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALLED_MB = 37
WHEEL_MB = 11

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel() -> Path:
    return Path(run("cargo", "xtask", "wheel").split()[-1])


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment into which only the wheel was installed."""
    home = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", home)
    run(home / "bin/python", "-m", "pip", "install", "--quiet", wheel)
    return home / "bin"


def test_it_needs_cloudpickle_and_nothing_else(programs: Path) -> None:
    listed = run(programs / "python", "-m", "pip", "list", "--format=freeze").split()
    names = {line.split("==")[0] for line in listed} - {"pip", "setuptools"}
    assert names == {"heliostat", "cloudpickle"}


def test_it_is_small(wheel: Path, programs: Path) -> None:
    assert wheel.stat().st_size < WHEEL_MB * 1e6
    installed = """
from importlib.metadata import distribution
files = [path for name in ("heliostat", "cloudpickle") for path in distribution(name).files]
print(sum(path.locate().stat().st_size for path in files))
"""
    assert int(run(programs / "python", "-c", installed)) < INSTALLED_MB * 1e6


def test_it_runs_a_task_under_either_name(programs: Path) -> None:
    for name in ("heliostat", "ray"):
        program = f"""
import {name} as ray
ray.init(num_cpus=1)
print(ray.get(ray.remote(lambda: 6 * 7).remote()))
"""
        assert run(programs / "python", "-c", program).split()[-1] == "42"


@pytest.mark.parametrize("name", ["heliostat", "ray", "serve"])
def test_it_brings_the_command_line(programs: Path, name: str) -> None:
    assert name in run(programs / name, "--help")


def test_the_same_inputs_make_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    backend = ROOT / "xtask/heliostat_build.py"
    again = tmp_path / run(sys.executable, backend, "wheel", tmp_path).split()[-1]
    assert again.read_bytes() == wheel.read_bytes()
