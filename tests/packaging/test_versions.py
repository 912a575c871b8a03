"""Wheels for Pythons that are not here: names and PyO3's settings. Nothing is built."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def backend() -> Any:
    spec = importlib.util.spec_from_file_location(
        "heliostat_build", ROOT / "xtask" / "heliostat_build.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_running_python_names_its_files_itself(backend: Any) -> None:
    running = backend.RUNNING
    assert running == sys.version_info[:2]
    assert running.extension == "_heliostat" + sysconfig.get_config_var("EXT_SUFFIX")


def test_another_python_gets_the_names_that_it_looks_for(backend: Any) -> None:
    other = backend.Python.parse("3.14" if backend.RUNNING.minor != 14 else "3.13")
    number = f"3{other.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert other.tag == f"cp{number}-cp{number}-{platform}"
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
