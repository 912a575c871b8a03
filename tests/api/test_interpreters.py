"""An environment with packages is an interpreter of its own: for all who run in it, however installed.

Each way of installing a driver is a folder with an interpreter that has Heliostat, its alias and packages of
its own; a script runs there, asks for packages by ``pip``, and prints what everybody saw.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import wheels
from tests.helpers.harness import IS_HELIOSTAT, clean_env, free_port

pytestmark = [
    pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's installer wants an index"),
    pytest.mark.contract("F7.04", "F7.05"),
]

# What everybody imports, with what the module says of itself, or the error.
LOOK = """
import importlib, importlib.metadata, json, sys
def look():
    found = {"executable": sys.executable}
    for name in ("heliostat", "ray", "of_driver", "new", "shadowed", "of_base", "colorsys"):
        try:
            module = importlib.import_module(name)
            found[name] = str(getattr(module, "VALUE", "there"))
        except ImportError as error:
            found[name] = type(error).__name__
    return found
if __name__ == "__main__":
    print(json.dumps(look()))
"""

DRIVER = """
import json, multiprocessing, os, subprocess, sys
import ray
import looking

ENV = json.loads(os.environ.get("ENVIRONMENT", "null"))

def children():
    def said(*command):
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spawned = pool.apply(looking.look)
    return {
        "itself": looking.look(),
        "by sys.executable": said(sys.executable, "-m", "looking"),
        "by python": said("python", "-m", "looking"),
        "spawned": spawned,
    }

@ray.remote
class Actor:
    def look(self):
        return children()

def main():
    found = {}
    if ENV is None:
        ray.init(logging_level="error")
        found["job"] = children()
    else:
        ray.init(num_cpus=4, logging_level="error", runtime_env=ENV)
    found["task"] = ray.get(ray.remote(children).remote())
    found["actor"] = ray.get(Actor.remote().look.remote())
    if "SERVE" in os.environ:
        from ray import serve
        @serve.deployment(ray_actor_options={"runtime_env": ENV} if ENV else {})
        class Replica:
            def __call__(self):
                return children()
        found["replica"] = serve.run(Replica.bind(), route_prefix=None).remote().result(timeout_s=100)
        serve.shutdown()
    print("FOUND", json.dumps(found), flush=True)

if __name__ == "__main__":
    main()
"""


def find_uv() -> str | None:
    from heliostat.core.runtime_env import installers

    return installers.find_uv()


def make_wheel(
    folder: Path, name: str, version: str, *, requires: str = "", value: str = ""
) -> str:
    """A wheel of one module, made by hand: there is no index to be asked."""
    files = {f"{name}.py": f"VALUE = {value or version!r}\n"}
    return str(wheels.made(folder, name, files, version=version, requires=requires))


def site_of(prefix: Path) -> Path:
    (found,) = prefix.glob("lib/python*/site-packages")
    return found


def unpack(wheel: str, site: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(site)


def copy(source: Path, target: Path, *ignored: str) -> None:
    """A tree of the same files, without their bytes where the disk allows that.

    What was compiled comes along: else each interpreter would compile pip and Heliostat anew. The files
    that are left out are such as another process writes just now.
    """

    def one(path: str, to: str) -> str:
        try:
            os.link(path, to)
        except OSError:
            shutil.copy2(path, to)
        return to

    ignore = shutil.ignore_patterns("*.pyc.*", *ignored)
    shutil.copytree(source, target, copy_function=one, ignore=ignore, dirs_exist_ok=True)


def copy_distribution(name: str, site: Path) -> None:
    """Have what the tests' own environment has of a distribution."""
    found = importlib.metadata.distribution(name)
    tops = {
        file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")
    }
    for top in tops:
        place = Path(str(found.locate_file(top)))
        if place.is_dir():
            copy(place, site / top)
        else:
            shutil.copy2(place, site / top)


def make_base(prefix: Path) -> Path:
    """An interpreter that is nobody's environment: the tests' Python with packages of its own."""
    library = Path(sysconfig.get_path("stdlib"))
    executable = prefix / "bin" / library.name
    executable.parent.mkdir(parents=True)
    shutil.copy2(os.path.realpath(sys.executable), executable)
    (prefix / "bin" / "python").symlink_to(executable.name)
    (prefix / "bin" / "python3").symlink_to(executable.name)
    (prefix / "lib" / library.name / "site-packages").mkdir(parents=True)
    for entry in library.iterdir():
        if entry.name not in ("site-packages", "dist-packages", "sitecustomize.py"):
            (prefix / "lib" / library.name / entry.name).symlink_to(entry)
    return prefix / "bin" / "python"


