"""The distribution `ray` satisfies what requires it, and the real Ray can come and go beside Heliostat."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import heliostat
import pytest

from tests.helpers.wheels import made

ROOT = Path(__file__).resolve().parents[2]
XTASK = ROOT / "xtask"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.heliostat_only("it is about our wheels"),
]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def pack(folder: Path) -> list[Path]:
    """Both wheels, around the extension module and the daemon that are there: nothing is built."""
    package = Path(heliostat.__path__[0])
    (extension,) = package.glob("_heliostat*.so")
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(XTASK)!r})
sys.dont_write_bytecode = True
import heliostat_build
import ray_wheel
heliostat_build.cargo = lambda *_: (Path({str(extension)!r}), Path({str(package / "bin/heliostat")!r}))
print(heliostat_build.build_wheel({str(folder)!r}))
print(ray_wheel.pack({str(folder)!r}))
"""
    return [folder / name for name in run(sys.executable, "-c", program).split()]


def made_up(
    folder: Path,
    name: str,
    version: str,
    requires: str = "",
    code: str = "",
    commands: tuple[str, ...] = (),
) -> Path:
    """A wheel of one package; its commands say whose they are."""
    lines = [f"{command} = {name}:command" for command in commands]
    files = {
        f"{name}/__init__.py": code,
        f"{name}/util/__init__.py": "",
        f"{name}-{version}.dist-info/entry_points.txt": "\n".join(
            ["[console_scripts]", *lines, ""]
        ),
    }
    return made(folder, name, files, version=version, requires=requires)


class Environment:
    """A virtual environment that is this test's to change."""

    def __init__(self, home: Path, like: Environment | None = None) -> None:
        self.home = home
        self.python = home / "bin/python"
        if like is None:
            run(sys.executable, "-m", "venv", "--without-pip", home)
        else:
            self._copy(like.home)

    def _copy(self, home: Path) -> None:
        """Have what another one has, without its bytes: pip replaces files, and writes into none."""
        shutil.copytree(home, self.home, symlinks=True, copy_function=os.link)
        for program in (self.home / "bin").iterdir():
            text = b"" if program.is_symlink() else program.read_bytes()
            if text.startswith(b"#!"):
                program.unlink()
                program.write_bytes(text.replace(bytes(home), bytes(self.home)))
                program.chmod(0o755)

    def pip(self, command: str, *arguments: str | Path) -> str:
        # That of the environment that runs the tests: one of its own takes seconds to make.
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python)
        quick = ["--no-compile"] if command == "install" else []
        return run(*pip, command, *quick, *arguments)

    def install(self, *what: str | Path) -> str:
        # Without an index: whatever is not there already cannot be fetched.
        return self.pip("install", "--no-index", *what)

    def works(self, *commands: str) -> None:
        """Heliostat's commands are there, and run."""
        for command in commands:
            said = run(self.python.with_name(command), "--help")
            assert "usage" in said.lower()
            assert "REAL" not in said

    def says(self, program: str) -> str:
        return run(self.python, "-c", program)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return pack(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, wheels: list[Path]) -> Environment:
    """An environment in which the wheel of Heliostat was installed, and nothing else."""
    made = Environment(tmp_path_factory.mktemp("first") / "environment")
    made.pip("install", "--quiet", wheels[0])
    return made


@pytest.fixture
def environment(tmp_path: Path, first: Environment) -> Environment:
    """A copy of it: to unpack the wheel takes seconds."""
    return Environment(tmp_path / "environment", first)


VERSION = "import importlib.metadata as m, ray; print(m.version('ray'), ray.__version__)"
WHOSE = "import ray; print(ray.__file__, getattr(ray, 'REAL', False))"


@pytest.mark.contract("F0.01")
def test_what_requires_ray_is_satisfied(
    environment: Environment, wheels: list[Path], tmp_path: Path
) -> None:
    environment.install(wheels[1])
    environment.pip("install", "--quiet", "uv")  # what the extra `default` brings
    environment.install(made_up(tmp_path, "library", "1.0", "ray[default]>=2.40,<3"))
    distribution, package = environment.says(VERSION).split()
    assert distribution.split("+")[0] == package
    assert "heliostat" in distribution
    asked = environment.says("import importlib.metadata as m; print(m.requires('ray'))")
    assert "heliostat[data]" in asked  # what the extra `data` of Ray brings
    assert "heliostat[train]" not in asked  # which would bring torch
    environment.pip("check")
    assert "heliostat" in environment.says(WHOSE)


