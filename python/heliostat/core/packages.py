"""Python packages of a runtime environment: a folder with a virtual environment for each set of them.

The folder is made by the first worker that needs it and kept for later ones, also of later sessions:
``<temp dir>/runtime_resources/packages/<hash>``. A worker holds a shared lock on the folders it uses;
when there are more than :data:`FOLDERS_MAX`, those that nobody uses go, the longest unused first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from heliostat.core.worker_setup import WORKING_DIR

FOLDERS_MAX = 10
# What an installer said last; with the line before it no more than the daemon keeps of a worker's output.
_OUTPUT_LINES = 18
# A line of a requirements file that names another one.
_FILE = re.compile(r"(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
_FIELDS = {
    "pip": ("packages", "pip_check", "pip_version", "pip_install_options"),
    "uv": ("packages", "uv_check", "uv_version", "uv_pip_install_options"),
}


class InstallError(RuntimeError):
    """The installer did not do it; the text is its own."""


# Held for as long as the process lives, so that the folders in use stay.
_locks: list[TextIO] = []


def normal(tool: str, given: Any) -> dict[str, Any]:
    """The field ``pip`` or ``uv`` as a dictionary: a list, a requirements file, or that already."""
    field = f"runtime_env[{tool!r}]"
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        if not path.is_file():
            raise ValueError(f"{field} = {str(given)!r}: no such file")
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


def enter(tool: str, wanted: Mapping[str, Any], working_dir: str | None = None) -> None:
    """Make the packages importable in this process, installing them if they are not there.

    ``working_dir`` is what ``${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}`` stands for in files of names.
    """
    # The installer reads the files itself; here they tell one set of packages from another.
    files = _requirement_files(wanted["packages"], working_dir) if working_dir is not None else {}
    session = Path(os.environ["HELIOSTAT_SESSION_DIR"]).resolve()
    shelf = session.parent / "runtime_resources" / "packages"
    shelf.mkdir(parents=True, exist_ok=True)
    base = [*site.getsitepackages(), sys.version, sys.prefix]
    parts = json.dumps([tool, wanted, base, *files.items()], sort_keys=True)
    key = hashlib.sha256(parts.encode()).hexdigest()[:20]
    folder = shelf / key
    lock = open(shelf / f"{key}.lock", "w")  # noqa: SIM115 - held for life
    fcntl.flock(lock, fcntl.LOCK_SH)
    if not (folder / "ready").exists():
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits for whoever is making it
        if not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(tool, wanted, folder, working_dir)
            (folder / "ready").touch()
            _make_room(shelf, key)
        fcntl.flock(lock, fcntl.LOCK_SH)
    os.utime(folder)
    _locks.append(lock)
    places = [str(path) for path in folder.glob("lib/python*/site-packages")]
    sys.path[0:0] = places
    # What the worker starts finds the same packages.
    os.environ["VIRTUAL_ENV"] = str(folder)
    os.environ["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ.get("PATH", "")])


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


def _make(
    tool: str, wanted: Mapping[str, Any], folder: Path, working_dir: str | None = None
) -> None:
    _run(sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(folder))
    (places,) = folder.glob("lib/python*/site-packages")
    # What is installed around the daemon counts as installed, be it a virtual environment itself.
    (places / "around.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    python = str(folder / "bin" / "python")
    # A file takes options (`-r other.txt`), too, which as arguments would be other words.
    listed = folder / "requirements.txt"
    listed.write_text("\n".join([*wanted["packages"], ""]))
    names = ["-r", str(listed)]
    env = {**os.environ, WORKING_DIR: working_dir} if working_dir is not None else None
    if tool == "uv":
        uv = shutil.which("uv")
        if uv is None:
            raise FileNotFoundError("runtime_env['uv']: there is no program `uv` on this node")
        options = wanted.get("uv_pip_install_options") or []
        _run(uv, "pip", "install", "--python", python, *options, *names, env=env)
        return
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    if version := wanted.get("pip_version"):
        _run(*pip, "install", f"pip{version}")
        pip = [python, "-m", "pip", "--disable-pip-version-check"]
    _run(*pip, "install", *(wanted.get("pip_install_options") or []), *names, env=env)
    if wanted.get("pip_check"):
        _run(*pip, "check")


def _run(*command: str, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        said = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        end = f"{' '.join(command)} ended with {done.returncode}:"
        raise InstallError("\n".join([end, *said[-_OUTPUT_LINES:]]))


def _make_room(shelf: Path, keep: str) -> None:
    folders = sorted(
        (path for path in shelf.iterdir() if path.is_dir() and path.name != keep),
        key=lambda path: path.stat().st_mtime,
    )
    for folder in folders[: max(0, len(folders) + 1 - FOLDERS_MAX)]:
        with open(shelf / f"{folder.name}.lock", "w") as lock, contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while somebody uses it
            shutil.rmtree(folder)
