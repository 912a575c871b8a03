"""Packages that a task, an actor or a job asks for by ``pip``."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RuntimeEnvSetupError

from tests.helpers import wheels
from tests.helpers.harness import IS_HELIOSTAT, wait_until

CLUSTER = {"num_cpus": 4}
pytestmark = pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's installer wants an index")

OFFLINE = ["--no-index", "--no-deps"]


@pytest.fixture
def wheel(tmp_path: Path) -> str:
    """A wheel of one module, made by hand: there is no index to be asked."""
    files = {"heliostat_sample.py": "VALUE = 'installed'\n"}
    return str(wheels.made(tmp_path, "heliostat_sample", files))


@ray.remote
def look() -> tuple[str | None, str | None]:
    try:
        import heliostat_sample  # type: ignore[import-not-found] # there in its worker only
    except ImportError:
        return None, os.environ.get("VIRTUAL_ENV")
    return heliostat_sample.VALUE, os.environ.get("VIRTUAL_ENV")


@pytest.mark.contract("F7.04")
def test_packages_of_one_task(ray_fresh: Any, wheel: str, tmp_path: Path) -> None:
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "sessions"))
    env = {"pip": {"packages": [wheel], "pip_install_options": OFFLINE, "pip_check": False}}
    value, folder = ray.get(look.options(runtime_env=env).remote())
    assert value == "installed"
    assert folder is not None
    assert ray.get(look.remote())[0] is None
    # A second worker of the same environment finds it there.
    actor = ray.remote(type("Actor", (), {"look": lambda self: look._function()}))
    assert ray.get(actor.options(runtime_env=env).remote().look.remote()) == (value, folder)
    ready = [*(tmp_path / "sessions").glob("runtime_resources/packages/*/ready")]
    assert len(ready) == 1


@pytest.mark.contract("F7.04", "F7.07")
def test_what_cannot_be_installed(ray_fresh: Any, tmp_path: Path) -> None:
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "sessions"))
    env = {
        "pip": {"packages": ["/nowhere/no-1.0-py3-none-any.whl"], "pip_install_options": OFFLINE}
    }
    with pytest.raises(RuntimeEnvSetupError, match="nowhere") as caught:
        ray.get(look.options(runtime_env=env).remote())
    text = str(caught.value)
    by_pip, by_uv = "ERROR: Could not install packages due to an OSError", "error: Distribution not"
    assert by_pip in text or by_uv in text
    assert "worker_main.py" not in text, "the installer's words, not where we called it"
    assert ray.get(look.remote())[0] is None


@pytest.mark.contract("F7.04", "F7.07")
def test_a_build_that_fails(ray_fresh: Any, tmp_path: Path) -> None:
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "sessions"))
    source = tmp_path / "broken"
    source.mkdir()
    (source / "setup.py").write_text("raise RuntimeError('a library is missing')\n")
    options = [*OFFLINE, "--no-build-isolation"]
    env = {"pip": {"packages": [str(source)], "pip_install_options": options}}
    with pytest.raises(RuntimeEnvSetupError) as caught:
        ray.get(look.options(runtime_env=env).remote())
    assert "RuntimeError: a library is missing" in str(caught.value)


BROKEN = """
import os
with open(os.environ["TRIES"], "a") as file:
    print(os.environ["TMPDIR"], file=file)
