"""F7.02, F7.03: code comes as archives and from URIs, and what cannot be had is one clear sentence."""

from __future__ import annotations

import functools
import http.server
import os
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig

from tests.helpers.harness import IS_HELIOSTAT, wait_until

CLUSTER = {"num_cpus": 4}
OURS = pytest.mark.heliostat_only("Ray takes folders and archives of single tasks from URIs only")


@ray.remote
def look(module: str | None = None) -> Any:
    import importlib
    import sys

    value = importlib.import_module(module).VALUE if module else None
    names = sorted(str(path) for path in Path().rglob("*") if "__pycache__" not in path.parts)
    return names, value, os.getcwd() in sys.path[:2]


def packed(path: Path, files: dict[str, str]) -> Path:
    """The files as an archive of the kind that its name says."""
    source = path.parent / f"{path.name}.source"
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    if path.suffix in (".zip", ".whl"):
        with zipfile.ZipFile(path, "w") as file:
            for name in files:
                file.write(source / name, name)
    else:
        with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz") as tar:
            for name in files:
                tar.add(source / name, name)
    return path


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Path, str, list[str]]]:
    """A server on loopback: its folder, its address, and the paths that it was asked for."""
    folder = tmp_path / "web"
    folder.mkdir()
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if self.path.endswith("torn.zip"):
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"PK")
                return
            super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    made = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@OURS
@pytest.mark.contract("F7.02")
@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tgz", "a.tar.xz"])
def test_a_working_dir_may_be_an_archive(ray_start: Any, tmp_path: Path, name: str) -> None:
    archive = packed(tmp_path / name, {"data.txt": "", "sub/of_an_archive.py": "VALUE = 7"})
    task = look.options(runtime_env={"working_dir": str(archive)})
    assert ray.get(task.remote("sub.of_an_archive"), timeout=60) == (
        ["data.txt", "sub", "sub/of_an_archive.py"],
        7,
        True,
    )


@OURS
@pytest.mark.contract("F7.02")
def test_a_task_has_the_folder_of_its_own_environment(ray_start: Any, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.txt").write_text("")
    names, _, is_first = ray.get(
        look.options(runtime_env={"working_dir": str(tmp_path / "work")}).remote(), timeout=60
    )
    assert names == ["mine.txt"]
    assert is_first


@OURS
@pytest.mark.contract("F7.03")
@pytest.mark.parametrize("name", ["p.zip", "p-1.0-py3-none-any.whl", "p.tar.gz"])
def test_py_modules_may_be_archives(ray_start: Any, tmp_path: Path, name: str) -> None:
    files = {"packed_package/__init__.py": "from packed_package.inner import VALUE"}
    archive = packed(tmp_path / name, {**files, "packed_package/inner.py": f"VALUE = {name!r}"})
    for place in (str(archive), archive.as_uri()):
        task = look.options(runtime_env={"py_modules": [place]})
        assert ray.get(task.remote("packed_package"), timeout=60)[1] == name


@OURS
@pytest.mark.contract("F7.02", "F7.03")
def test_archives_come_from_a_server_once_a_node(
    ray_start: Any, web: tuple[Path, str, list[str]]
) -> None:
    folder, address, asked = web
    # As archives of repositories are made: all that counts lies in one folder.
    packed(folder / "work.zip", {"repository-main/a.txt": "", "repository-main/b/c.txt": ""})
    packed(folder / "module.tar.gz", {"top/of_a_server.py": "VALUE = 'came'"})
    env = {"working_dir": f"{address}/work.zip?at=1", "py_modules": [f"{address}/module.tar.gz"]}
    actor = ray.remote(look._function).options(runtime_env=env, num_cpus=0.1)
    found = ray.get([actor.remote("of_a_server") for _ in range(8)], timeout=60)
    assert {str(one) for one in found} == {"(['a.txt', 'b', 'b/c.txt'], 'came', True)"}
    assert sorted(asked) == ["/module.tar.gz", "/work.zip?at=1"]


@OURS
@pytest.mark.contract("F7.07")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none.zip", "the server says 404"),
        ("torn.zip", "2 of 1000 bytes came"),
        ("text.zip", "cannot be unpacked"),
        ("evil.zip", "would lie outside of the folder"),
    ],
)
def test_what_a_server_does_not_give_is_the_error_of_the_task(
    ray_start: Any, web: tuple[Path, str, list[str]], name: str, says: str
) -> None:
    folder, address, _ = web
    (folder / "text.zip").write_text("no archive")
    with zipfile.ZipFile(folder / "evil.zip", "w") as file:
        file.writestr("fine.txt", "")
        file.writestr("../../evil.txt", "")
    uri, shelf = f"{address}/{name}", Path(session_dir()) / "working_dirs"
    before = {path.name for path in shelf.glob("*")}
    with pytest.raises(RuntimeEnvSetupError, match=says) as caught:
        ray.get(look.options(runtime_env={"working_dir": uri}).remote(), timeout=60)
    assert uri in str(caught.value)
    assert "Traceback" not in str(caught.value)
    made = {path.name for path in shelf.iterdir()} - before
    assert [name for name in made if not name.endswith(".lock")] == [], "nothing is half-made"


