"""The documented contract: its lines, and the differences from Ray with reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

HERE = Path(__file__).parent
# Columns of the table of differences.
CELLS = ("operation", "ray", "heliostat")


@dataclass(frozen=True)
class Group:
    """A group of lines: id, then weight and subject."""

    name: str
    title: str
    lines: dict[str, tuple[str, str]]


def contract() -> list[Group]:
    """All groups, in order."""
    return [
        Group(name, fields.pop("title"), {i: (line[0], line[1]) for i, line in fields.items()})
        for name, fields in tomllib.loads((HERE / "contract.toml").read_text()).items()
    ]


def entries() -> list[dict[str, Any]]:
    """Each with the contract's ``ids``, a text for each of ``CELLS``, and ``at``: where snippets show it."""
    return list(tomllib.loads((HERE / "differences.toml").read_text()).get("difference", []))


def places() -> list[str]:
    """Where results differ: patterns such as ``f1.snippet.key.*``."""
    return [place for entry in entries() for place in entry.get("at", [])]


def pattern(place: str, patterns: Iterable[str]) -> str | None:
    """The pattern that names the place, if there is one: the difference is known."""
    return next((one for one in patterns if fnmatch(place, one)), None)