raise RuntimeError("a library is missing")
"""


def broken(tmp_path: Path) -> dict[str, Any]:
    source = tmp_path / "broken"
    source.mkdir()
    (source / "setup.py").write_text(BROKEN)
    options = [*OFFLINE, "--no-build-isolation"]
    return {"pip": {"packages": [str(source)], "pip_install_options": options}}


def tries(tmp_path: Path) -> list[str]:
    return (tmp_path / "tries").read_text().splitlines()


@pytest.mark.contract("F7.04", "F7.07")
def test_a_build_that_fails_runs_once_for_all_who_ask(
    ray_fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIES", str(tmp_path / "tries"))
    temp = tmp_path / "sessions"
    env = broken(tmp_path)
    ray_fresh(num_cpus=4, _temp_dir=str(temp), runtime_env=env)
    actor = ray.remote(type("Actor", (), {"look": lambda self: 1}))
    asked = [look.remote() for _ in range(4)]
    asked += [actor.remote().look.remote() for _ in range(2)]
    for ref in asked:
        with pytest.raises((RuntimeEnvSetupError, ray.exceptions.ActorDiedError), match="library"):
            ray.get(ref, timeout=60)
    # Later in the same job, too.
    with pytest.raises(RuntimeEnvSetupError, match="a library is missing"):
        ray.get(look.remote(), timeout=60)
    (scratch,) = tries(tmp_path)
    assert not Path(scratch).exists()
    left = [path for path in (temp / "runtime_resources" / "packages").iterdir() if path.is_dir()]
    assert left == []
    # What was mended is tried again: it is another package.
    (tmp_path / "broken" / "setup.py").write_text(BROKEN.replace("library", "compiler"))

    def is_tried_again() -> bool:
        with pytest.raises(RuntimeEnvSetupError) as caught:
            ray.get(look.remote(), timeout=60)
        return "a compiler is missing" in str(caught.value)

    # A worker that was on its way before tells of what it found.
    wait_until(is_tried_again, what="the mended package is tried")
    assert len(tries(tmp_path)) == 2


@pytest.mark.contract("F7.04", "F7.06")
def test_an_installation_that_takes_too_long_leaves_nothing(
    ray_fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIES", str(tmp_path / "tries"))
    temp = tmp_path / "sessions"
    ray_fresh(num_cpus=2, _temp_dir=str(temp))
    env = {**broken(tmp_path), "config": {"setup_timeout_seconds": 5}}
    setup = tmp_path / "broken" / "setup.py"
    setup.write_text(BROKEN.replace("raise", "import time; time.sleep(1000); raise"))
    with pytest.raises(RuntimeEnvSetupError, match="setup_timeout_seconds"):
        ray.get(look.options(runtime_env=env).remote(), timeout=100)
    # On a busy machine the time may be up before the build has begun.
    begun = tries(tmp_path) if (tmp_path / "tries").exists() else []
    assert not any(Path(scratch).exists() for scratch in begun)
    left = [path for path in (temp / "runtime_resources" / "packages").iterdir() if path.is_dir()]
    assert left == []


@pytest.mark.contract("F7.04")
def test_a_wheel_that_was_built_again_is_another_package(
    ray_fresh: Any, wheel: str, tmp_path: Path
) -> None:
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "sessions"))
    env = {"pip": {"packages": [wheel], "pip_install_options": OFFLINE}}
    assert ray.get(look.options(runtime_env=env).remote())[0] == "installed"
    with zipfile.ZipFile(wheel) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(wheel, "w") as file:
        for name, data in members.items():
            file.writestr(name, data.replace(b"'installed'", b"'again'"))
    # Another variable is another kind of worker, which looks for its packages anew.
    env["env_vars"] = {"A": "1"}
    assert ray.get(look.options(runtime_env=env).remote())[0] == "again"


@pytest.mark.contract("F7.04", "F7.05")
@pytest.mark.parametrize(
    ("env", "error"),
    [
        ({"pip": ["a"], "uv": ["b"]}, ValueError),
        ({"pip": "/nowhere/requirements.txt"}, ValueError),
        ({"pip": {"pip_check": True}}, ValueError),
        ({"pip": {"packages": ["a"], "odd": 1}}, ValueError),
        ({"pip": [3]}, TypeError),
        ({"uv": 3}, TypeError),
    ],
)
def test_wrong_lists(env: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        look.options(runtime_env=env)


@pytest.mark.contract("F7.04")
def test_a_requirements_file(tmp_path: Path) -> None:
    from heliostat.core.runtime_env.packages import normal

    path = tmp_path / "requirements.txt"
    path.write_text("# comment\nnumpy>=1\n\npandas\n")
    assert normal("pip", str(path)) == {"packages": ["numpy>=1", "pandas"]}


@pytest.mark.contract("F15.02", "F7.04")
@pytest.mark.parametrize(
    "line", ["${%s}/heliostat_sample-1.0-py3-none-any.whl", "-r ${%s}/all.txt"]
)
def test_packages_that_lie_in_the_working_dir(
    ray_fresh: Any, wheel: str, tmp_path: Path, line: str
) -> None:
    name = "RAY_RUNTIME_ENV_CREATE_WORKING_DIR"
    ray_fresh(num_cpus=2, _temp_dir=str(tmp_path / "sessions"))
    folder = tmp_path / "work"
    folder.mkdir()
    Path(wheel).rename(folder / Path(wheel).name)
    (folder / "all.txt").write_text("-r more.txt\n")
    (folder / "more.txt").write_text(f"${{{name}}}/{Path(wheel).name}\n")
    env = {
        "working_dir": str(folder),
        "env_vars": {name: "0"},  # the worker's own
        "pip": {"packages": [line % name], "pip_install_options": OFFLINE},
    }

    @ray.remote(runtime_env=env)
    def both() -> Any:
        return look._function()[0], os.environ.get(name)

    assert ray.get(both.remote()) == ("installed", "0")
    # Another content of the files is another environment.
    (folder / "more.txt").write_text("")
    if "all.txt" in line:
        assert (
            ray.get(both.options(runtime_env={**env, "env_vars": {"A": "1"}}).remote())[0] is None
        )


def test_workers_that_find_no_environment_at_once_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for the maker goes on when it is made, not when the maker ends."""
    import fcntl
    import threading

    from heliostat.core.runtime_env import packages

    monkeypatch.setenv("HELIOSTAT_SESSION_DIR", str(tmp_path / "session"))
    really, both, began = fcntl.flock, threading.Barrier(2), threading.local()

    def flock(file: Any, how: int) -> None:
        really(file, how)
        if not hasattr(began, "met"):
            began.met = True
            both.wait(60)  # each has seen the folder's lock before one makes it

    monkeypatch.setattr(fcntl, "flock", flock)
    made: list[Path] = []
    found: list[Path] = []

    def worker() -> None:
        found.append(packages.have_made("pip", ["one"], lambda folder: made.append(make(folder))))

    def make(folder: Path) -> Path:
        folder.mkdir()
        return folder

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    while packages._locks:
        packages._locks.pop().close()  # held for life, which is not this process's
    assert len(made) == 1
    assert found == made * 2