@pytest.mark.contract("F0.01")
def test_the_distribution_owns_no_module(environment: Environment, wheels: list[Path]) -> None:
    environment.install(wheels[1])
    environment.pip("uninstall", "--yes", "ray")
    program = "import ray; ray.init(num_cpus=1); print(ray.get(ray.remote(lambda: 6 * 7).remote()))"
    assert environment.says(program).splitlines()[0] == "42"


COMMANDS = ("heliostat", "ray", "serve")


@pytest.mark.contract("F0.01")
def test_no_file_has_two_owners(wheels: list[Path]) -> None:
    names = []
    for path in wheels:
        with zipfile.ZipFile(path) as wheel:
            names += [name for name in wheel.namelist() if ".dist-info/" not in name]
            names += [
                line.partition(" =")[0]
                for name in wheel.namelist()
                if name.endswith("entry_points.txt")
                for line in wheel.read(name).decode().splitlines()[1:]
            ]
    assert len(names) == len(set(names))
    assert set(COMMANDS) <= set(names)


@pytest.mark.contract("F0.01")
def test_the_commands_outlive_the_distribution(
    tmp_path: Path, first: Environment, wheels: list[Path]
) -> None:
    for order in ([0, 1], [1, 0]):
        made = Environment(tmp_path / f"environment{order[0]}", first)
        for number in order:
            made.pip("install", "--quiet", "--force-reinstall", "--no-deps", wheels[number])
        made.works(*COMMANDS)
        made.pip("uninstall", "--yes", "ray")
        made.works(*COMMANDS)


@pytest.mark.contract("F0.01")
def test_what_the_warning_advises_brings_the_commands_back(
    environment: Environment, wheels: list[Path], tmp_path: Path
) -> None:
    environment.install(wheels[1])
    real = "REAL = True\ndef command(): print('REAL')\n"
    environment.install(made_up(tmp_path, "ray", "2.99.0", "", real, ("ray", "serve")))
    assert "REAL" in run(environment.python.with_name("ray"))
    environment.pip("uninstall", "--yes", "ray")
    environment.works("heliostat")
    environment.install("--force-reinstall", "--no-deps", *wheels)
    environment.works(*COMMANDS)
    assert "RuntimeWarning" not in environment.says("import heliostat")


@pytest.mark.contract("F0.01")
def test_the_real_ray_comes_and_goes(
    environment: Environment, wheels: list[Path], tmp_path: Path
) -> None:
    environment.install(wheels[1])
    assert "RuntimeWarning" not in environment.says("import heliostat")
    real = made_up(tmp_path, "ray", "2.99.0", code="REAL = True\n")
    environment.install(real)
    assert environment.says(WHOSE).split()[-1] == "True"
    said = environment.says("import heliostat; print(heliostat.is_initialized())")
    assert "False" in said
    assert "pip uninstall ray" in said
    assert "site-packages/ray/__init__.py" in said
    environment.pip("uninstall", "--yes", "ray")
    assert environment.says(WHOSE).split()[-1] == "False"
    assert "RuntimeWarning" not in environment.says("import heliostat, ray, ray.util")
    environment.install(wheels[1])
    assert "heliostat" in environment.says(VERSION)


def test_a_wheel_of_heliostat_beside_a_ray_that_was_there(
    tmp_path: Path, wheels: list[Path]
) -> None:
    made = Environment(tmp_path / "environment")
    made.install(made_up(tmp_path, "ray", "2.99.0", code="REAL = True\n"))
    made.pip("install", "--quiet", wheels[0])
    assert made.says(WHOSE).split()[-1] == "True"
    assert "RuntimeWarning" in made.says("import heliostat")
    made.pip("uninstall", "--yes", "heliostat")
    assert made.says(WHOSE).split()[-1] == "True"
