"""Packages of a runtime environment: a folder with an interpreter of its own for each set of them.

The folder is made by the first process that needs it and kept for later ones, also of later sessions:
``<temp dir>/runtime_resources/packages/<hash>``. Who uses one holds a shared lock; when there are more
than :data:`FOLDERS_MAX`, those that nobody uses go, the longest unused first.

A build that fails leaves nothing there. Its words stay with the session, so that whoever asks for the same
in the same job, waiting already or later, hears them instead of trying again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heliostat.core.runtime_env import interpreters, progress, version_locks
from heliostat.core.runtime_env.interpreters import InstallError
from heliostat.core.worker.preparation import WORKING_DIR

FOLDERS_MAX = 10
# A line of a requirements file that names another one.
_FILE = re.compile(r"(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
_FIELDS = {
    "pip": ("packages", "pip_check", "pip_version", "pip_install_options"),
    "uv": ("packages", "uv_check", "uv_version", "uv_pip_install_options"),
}

# In a folder: what it was made of, and a byte for each process that has used it.
_ABOUT, _USES = "about.json", "uses"

# How much of the packages' names is said while they are installed.
_NAMES_MAX = 100

# How many files of a local package are looked at to see whether it has changed.
_FILES_MAX = 10_000


@dataclass(frozen=True)
class Environment:
    """An interpreter with packages, which stays as long as this process lives."""

    folder: Path
    python: Path


# Held for as long as the process lives, so that the folders in use stay.
_locks: list[TextIO] = []

# Environments that this process is making.
_drafts: list[Path] = []


def normal(tool: str, given: Any) -> dict[str, Any]:
    """The field ``pip`` or ``uv`` as a dictionary: a list, a requirements file, a lock, or one already."""
    field = f"runtime_env[{tool!r}]"
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if not path.is_file():
            raise ValueError(f"{field} = {str(given)!r}: no such file")
        if path.suffix == ".toml":
            return {"packages": version_locks.lines_of(path)}
        lines = (line.strip() for line in path.read_text().splitlines())
        return {"packages": [line for line in lines if line and not line.startswith("#")]}
    if isinstance(given, list):
        return {"packages": _texts(field, given)}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{field} must be a list of packages, the path of a requirements file, or a dictionary, "
            f"got {type(given)}"
        )
    unknown = set(given) - set(_FIELDS[tool])
    if unknown or "packages" not in given:
        raise ValueError(
            f"{field} must have 'packages' and may have {_FIELDS[tool][1:]}, got {sorted(given)}"
        )
    packages = given["packages"]
    found = normal(tool, packages) if isinstance(packages, str) else {"packages": packages}
    return {**given, "packages": _texts(field, found["packages"])}


def _texts(field: str, packages: Any) -> list[str]:
    if not isinstance(packages, list) or not all(isinstance(name, str) for name in packages):
        raise TypeError(f"{field} must name packages as a list of strings, got {packages!r}")
    return list(packages)


def have(tool: str, wanted: Mapping[str, Any], working_dir: str | None = None) -> Environment:
    """The environment with these packages, made if it is not there.

    ``working_dir`` is what ``${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}`` stands for in files of names.
    Raises :class:`InstallError`.
    """
    # The installer reads the files itself.
    files = _requirement_files(wanted["packages"], working_dir) if working_dir is not None else {}
    local = [_state(name, working_dir) for name in wanted["packages"]]
    asked = [wanted, *files.items(), *local]
    lock = version_locks.name_of(tool, [wanted, *files.values()])
    what = [*asked, interpreters.fingerprint()]
    folder = have_made(
        tool, what, lambda folder: _make(tool, wanted, folder, lock, working_dir), asked
    )
    version_locks.offer(lock, folder)
    return Environment(folder, folder / "bin" / "python")


def have_made(tool: str, what: Any, make: Callable[[Path], None], asked: Any = None) -> Path:
    """The folder of an environment, which is made if it is not there: whole, or not at all.

    ``what`` tells it from others. ``asked`` is the part of it that users wrote: where this process runs in
    an environment that was made for the same, as the workers of a job's entry point do, that one is it.
    Raises :class:`InstallError`. The lock on the folder outlives this program where the process becomes
    another one.
    """
    session = Path(os.environ["HELIOSTAT_SESSION_DIR"]).resolve()
    shelf = shelf_of(session.parent)
    shelf.mkdir(parents=True, exist_ok=True)
    asked = _digest(tool, asked) if asked is not None else ""
    here = Path(sys.prefix)
    is_here = bool(asked) and here.parent == shelf and _about(here).get("asked") == asked
    key = here.name if is_here else _digest(tool, what)
    folder, failure = shelf / key, _Failure(session, key)
    lock = open(shelf / f"{key}.lock", "w")  # noqa: SIM115 - held for life
    os.set_inheritable(lock.fileno(), True)
    fcntl.flock(lock, fcntl.LOCK_SH)
    if not (folder / "ready").exists():
        # A lock of its own: the one above is held for life by whoever was here first, and never free again.
        with open(shelf / f"{key}.making", "a+") as maker:
            _await_turn(maker)
            if not (folder / "ready").exists():
                failure.tell()
                begun = time.monotonic()
                _make_or_leave_nothing(folder, failure, lambda: make(folder))
                _tell(folder, tool, what, asked, time.monotonic() - begun)
                _make_room(shelf, key)
    os.utime(folder)
    _locks.append(lock)
    progress.count(_about(folder).get("size", 0))
    with contextlib.suppress(OSError), open(folder / _USES, "ab") as uses:
        uses.write(b".")
    return folder


def _digest(tool: str, what: Any) -> str:
    return hashlib.sha256(json.dumps([tool, what], sort_keys=True).encode()).hexdigest()[:20]


def _await_turn(maker: TextIO) -> None:
    """Wait until nobody else makes the environment, and have the others know who does now."""
    try:
        fcntl.flock(maker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        maker.seek(0)
        progress.step(f"waits for pid {maker.read()}, which makes the same environment")
        fcntl.flock(maker, fcntl.LOCK_EX)
        progress.done()
    maker.truncate(0)
    maker.write(str(os.getpid()))
    maker.flush()


def shelf_of(temp_dir: Path) -> Path:
    """The folder of the environments of all sessions in a folder of sessions."""
    return temp_dir / "runtime_resources" / "packages"


class InstalledEnvironment(NamedTuple):
    """An environment of this machine. Sizes in bytes, times in seconds (since the epoch, or long)."""

    id: str
    state: str  # ready, making, failed, torn (of a process that was killed)
    tool: str
    packages: list[str]
    size: int
    built_s: float | None
    uses: int
    last_used: float
    error: str


def all_made(shelf: Path) -> list[InstalledEnvironment]:
    """The environments there are, those used last first, then builds of running sessions that failed."""
    found = []
    for folder in shelf.iterdir() if shelf.is_dir() else ():
        if folder.is_dir():
            with contextlib.suppress(OSError):  # one that goes just now
                found.append(_look_at(folder))
    for path in shelf.parent.parent.glob("session_2*/failed_environments/*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            told = json.loads(path.read_text())
            key = path.stem.partition("-")[2]
            found.append(
                InstalledEnvironment(key, "failed", "", [], 0, None, 0, told["when"], told["error"])
            )
    return sorted(found, key=lambda one: (one.state == "failed", -one.last_used))


def _look_at(folder: Path) -> InstalledEnvironment:
    about = _about(folder)
    state = "ready" if (folder / "ready").exists() else "torn"
    if state == "torn" and _is_locked(folder.with_suffix(".making")):
        state = "making"
    uses = (folder / _USES).stat().st_size if (folder / _USES).exists() else 0
    return InstalledEnvironment(
        folder.name,
        state,
        about.get("tool", ""),
        about.get("packages", []),
        about.get("size") or _size(folder),
        about.get("built_s"),
        uses,
        folder.stat().st_mtime,
        "",
    )


def _about(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads((folder / _ABOUT).read_text()))
    return {}


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def _is_locked(path: Path) -> bool:
    try:
        with open(path) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _tell(folder: Path, tool: str, what: Any, asked: str, built_s: float) -> None:
    """Write down what is in a folder, for those who list them."""
    wanted = what[0] if isinstance(what, list) and what and isinstance(what[0], Mapping) else {}
    about = {
        "tool": tool,
        "asked": asked,
        "packages": list(wanted.get("packages", [])),
        "built_s": built_s,
        "size": _size(folder),
    }
    with contextlib.suppress(OSError):
        (folder / _ABOUT).write_text(json.dumps(about))


def remove(folder: Path) -> bool:
    """Remove an environment; false while somebody uses it."""
    with open(folder.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        shutil.rmtree(folder)
        return True


def enter_variables(env: Environment) -> dict[str, str]:
    """The variables by which programs find the environment's interpreter first."""
    path = os.environ.get("PATH", os.defpath)
    return {
        "VIRTUAL_ENV": str(env.folder),
        "PATH": os.pathsep.join([str(env.folder / "bin"), path]),
    }


