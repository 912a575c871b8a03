"""Every library that is used was decided on, and the decision is written down."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text()


def names() -> list[str]:
    """The libraries from outside: those of the workspace, and the package's own."""
    if sys.version_info < (3, 11):
        import tomli as tomllib
    else:
        import tomllib
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        *(name for name in cargo if not name.startswith("helio-")),
        *(re.split(r"[^\w-]", needed)[0] for needed in project["dependencies"]),
    ]


def test_there_are_some() -> None:
    assert {"tokio", "pyo3", "cloudpickle"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_the_decision_names_it(name: str) -> None:
    assert f"`{name}`" in PAGE, f"{name}: one line in docs/decisions/0001-dependencies.md"
