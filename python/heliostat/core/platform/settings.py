"""Environment variables that users set, read when they are needed.

``docs/settings.md`` lists them. Names, defaults and ranges are in one table, ``helio-config`` in
Rust; each setting exists as ``HELIOSTAT_X`` and, for programs written for Ray, mostly as ``RAY_X``.
A value that a setting cannot have raises ``ValueError``, which names the variable and the range.
"""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING

from heliostat import _heliostat

if TYPE_CHECKING:
    from pathlib import Path

CURRENT_CLUSTER_FILE = "ray_current_cluster"  # in the temporary folder; `heliostat start` writes it
READY_FILE = "node.json"  # in a session's folder; its daemon writes it

logger = logging.getLogger("heliostat")

_warned: set[str] = set()  # sentences about variables that are not settings


def text(name: str) -> str:
    """The setting, a text or a word; empty where nothing is given and there is no default."""
    value = _heliostat.read_setting(name, os.environ)
    assert isinstance(value, str), name
    return value


def flag(name: str) -> bool:
    """The setting, a yes or no."""
    value = _heliostat.read_setting(name, os.environ)
    assert isinstance(value, bool), name
    return value


def number(name: str) -> float:
    """The setting, a number."""
    value = _heliostat.read_setting(name, os.environ)
    assert isinstance(value, float), name
    return value


def whole(name: str) -> int:
    """The setting, a whole number."""
    value = _heliostat.read_setting(name, os.environ)
    assert isinstance(value, int), name
    return value


def is_given(name: str) -> bool:
    """Whether the environment sets it, under the names that programs written for Ray know, too."""
    return any(os.environ.get(prefix + name) for prefix in ("HELIOSTAT_", "RAY_"))


def names_given() -> set[str]:
    """The names that :func:`is_given` finds given."""
    given = set()
    for variable, value in os.environ.items():
        if value and variable.startswith(("HELIOSTAT_", "RAY_")):
            given.add(variable.partition("_")[2])
    return given


def check() -> None:
    """Name the ``HELIOSTAT_*`` variables that are not settings, each once in a process.

    Raises ``ValueError`` for a value that a setting cannot have: before anything is started.
    """
    for sentence in _heliostat.check_settings(dict(os.environ)):
        if sentence not in _warned:
            _warned.add(sentence)
            logger.warning("%s", sentence)


def temp_dir(given: str | None = None) -> Path:
    """The folder of all sessions, which users may share; the daemon's ``folder.rs`` finds the same.

    Where the usual one is another user's, who could exchange the sessions in it, it is one's own
    beside it: ``/tmp/ray_<uid>``.
    """
    from pathlib import Path  # the zygote and all its copies do without

    if given:
        return Path(given).absolute()
    usual = Path(text("TMPDIR") or "/").absolute() / "ray"
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
