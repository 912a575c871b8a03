"""F7.02: the working_dir of a job is a copy of the folder as it was at ``init``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.helpers.harness import IS_HELIOSTAT


@ray.remote
def look(name: str) -> Any:
    found = Path(name)
    return (os.getcwd(), found.read_text() if found.is_file() else None)


@ray.remote
class Looker:
    def look(self, name: str) -> Any:
        return Path(name).read_text() if Path(name).is_file() else None

    def imported(self) -> Any:
        import of_the_working_dir  # type: ignore[import-not-found] # there in its worker only

        return of_the_working_dir.VALUE

    def names(self) -> list[str]:
        return sorted(str(path) for path in Path().rglob("*"))


def folder(at: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return at


@pytest.mark.contract("F7.02", "F15.02")
@pytest.mark.parametrize("change", ["edited", "deleted", "moved"])
def test_what_changes_after_init_changes_nothing_for_workers(
    ray_fresh: Any, tmp_path: Path, change: str
) -> None:
    work = folder(tmp_path / "work", {"data.txt": "old", "of_the_working_dir.py": "VALUE = 1"})
    ray_fresh(num_cpus=2, runtime_env={"working_dir": str(work)})
    before = Looker.remote()
    if change == "edited":
        folder(work, {"data.txt": "new", "of_the_working_dir.py": "VALUE = 2", "more.txt": "x"})
    elif change == "deleted":
        for path in work.iterdir():
            path.unlink()
    else:
        work.rename(tmp_path / "elsewhere")
    after = Looker.remote()
    for actor in (before, after):
        assert ray.get(actor.look.remote("data.txt"), timeout=60) == "old"
        assert ray.get(actor.look.remote("more.txt")) is None
        assert ray.get(actor.imported.remote()) == 1
    where, text = ray.get(look.remote("data.txt"))
    assert text == "old"
    assert where != str(work)
    ray.shutdown()
    if IS_HELIOSTAT:
        assert not os.path.exists(where), "the copy goes with the session"


@pytest.mark.contract("F7.02", "F7.03")
def test_what_is_ignored_is_left_out(ray_fresh: Any, tmp_path: Path) -> None:
    files = {
        ".gitignore": "*.log\n!kept.log\n/top\nbuild/\n# a comment\n\ndeep/**/x.txt\n",
        "a.py": "",
        "a.log": "",
        "kept.log": "",
        "top": "",
        "sub/top": "",
        "sub/b.log": "",
        "sub/.gitignore": "own.*\n",
        "sub/own.txt": "",
        "own.txt": "",
        "build/out.txt": "",
        "sub/build/out.txt": "",
        "deep/one/two/x.txt": "",
        "deep/one/y.txt": "",
        "excluded/file.txt": "",
        ".git/config": "",
        "venv/bin": "",
        "__pycache__/a.pyc": "",
        ".rayignore": "secret\n",
        "secret": "",
    }
    work = folder(tmp_path / "work", files)
    (work / "link").symlink_to(work / "sub")
    (work / "round").symlink_to(work)
    if not IS_HELIOSTAT:
        (work / "round").unlink()
    ray_fresh(num_cpus=1, runtime_env={"working_dir": str(work), "excludes": ["/excluded"]})
    names = [name for name in ray.get(Looker.remote().names.remote()) if os.sep not in name]
    expected = [".gitignore", ".rayignore", "a.py", "deep", "kept.log", "link", "own.txt", "sub"]
    assert [name for name in names if name != "round"] == expected
    found = ray.get(Looker.remote().names.remote())
    assert [name for name in found if name.startswith("deep")] == [
        "deep",
        "deep/one",
        "deep/one/two",
        "deep/one/y.txt",
    ]
    assert [name for name in found if name.startswith("sub")] == [
        "sub",
        "sub/.gitignore",
        "sub/top",
    ]


@pytest.mark.contract("F7.02")
@pytest.mark.heliostat_only("the variable bounds all of Ray's messages")
def test_a_folder_that_is_too_large_is_refused(
    ray_down: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = folder(tmp_path / "work", {"data.bin": "x" * 2000, "more.bin": "x" * 2000})
    monkeypatch.setenv("RAY_max_grpc_message_size", "3000")
    with pytest.raises(ValueError, match="Leave files out"):
        ray.init(address="local", num_cpus=1, runtime_env={"working_dir": str(work)})
    assert not ray.is_initialized()
    env = {"working_dir": str(work), "excludes": ["more.*"]}
    ray.init(address="local", num_cpus=1, runtime_env=env, include_dashboard=False)
    assert ray.get(look.remote("data.bin"))[1] == "x" * 2000
