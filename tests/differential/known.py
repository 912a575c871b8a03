"""What the repository knows of the contract: its lines, and the differences from Ray with reasons."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

DOCS = Path(__file__).parents[2] / "docs"


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
        for name, fields in tomllib.loads((DOCS / "contract.toml").read_text()).items()
    ]


def entries() -> list[dict[str, Any]]:
    """Each with the contract's ``ids``, the ``reason``, and ``at``: where snippets show it."""
    return list(tomllib.loads((DOCS / "differences.toml").read_text()).get("difference", []))


def reasons() -> dict[str, str]:
    """Why results differ, by a pattern of places: ``snippet.key.*``."""
    return {place: entry["reason"] for entry in entries() for place in entry.get("at", [])}


def reason(place: str, patterns: dict[str, str]) -> str | None:
    """Why results differ at that place, if it is known."""
    return next((why for pattern, why in patterns.items() if fnmatch(place, pattern)), None)
