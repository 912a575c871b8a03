"""The differences from Ray that are known, each with its reason: ``docs/differences.toml``."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

PATH = Path(__file__).parents[2] / "docs" / "differences.toml"


def entries() -> list[dict[str, Any]]:
    """Each with the contract's ``ids``, the ``reason``, and ``at``: where snippets show it."""
    return list(tomllib.loads(PATH.read_text()).get("difference", []))


def reasons() -> dict[str, str]:
    """Why results differ, by a pattern of places: ``snippet.key.*``."""
    return {place: entry["reason"] for entry in entries() for place in entry.get("at", [])}


def reason(place: str, patterns: dict[str, str]) -> str | None:
    """Why results differ at that place, if it is known."""
    return next((why for pattern, why in patterns.items() if fnmatch(place, pattern)), None)