class Installed:
    """A driver's interpreter in a folder, and the wheels around."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.kind = root, kind
        self.sessions = tempfile.mkdtemp(prefix="i", dir="/tmp")  # names of sockets are short
        self.shelf, self.tools = root / "wheels", root / "tools"
        self.tools.mkdir()
        make_wheel(self.shelf, "of_base", "2.0")
        self.newer = make_wheel(self.shelf, "shadowed", "2.0")
        self.new = make_wheel(self.shelf, "new", "1.0", requires="of_driver")
        self.colorsys = make_wheel(self.shelf, "colorsys", "1.0", value="'not the library'")
        python = make_base(root / "base")
        base_site = site_of(root / "base")
        unpack(make_wheel(root / "below", "of_base", "1.0"), base_site)
        copy_distribution("pip", base_site)
        site = base_site
        if kind != "base":
            subprocess.run([python, "-m", "venv", "--without-pip", root / "driver"], check=True)
            python = root / "driver" / "bin" / "python"
            site = site_of(root / "driver")
            copy_distribution("pip", site)
        self.python = python
        unpack(make_wheel(root / "below", "of_driver", "1.0"), site)
        unpack(make_wheel(root / "below", "shadowed", "1.0"), site)
        copy_distribution("cloudpickle", site)
        self._install_heliostat(site)
        self.code = root / "code"
        self.code.mkdir()
        (self.code / "looking.py").write_text(LOOK)
        (self.code / "main.py").write_text(DRIVER)

    def _install_heliostat(self, site: Path) -> None:
        import heliostat
        import ray

        package, alias = (
            Path(str(module.__file__)).resolve().parent for module in (heliostat, ray)
        )
        if self.kind == "checkout":
            # As `pip install -e`: a path file that leads to the checkout.
            places = dict.fromkeys([package.parent, alias.parent])
            (site / "heliostat-dev.pth").write_text("".join(f"{place}\n" for place in places))
            return
        # As the wheel: the alias lies in a folder of its own, to which a path file leads.
        # Where the tests' own Heliostat came from a wheel, its alias lies inside its package.
        copy(package, site / "heliostat", "_alias")
        copy(alias, site / "heliostat" / "_alias" / "ray")
        (site / "heliostat-alias.pth").write_text("heliostat/_alias\n")

    def environment(self, tool: str, *wheels: str) -> dict[str, Any]:
        options = ["--no-index", f"--find-links={self.shelf}"]
        key = "pip_install_options" if tool == "pip" else "uv_pip_install_options"
        return {tool: {"packages": list(wheels), key: options, f"{tool}_check": True}}

    def run(self, *command: str, **env: str) -> str:
        """What a program of the driver's interpreter prints."""
        variables = {
            "PATH": os.pathsep.join([str(self.tools), os.defpath]),
            "HOME": str(self.root),
            "RAY_TMPDIR": self.sessions,
            "PYTHONPATH": str(self.code),
            **env,
        }
        variables = {name: value for name, value in clean_env(variables).items() if value}
        for name in ("VIRTUAL_ENV", "PYTHONHOME"):
            variables.pop(name, None)
        done = subprocess.run(
            [str(self.python), *command],
            capture_output=True,
            text=True,
            env=variables,
            cwd=self.root,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def heliostat(self, *arguments: str, **env: str) -> str:
        return self.run("-c", "from heliostat.cli import main; main()", *arguments, **env)

    def offer_uv(self, is_there: bool) -> None:
        """Whether the node has uv."""
        (self.tools / "uv").unlink(missing_ok=True)
        if is_there:
            found = find_uv()
            if found is None:
                pytest.skip("this environment has no uv: the extra `default` brings it")
            (self.tools / "uv").symlink_to(found)


@pytest.fixture(params=["environment", "base", "checkout"], scope="module")
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    made = Installed(tmp_path_factory.mktemp(request.param), request.param)
    yield made
    shutil.rmtree(made.sessions)


def found_in(output: str) -> dict[str, dict[str, dict[str, str]]]:
    (line,) = (line for line in output.splitlines() if line.startswith("FOUND "))
    found: dict[str, dict[str, dict[str, str]]] = json.loads(line.removeprefix("FOUND "))
    return found


def check(installed: Installed, found: dict[str, dict[str, dict[str, str]]], *who: str) -> None:
    expected = {
        "heliostat": "there",
        "ray": "there",
        "of_driver": "1.0",
        "new": "1.0",
        "shadowed": "2.0",
        "of_base": "1.0" if installed.kind == "base" else "ModuleNotFoundError",
        "colorsys": "there",
    }
    assert sorted(found) == sorted(who)
    for one, processes in found.items():
        interpreters = {seen.pop("executable") for seen in processes.values()}
        assert len(interpreters) == 1, (one, interpreters)
        assert "runtime_resources/packages" in interpreters.pop()
        for process, seen in processes.items():
            assert seen == expected, (installed.kind, one, process)


# The field of the environment, and whether the node has uv.
TOOLS = pytest.mark.parametrize(
    ("tool", "has_uv"),
    [("pip", False), ("pip", True), ("uv", True)],
    ids=["pip", "pip by uv", "uv"],
)


@TOOLS
def test_whoever_runs_in_a_drivers_environment(
    installed: Installed, tool: str, has_uv: bool
) -> None:
    installed.offer_uv(has_uv)
    env = installed.environment(tool, "new", installed.newer, installed.colorsys)
    # Serve takes most of the time, and nothing in it depends on the installer.
    serve = {} if has_uv else {"SERVE": "1"}
    output = installed.run("code/main.py", ENVIRONMENT=json.dumps(env), **serve)
    check(installed, found_in(output), "task", "actor", *(["replica"] if serve else []))


@TOOLS
def test_an_entry_point_and_what_it_starts(installed: Installed, tool: str, has_uv: bool) -> None:
    installed.offer_uv(has_uv)
    env = installed.environment(tool, "new", installed.newer, installed.colorsys)
    ports = f"--port={free_port()}", f"--dashboard-port={free_port()}"
    installed.heliostat("start", "--head", "--num-cpus=4", *ports)
    try:
        submit = ("job", "submit", f"--runtime-env-json={json.dumps(env)}")
        output = installed.heliostat(*submit, "--", "python", str(installed.code / "main.py"))
    finally:
        installed.heliostat("stop", "--force")
    check(installed, found_in(output), "job", "task", "actor")


@TOOLS
def test_what_the_base_interpreter_has_is_not_installed_in_the_drivers_environment(
    installed: Installed, tool: str, has_uv: bool
) -> None:
    """Who asks for it gets it, be it a dependency: the newest, where the driver has none."""
    installed.offer_uv(has_uv)
    needs = make_wheel(installed.shelf, "needs_of_base", "1.0", requires="of_base")
    source = """
import json, os, ray
ray.init(num_cpus=1, logging_level="error", runtime_env=json.loads(os.environ["ENVIRONMENT"]))
def look():
    import needs_of_base, of_base
    return of_base.VALUE
print("FOUND", ray.get(ray.remote(look).remote()))
"""
    env = installed.environment(tool, needs)
    output = installed.run("-c", source, ENVIRONMENT=json.dumps(env))
    assert f"FOUND {'1.0' if installed.kind == 'base' else '2.0'}" in output


@TOOLS
def test_an_environment_that_would_exchange_heliostat_is_refused(
    installed: Installed, tool: str, has_uv: bool
) -> None:
    installed.offer_uv(has_uv)
    false = make_wheel(installed.shelf / "false", "ray", "9.0", value="'another'")
    source = """
import json, os, ray
ray.init(num_cpus=1, logging_level="error", runtime_env=json.loads(os.environ["ENVIRONMENT"]))
try:
    ray.get(ray.remote(lambda: 1).remote())
except ray.exceptions.RuntimeEnvSetupError as error:
    print("FOUND", "leave `ray` out of it" in str(error))
"""
    env = installed.environment(tool, false)
    assert "FOUND True" in installed.run("-c", source, ENVIRONMENT=json.dumps(env))
