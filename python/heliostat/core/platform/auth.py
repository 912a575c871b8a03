"""The cluster's token: every connection shows it (AUTH-1).

A cluster that was started with ``AUTH_MODE=disabled`` asks nobody for one. Its processes show each other
``OPEN_TOKEN``, which is not a secret.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from heliostat import _heliostat
from heliostat.core.platform import settings

OPEN_TOKEN = _heliostat.OPEN_TOKEN
TOKEN_BYTES = 32
SESSION_FILE = "auth_token"  # in a session's folder; its daemon puts it there


def token_file() -> Path:
    """The file of this user's token."""
    named = settings.text("AUTH_TOKEN_PATH")
    return Path(named).expanduser() if named else Path.home() / ".heliostat" / "auth_token"


def token_of(session_dir: str) -> str:
    """The token for a local session's cluster: the one the user names, else the session's own.

    Where the session asks for none, nor does this process.
    """
    found = ""
    with contextlib.suppress(OSError):
        found = (Path(session_dir) / SESSION_FILE).read_text().strip()
    named = settings.text("AUTH_TOKEN") or settings.text("AUTH_TOKEN_PATH")
    if found and (found == OPEN_TOKEN or not named):
        return found
    return token(create=False)


def is_disabled() -> bool:
    """Whether clusters that this process starts ask nobody for a token."""
    return settings.text("AUTH_MODE") == "disabled"


def token(create: bool) -> str:
    """The token from the environment or the user's file; with ``create``, a new one if need be."""
    if is_disabled():
        return OPEN_TOKEN
    given = settings.text("AUTH_TOKEN")
    if given and given.strip():
        return given.strip()
    path = token_file()
    with contextlib.suppress(FileNotFoundError):
        found = path.read_text().strip()
        if found:
            return found
    if not create or settings.text("AUTH_TOKEN_PATH"):
        from heliostat.core.errors import AuthenticationError

        raise AuthenticationError(
            f"There is no authentication token: neither HELIOSTAT_AUTH_TOKEN is set nor is there one "
            f"in {path}. Use the token of the cluster's head node."
        )
    return _create(path)


def token_of_a_session() -> str:
    """The token for a session that this process starts.

    It is the user's, or one of its own where none can be kept: a home that is full, read-only or not there.
    The session's folder has it for the user's other drivers.
    """
    try:
        return token(create=True)
    except OSError:
        return _fresh()


def _fresh() -> str:
    import secrets

    return secrets.token_hex(TOKEN_BYTES)


def _create(path: Path) -> str:
    """A new token; where two processes do this at once, both use the one that came first."""
    import secrets

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(_fresh() + "\n")
    try:
        os.link(fresh, path)
    except FileExistsError:
        if not path.read_text().strip():
            os.replace(fresh, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
    return path.read_text().strip()
