"""The lock of what tasks install: it is as pyproject.toml asks, and each way to be wrong is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lock() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "xtask"))
    try:
        import lock

        yield lock
    finally:
        sys.path.pop(0)


def pyproject(lock: Any) -> Any:
    return lock.load_toml(ROOT / "pyproject.toml")


def texts(lock: Any) -> dict[str, str]:
    return {kind.name: lock.path(kind).read_text() for kind in lock.SETS}


def test_the_lock_is_what_pyproject_asks_for(lock: Any) -> None:
    assert list(lock.problems(pyproject(lock), texts(lock))) == []


def test_a_new_requirement_is_told_for_each_set_that_has_it(lock: Any) -> None:
    changed = pyproject(lock)
    changed["project"]["optional-dependencies"]["data"].append("new>=1")
    told = list(lock.problems(changed, texts(lock)))
    assert told == [
        f"requirements/{name}.txt is older than pyproject.toml: run `make lock`"
        for name in ("extras", "setup", "test")
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--index-url https://index.example/simple\n", "names an index"),
        ("numpy>=2\n", "no version and digest"),
        ("numpy==2.0\n", "no version and digest"),
    ],
)
def test_a_line_that_locks_nothing_is_told(lock: Any, line: str, said: str) -> None:
    changed = texts(lock)
    changed["dev"] += line
    told = list(lock.problems(pyproject(lock), changed))
    assert any(said in problem and "requirements/dev.txt" in problem for problem in told)


def test_a_missing_file_is_told(lock: Any) -> None:
    changed: dict[str, str | None] = {**texts(lock), "docs": None}
    (told,) = lock.problems(pyproject(lock), changed)
    assert told == "requirements/docs.txt is missing: run `make lock`"


WHEELS = {
    "a-1-py3-none-any.whl": True,
    "a-1-py2.py3-none-any.whl": True,
    "a-1-cp311-cp311-manylinux_2_28_x86_64.whl": True,
    "a-1-cp39-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64.whl": True,
    "a-1.tar.gz": True,
    "a-1-cp311-cp311-win_amd64.whl": False,
    "a-1-cp311-cp311-macosx_11_0_arm64.whl": False,
    "a-1-cp314-cp314t-manylinux_2_28_x86_64.whl": False,
    "a-1-cp39-cp39-manylinux_2_28_x86_64.whl": False,
    "a-1-cp311-cp311-musllinux_1_2_x86_64.whl": False,
}


@pytest.mark.parametrize(("name", "is_wanted"), WHEELS.items())
def test_digests_are_kept_of_files_that_can_be_installed(
    lock: Any, name: str, is_wanted: bool
) -> None:
    assert lock.is_wanted(name) == is_wanted


def test_a_package_for_other_systems_is_left_out(lock: Any) -> None:
    assert lock.is_possible(None)
    assert lock.is_possible("python_full_version < '3.11' and sys_platform == 'linux'")
    assert not lock.is_possible("sys_platform == 'win32'")
    assert not lock.is_possible("python_full_version < '3.10'")