def session_dir() -> str:
    from heliostat import _heliostat

    return str(_heliostat.session()["session_dir"])


@OURS
@pytest.mark.contract("F7.02", "F7.03")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("ftp://host/a.zip", "the scheme ftp:// is not supported.*https://.*s3://"),
        ("https://host/a.rar", "must name an archive, which ends in one of .zip"),
        ("https://host/", "must name an archive"),
        ("file:///nowhere/a.zip", "no such file"),
        ("file://folder/a.zip", "three slashes"),
        ("/nowhere/a.tar.gz", "no such folder or archive"),
        (__file__, "must be a folder, an archive"),
    ],
)
def test_places_that_cannot_be_are_refused_at_once(given: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        look.options(runtime_env={"working_dir": given})
    if given != __file__:
        with pytest.raises(ValueError, match=says):
            look.options(runtime_env={"py_modules": [given]})


@OURS
@pytest.mark.contract("F7.03")
def test_py_modules_are_as_they_were(
    ray_start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders, files, and modules that are imported; what `excludes` names stays behind."""
    files = {
        "as_it_was/__init__.py": "VALUE = 1",
        "as_it_was/left.out": "",
        "one_file.py": "VALUE = 2",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import one_file  # type: ignore[import-not-found] # made above

    env = {"py_modules": [str(tmp_path / "as_it_was"), one_file], "excludes": ["*.out"]}

    @ray.remote(runtime_env=env)
    def both() -> Any:
        import as_it_was  # type: ignore[import-not-found] # made above
        import one_file

        folder = Path(as_it_was.__file__).parent
        there = sorted(path.name for path in folder.iterdir() if path.is_file())
        return as_it_was.VALUE, one_file.VALUE, there

    assert ray.get(both.remote(), timeout=60) == (1, 2, ["__init__.py"])
    (tmp_path / "as_it_was" / "__init__.py").write_text("VALUE = 3")
    assert ray.get(both.remote(), timeout=60)[0] == 1


@pytest.mark.contract("F7.06", "F7.07")
def test_a_setup_that_takes_too_long_is_given_up_at_once(ray_start: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}/code.zip"
        env = {"working_dir": uri, "config": {"setup_timeout_seconds": 1}}
        with pytest.raises(RuntimeEnvSetupError) as caught:
            ray.get(look.options(runtime_env=env).remote(), timeout=60)
    if IS_HELIOSTAT:
        says = "working_dir took more than the 1 s of setup_timeout_seconds"
        assert says in str(caught.value)
        assert "in a row" not in str(caught.value)


@pytest.mark.contract("F7.06")
def test_what_a_config_takes() -> None:
    with pytest.raises(ValueError, match="greater than zero"):
        look.options(runtime_env={"config": {"setup_timeout_seconds": 0}})
    with pytest.raises(TypeError, match="eager_install"):
        look.options(runtime_env={"config": {"eager_install": "no"}})
    look.options(runtime_env={"config": {"setup_timeout_seconds": -1, "eager_install": False}})


@OURS
@pytest.mark.contract("F7.06", "F7.08")
@pytest.mark.parametrize("is_eager", [True, False])
def test_an_environment_is_made_when_the_job_begins_or_when_it_is_needed(
    ray_fresh: Any, web: tuple[Path, str, list[str]], is_eager: bool
) -> None:
    folder, address, asked = web
    packed(folder / "work.zip", {"a.txt": "", "b.txt": ""})
    config = RuntimeEnvConfig(eager_install=is_eager)
    env = RuntimeEnv(working_dir=f"{address}/work.zip", config=config, env_vars={"A": "1"})
    ray_fresh(num_cpus=1, runtime_env=env)
    if is_eager:
        wait_until(lambda: asked == ["/work.zip"], what="the request")
    else:
        assert asked == []
    # A task's variables join the job's, and its code is the job's.
    task = look.options(runtime_env={"env_vars": {"B": "2"}})
    assert ray.get(task.remote(), timeout=60)[0] == ["a.txt", "b.txt"]
    assert asked == ["/work.zip"]
