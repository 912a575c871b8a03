"""Environment variables that users set, read when they are needed.

Each exists as ``HELIOSTAT_X`` and, for programs written for Ray, as ``RAY_X``; the first wins.
"""

from __future__ import annotations

import os
from pathlib import Path

TEMP_DIR = "/tmp/ray"
CURRENT_CLUSTER_FILE = "ray_current_cluster"  # in the temporary folder; `heliostat start` writes it
READY_FILE = "node.json"  # in a session's folder; its daemon writes it

_FALSE = ("", "0", "false", "no", "off")


def text(name: str) -> str | None:
    """The variable, or ``None``."""
    for prefix in ("HELIOSTAT_", "RAY_"):
        value = os.environ.get(prefix + name)
        if value is not None:
            return value
    return None


def flag(name: str, default: bool) -> bool:
    """The variable as a yes or no."""
    value = text(name)
    return default if value is None else value.strip().lower() not in _FALSE


def number(name: str, default: float) -> float:
    """The variable as a number."""
    value = text(name)
    if value is None or not value.strip():
        return default
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"RAY_{name}={value!r} is no number.") from None


def temp_dir(given: str | None = None) -> Path:
    """The folder of all sessions of this user."""
    if given:
        return Path(given).absolute()
    root = text("TMPDIR")
    return Path(root).absolute() / "ray" if root else Path(TEMP_DIR)
