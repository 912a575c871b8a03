"""Every test runs somewhere: what `make test` has not the library of, `make test-extras` runs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.heliostat_only("the tasks of this repository")

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
# Modules whose distribution has another name.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "bayes_opt": "bayesian-optimization",
    "google_crc32c": "google-crc32c",
    "google.protobuf": "protobuf",
    "griffe": "griffelib",
    "lance": "pylance",
    "material": "mkdocs-material",
    "mkdocstrings_handlers": "mkdocstrings-python",
    "opentelemetry": "opentelemetry-sdk",
    "sklearn": "scikit-learn",
    "taskiq_redis": "taskiq-redis",
    "tensorboardX": "tensorboardx",
    "xgboost": "xgboost-cpu",
    "yaml": "pyyaml",
}


def locked(name: str) -> set[str]:
    """The distributions that a task installs."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    return set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))


def of_extras() -> set[str]:
    """The files of tests that `make test-extras` runs."""
    lists = re.findall(
        r"const OF_(?:EXTRAS|TENSORFLOW): .*?=\s+&?\[(.*?)\];",
        (ROOT / "xtask/src/releases.rs").read_text(),
        re.DOTALL,
    )
    assert len(lists) == 2
    return {file for body in lists for file in re.findall(r'"(.*?)"', body)}


def asked(file: Path) -> Iterator[str]:
    """The distributions without which a file skips tests, where it names their modules."""
    for node in ast.walk(ast.parse(file.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "importorskip"
            and isinstance(node.args[0], ast.Constant)
        ):
            module = node.args[0].value
            if not module.startswith("heliostat"):
                top = module if module in DISTRIBUTIONS else module.partition(".")[0]
                yield DISTRIBUTIONS.get(top, top)


def test_a_library_that_tests_need_is_installed_for_one_of_the_tasks() -> None:
    test, extras, listed = locked("test"), locked("extras"), of_extras()
    for file in sorted(TESTS.rglob("test_*.py")):
        name = str(file.relative_to(ROOT))
        for distribution in asked(file):
            if distribution not in test:
                assert name in listed, f"{name} is skipped everywhere: it needs {distribution}"
                assert distribution in extras, (
                    f"{name}: requirements/extras.txt has no {distribution}"
                )


def test_make_test_extras_names_files_that_are_there() -> None:
    assert [name for name in sorted(of_extras()) if not (ROOT / name).is_file()] == []


SKIPPED = """
import pytest

def test_skipped():
    pytest.skip("there is no ps")

@pytest.mark.skipif(True, reason="of make test: it is installed")
def test_of_make_test():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    assert False
"""
NOTHING = """
import pytest
pytest.importorskip("no_such_library_at_all")
"""


def run(folder: Path, text: str, extras: str) -> str:
    """What pytest says of a file, with this suite's conftest."""
    (folder / "test_it.py").write_text(text)
    path = os.pathsep.join((str(TESTS.parent), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.conftest",
            "-p",
            "no:cacheprovider",
            str(folder),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "HELIOSTAT_EXTRAS": extras},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def test_what_make_test_extras_skips_fails(tmp_path: Path) -> None:
    said = run(tmp_path, SKIPPED, "1")
    assert "skipped everywhere: Skipped: there is no ps" in said
    assert "1 failed, 1 skipped, 1 xfailed" in said
    assert "2 skipped, 1 xfailed" in run(tmp_path, SKIPPED, "")
    said = run(tmp_path, NOTHING, "1")
    assert "skipped everywhere: Skipped: could not import 'no_such_library_at_all'" in said
    assert "1 error" in said
    assert "1 skipped" in run(tmp_path, NOTHING, "")
