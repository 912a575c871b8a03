"""Environment variables that users set, read when they are needed.

Each exists as ``HELIOSTAT_X`` and, for programs written for Ray, as ``RAY_X``; the first wins.
"""

from __future__ import annotations

import os
import stat
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
    """The folder of all sessions, which users may share; the daemon's ``folder.rs`` finds the same.

    Where the usual one is another user's, who could exchange the sessions in it, it is one's own
    beside it: ``/tmp/ray_<uid>``.
    """
    if given:
        return Path(given).absolute()
    root = text("TMPDIR")
    usual = Path(root).absolute() / "ray" if root else Path(TEMP_DIR)
    return usual if _is_safe(usual) else usual.with_name(f"{usual.name}_{os.geteuid()}")


def _is_safe(folder: Path) -> bool:
    """Whether nobody else can exchange what lies in it; it need not be there yet."""
    me = os.geteuid()
    try:
        itself = folder.lstat()
        found = folder.stat()
    except FileNotFoundError:
        return not folder.is_symlink()
    except OSError:
        return False
    open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
    return (
        {itself.st_uid, found.st_uid} <= {0, me}
        and stat.S_ISDIR(found.st_mode)
        and (found.st_uid == me or not open_to_all)
    )


def is_own(path: Path) -> bool:
    """Whether a file or a folder is this user's, and no link to one."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode)