def leave_nothing() -> None:
    """End what installs for this process, and remove what it has made so far."""
    if (installers := sys.modules.get("heliostat.core.runtime_env.installers")) is not None:
        installers.stop()
    for folder in _drafts:
        _discard(folder)


def _discard(folder: Path) -> None:
    """Have a folder of this machine's environments gone. Its files, thousands, another process removes: what
    this one has to say does not wait for that."""
    import subprocess

    bin_ = folder.parent.parent / "removed"
    try:
        bin_.mkdir(exist_ok=True)
        folder.rename(bin_ / f"{folder.name}-{secrets.token_hex(8)}")
        # Those too of which somebody was ended in the middle.
        gone = [str(path) for path in bin_.iterdir()]
        subprocess.Popen(
            ["rm", "-rf", "--", *gone], start_new_session=True, stderr=subprocess.DEVNULL
        )
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


class _Failure:
    """The failure of a build for this job: a file of the session, read for a while."""

    def __init__(self, session: Path, key: str) -> None:
        job = os.environ.get("HELIOSTAT_WORKER_JOB", "none")
        self._path = session / "failed_environments" / f"{job}-{key}.json"

    def tell(self) -> None:
        """Raise it if there is one that still counts."""
        from heliostat.core.platform import settings

        with contextlib.suppress(OSError, ValueError):
            told = json.loads(self._path.read_text())
            age, limit = time.time() - told["when"], settings.whole(_REMEMBERED)
            if 0 <= age < limit:
                raise InstallError(told["error"])

    def keep(self, error: str) -> None:
        """Leave the error for others who wait; a full disk must not hide it behind another one."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            draft = self._path.with_suffix(f".{secrets.token_hex(8)}.part")
            draft.write_text(json.dumps({"when": time.time(), "error": error}))
            draft.replace(self._path)


_REMEMBERED = "BAD_RUNTIME_ENV_CACHE_TTL_SECONDS"


def _make_or_leave_nothing(folder: Path, failure: _Failure, make: Callable[[], None]) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of somebody who was killed
    _drafts.append(folder)
    try:
        make()
        (folder / "ready").touch()
    except (InstallError, OSError) as error:
        failure.keep(str(error))
        leave_nothing()
        raise InstallError(str(error)) from error
    except BaseException:
        leave_nothing()
        raise
    finally:
        _drafts.remove(folder)
        progress.done()


def _make(
    tool: str,
    wanted: Mapping[str, Any],
    folder: Path,
    lock: str,
    working_dir: str | None,
) -> None:
    python = interpreters.make(folder)
    # Files that installers write beside go with the folder, should they be killed.
    scratch = folder / "tmp"
    scratch.mkdir()
    env = {**os.environ, "TMPDIR": str(scratch)}
    if working_dir is not None:
        env[WORKING_DIR] = working_dir
    versions = version_locks.of_cluster(lock)
    names = ", ".join(wanted["packages"])
    progress.step(f"installs {names if len(names) <= _NAMES_MAX else names[:_NAMES_MAX] + '…'}")
    _install(tool, wanted, python, folder, env, versions)
    version_locks.record(folder, interpreters.packages_of(folder))
    interpreters.check(python)
    shutil.rmtree(scratch)


def _install(
    tool: str,
    wanted: Mapping[str, Any],
    python: Path,
    folder: Path,
    env: Mapping[str, str],
    lock: str,
) -> None:
    from heliostat.core.runtime_env import (
        installers,  # loads much, and most find what they need made
    )

    # A list with hashes names the files themselves.
    if lock and not any("--hash" in line for line in wanted["packages"]):
        # One of another platform may not suit this one.
        with contextlib.suppress(InstallError):
            installers.install(tool, wanted, python, folder, env, lock)
            return
    installers.install(tool, wanted, python, folder, env)


def _state(name: str, working_dir: str | None) -> list[tuple[str, int, int]]:
    """The files of a package that lies on this machine, and when they were written."""
    place = name.removeprefix("-e ").strip().partition(" @ ")
    text = (place[2] or place[0]).removeprefix("file://").partition("[")[0]
    path = Path(working_dir or os.getcwd(), text.replace(f"${{{WORKING_DIR}}}", working_dir or ""))
    if os.sep not in text or not path.exists():
        return []
    found = []
    for one in [path] if path.is_file() else sorted(path.rglob("*"))[:_FILES_MAX]:
        with contextlib.suppress(OSError):
            state = one.stat()
            if one.is_file() and "__pycache__" not in one.parts:
                found.append((str(one), state.st_size, state.st_mtime_ns))
    return found


def _requirement_files(names: list[str], working_dir: str) -> dict[str, str]:
    """The files that lines such as ``-r path`` lead to, and what is in them."""
    found: dict[str, str] = {}
    left = [(name, Path(working_dir)) for name in names]
    while left:
        line, around = left.pop()
        if match := _FILE.match(line.strip()):
            path = around / match[1].replace(f"${{{WORKING_DIR}}}", working_dir)
            if str(path) not in found and path.is_file():
                found[str(path)] = path.read_text()
                left += [(inner, path.parent) for inner in found[str(path)].splitlines()]
    return found


def _make_room(shelf: Path, keep: str) -> None:
    folders = sorted(
        (path for path in shelf.iterdir() if path.is_dir() and path.name != keep),
        key=lambda path: ((path / "ready").exists(), path.stat().st_mtime),
    )
    torn = sum(not (path / "ready").exists() for path in folders)
    for folder in folders[: max(torn, len(folders) + 1 - FOLDERS_MAX)]:
        with contextlib.suppress(OSError):
            remove(folder)
