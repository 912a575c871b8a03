"""Wheels for Pythons that are not here: names and PyO3's settings. Nothing is built."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.modules import loaded

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def backend() -> Any:
    return loaded(ROOT / "xtask" / "heliostat_build.py")


def test_the_running_python_names_its_files_itself(backend: Any) -> None:
    running = backend.RUNNING
    assert running == sys.version_info[:2]
    assert running.extension == "_heliostat" + sysconfig.get_config_var("EXT_SUFFIX")


def test_another_python_gets_the_names_that_it_looks_for(backend: Any) -> None:
    other = backend.Python.parse("3.14" if backend.RUNNING.minor != 14 else "3.13")
    number = f"3{other.minor}"
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert other.tag == f"cp{number}-cp{number}-{system}"
    ending = sysconfig.get_config_var("EXT_SUFFIX").split("-", 2)[2]  # x86_64-linux-gnu.so
    assert other.extension == f"_heliostat.cpython-{number}-{ending}"


def test_pyo3_is_told_what_it_cannot_ask(backend: Any, tmp_path: Path) -> None:
    other = backend.Python.parse("3.12")
    path = other.pyo3_config(tmp_path)
    told = dict(line.split("=", 1) for line in path.read_text().splitlines())
    assert told["implementation"] == "CPython"
    assert told["version"] == "3.12"
    assert told["pointer_width"] == "64"
    # PyO3 is built again when the file changes: it must not change for nothing.
    before = path.stat().st_mtime_ns
    assert other.pyo3_config(tmp_path) == path
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["3", "3.9", "2.7", "4.0", "3.12.1", "3.x", "python3.12", ""])
def test_what_is_no_version_is_refused(backend: Any, text: str) -> None:
    with pytest.raises(SystemExit, match=r"3\.12|3\.10"):
        backend.Python.parse(text)


@pytest.mark.parametrize(
    ("asked", "tag", "machine"),
    [
        ("2.17-x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64", "x86_64"),
        ("2.28-aarch64", "manylinux_2_28_aarch64", "aarch64"),
    ],
)
def test_wheels_for_older_systems_and_other_machines(
    backend: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    asked: str,
    tag: str,
    machine: str,
) -> None:
    monkeypatch.setenv("MANYLINUX", asked)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.setattr(backend, "SYSTEM", backend.Manylinux.asked())
    python = backend.Python.parse("3.12")
    assert python.tag == f"cp312-cp312-{tag}"
    assert python.extension.endswith(f"-{machine}-linux-gnu.so")
    ran: list[list[str]] = []
    built = tmp_path / f"{machine}-unknown-linux-gnu/release"
    built.mkdir(parents=True)
    for name in ("lib_heliostat.so", "heliostat"):
        (built / name).touch()

    def start(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(backend.subprocess, "run", start)
    monkeypatch.setattr(backend.shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="pip install ziglang cargo-zigbuild"):
        backend.cargo("release", python)
    monkeypatch.setattr(backend.shutil, "which", lambda name: name)
    assert backend.cargo("release", python) == (built / "lib_heliostat.so", built / "heliostat")
    target = f"{machine}-unknown-linux-gnu.{asked.partition('-')[0]}"
    assert ran[0][:4] == ["cargo", "zigbuild", "--target", target]


@pytest.mark.parametrize("asked", ["2", "3.1", "2.17-arm", "glibc"])
def test_what_is_no_system_is_refused(
    backend: Any, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("MANYLINUX", asked)
    with pytest.raises(SystemExit, match=r"2\.17-aarch64"):
        backend.Manylinux.asked()


def test_addresses_come_from_the_environment(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPOSITORY_URL", raising=False)
    assert "Project-URL" not in backend.metadata(backend.project())
    monkeypatch.setenv("REPOSITORY_URL", "https://git.example/field/heliostat/")
    said = backend.metadata({**backend.project(), "linked": True}).partition("\n\n")[0]
    assert "Project-URL: Source, https://git.example/field/heliostat\n" in said
    assert "License-File: THIRD-PARTY-NOTICES.txt" in said


def test_a_wheel_of_the_same_inputs_is_not_packed_again(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = tmp_path / "lib_heliostat.so", tmp_path / "heliostat"
    for path in built:
        path.write_bytes(b"code")
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    monkeypatch.setattr(backend, "cargo", lambda *_: built)
    folder = tmp_path / "dist"

    def packed() -> tuple[int, str]:
        path = folder / backend.pack(str(folder), backend.RUNNING)
        return path.stat().st_ino, hashlib.sha256(path.read_bytes()).hexdigest()

    first = packed()
    assert packed() == first, "the file itself"
    wheel = next(folder.glob("*.whl"))
    wheel.write_bytes(b"cut off")
    assert packed()[1] == first[1], "somebody changed it: it is packed again"
    built[0].write_bytes(b"new code")
    assert packed()[1] != first[1]


def test_every_crate_that_is_linked_is_named_with_its_licence(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "xtask"))
    import notices

    said = notices.text(platform.machine())
    assert re.search(r"^pyo3 [\d.]+: ", said, re.MULTILINE)
    assert re.search(r"^tokio [\d.]+: MIT; ", said, re.MULTILINE)
    assert "Copyright (c) 2015-present Jason Miller" in said, "the page's scripts"
    assert not re.search(r"^(syn|serde_derive|loom|helio-node) ", said, re.MULTILINE)
    named = re.findall(r"^[\w-]+ [\w.+-]+: (.*); ", said.partition("-" * 80)[0], re.MULTILINE)
    assert all(named)
    silent = re.search(r"^blake2b_simd [\d.]+\n\nThe MIT License", said, re.MULTILINE)
    assert silent, "a crate without a text of its licence has MIT's, with its authors"
