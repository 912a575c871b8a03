"""Installers of packages: uv where the node has it, else pip.

uv is quicker by an order of magnitude, but it reads none of pip's configuration and knows not all of its
options. What it can do in pip's place is translated; anything else is left to pip.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliostat.core.runtime_env import interpreters, progress
from heliostat.core.runtime_env.interpreters import InstallError

# Lines kept of an installer's output; with the line before them, no more than the daemon keeps of a worker's.
_OUTPUT_LINES = 18

# How long an installer may take to end when it is asked to.
_STOP_S_MAX = 5.0

# How often somebody who asks hears something new of an installer.
_LOOK_S = 1.0

EXTRA = "pip install 'heliostat[default]'"

# Options of `pip install` that uv has under these names; `None`: it has no need of it.
_FLAGS: dict[str, str | None] = {
    "--no-deps": "--no-deps",
    "--no-index": "--no-index",
    "--pre": "--prerelease=allow",
    "--upgrade": "--upgrade",
    "-U": "--upgrade",
    "--force-reinstall": "--reinstall",
    "--no-build-isolation": "--no-build-isolation",
    "--require-hashes": "--require-hashes",
    "--no-cache-dir": "--no-cache",
    "--no-compile": None,
    "--compile": "--compile-bytecode",
    "--disable-pip-version-check": None,
    "--no-input": None,
    "--no-color": None,
    "--no-warn-script-location": None,
    "--no-warn-conflicts": None,
    "--no-python-version-warning": None,
    "--quiet": None,
    "-q": None,
    "--verbose": None,
    "-v": None,
}
# The same with a value.
_VALUED: dict[str, str | None] = {
    "--index-url": "--default-index",
    "-i": "--default-index",
    "--extra-index-url": "--index",
    "--find-links": "--find-links",
    "-f": "--find-links",
    "--constraint": "--constraint",
    "-c": "--constraint",
    "--build-constraint": "--build-constraint",
    "--no-binary": "--no-binary",
    "--only-binary": "--only-binary",
    "--trusted-host": "--allow-insecure-host",
    "--upgrade-strategy": None,
    "--progress-bar": None,
    "--retries": None,
    "--root-user-action": None,
}
# Options that uv takes as a variable.
_VARIABLES = {
    "--cert": "SSL_CERT_FILE",
    "--timeout": "UV_HTTP_TIMEOUT",
    "--default-timeout": "UV_HTTP_TIMEOUT",
}

# Options in lines of requirements that uv reads as pip does.
_LINES = (
    *("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-i", "--index-url"),
    *("--extra-index-url", "-f", "--find-links", "--no-index", "--no-binary", "--only-binary"),
    "--hash",
)


@dataclass
class _ForUv:
    """The arguments and variables of uv in the place of pip."""

    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    def take(self, options: Sequence[str]) -> bool:
        """Translate options of pip; false: there is one that uv does not have."""
        left = list(options)
        while left:
            name, has_value, value = left.pop(0).partition("=")
            if name in _FLAGS and not has_value:
                if (flag := _FLAGS[name]) is not None:
                    self.arguments.append(flag)
                continue
            if name not in _VALUED and name not in _VARIABLES:
                return False
            if not has_value:
                if not left:
                    return False
                value = left.pop(0)
            if (variable := _VARIABLES.get(name)) is not None:
                self.variables[variable] = value
            elif (option := _VALUED[name]) is not None:
                self.arguments += [option, value]
                if option == "--index":
                    # pip takes the best version of all indexes, uv that of the first with the name.
                    self.arguments.append("--index-strategy=unsafe-best-match")
        return True


def install(
    tool: str,
    wanted: Mapping[str, Any],
    python: Path,
    folder: Path,
    env: Mapping[str, str],
    lock: str = "",
) -> None:
    """Install what the field ``pip`` or ``uv`` asks for, and look over it if it says so.

    ``lock``: lines ``name==version``, which have to be so as far as they are needed.
    Raises :class:`InstallError`.
    """
    # A file takes options (`-r other.txt`), too, which as arguments would be other words.
    listed = folder / "requirements.txt"
    listed.write_text("\n".join([*wanted["packages"], ""]))
    names = ["-r", str(listed)]
    if lock:
        (folder / "constraints.txt").write_text(lock)
        names += ["-c", str(folder / "constraints.txt")]
    if tool == "uv":
        uv = uv_of(wanted.get("uv_version"), folder, env)
        if uv is None:
            raise InstallError(f"this node has no program `uv`, nor a pip to get it with: {EXTRA}")
        options = wanted.get("uv_pip_install_options") or []
        _by_uv(uv, python, folder, [*options, *names], env, check=bool(wanted.get("uv_check")))
        return
    options = [str(option) for option in wanted.get("pip_install_options") or []]
    if (uv := _uv_for_pip(wanted)) is not None:
        given = _ForUv()
        if given.take([*_configured(), *options]):
            env, check = {**env, **given.variables}, bool(wanted.get("pip_check"))
            _by_uv(uv, python, folder, [*given.arguments, *names], env, check=check)
            return
    pip = [*_pip(python, env), "--disable-pip-version-check"]
    if version := wanted.get("pip_version"):
        run(*pip, "install", f"pip{version}", env=env)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "install", *options, *names, env=env)
    if wanted.get("pip_check"):
        run(*pip, "check", env=env)


def _by_uv(
    uv: str,
    python: Path,
    folder: Path,
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    check: bool,
) -> None:
    env = {**env, "UV_NO_PROGRESS": "1", "NO_COLOR": "1", "UV_PYTHON_DOWNLOADS": "never"}
    interpreters.stand_in_for_those_below(folder)
    run(uv, "pip", "install", "--python", str(python), *arguments, env=env)
    if check:
        run(uv, "pip", "check", "--python", str(python), env=env)
    interpreters.dismiss_stand_ins(folder)


def find_uv() -> str | None:
    """The node's own uv: what started this program, what ``PATH`` has, or what was installed here."""
    if (ours := os.environ.get("UV")) and os.access(ours, os.X_OK):
        return ours
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    if found := shutil.which("uv") or shutil.which(beside):
        return found
    if importlib.util.find_spec("uv") is None:
        return None
    import uv  # type: ignore[import-not-found, unused-ignore] # there if somebody installed it

    with contextlib.suppress(FileNotFoundError):
        return str(uv.find_uv_bin())
    return None


def uv_of(version: str | None, folder: Path, env: Mapping[str, str]) -> str | None:
    """The node's uv; another one beside the packages where that is wanted or there is none."""
    found = find_uv()
    if found is not None and not version:
        return found
    apart = folder / "uv"
    wanted = f"uv{version or ''}"
    if found is not None:
        given = _ForUv()
        given.take(_configured())
        more = {**env, **given.variables}
        target = ("--python", sys.executable, "--target", str(apart))
        run(found, "pip", "install", *target, *given.arguments, wanted, env=more)
    elif importlib.util.find_spec("pip") is not None:
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--target", str(apart), wanted, env=env)
    else:
        return None
    return str(apart / "bin" / "uv")


def _uv_for_pip(wanted: Mapping[str, Any]) -> str | None:
    """The uv that can do this in the place of pip."""
    if wanted.get("pip_version"):
        return None
    for line in wanted["packages"]:
        word = line.strip().partition(" ")[0].partition("=")[0]
        if word.startswith("-") and word not in _LINES:
            return None
    return find_uv()


def _pip(python: Path, env: Mapping[str, str]) -> list[str]:
    """pip for that interpreter: the node's, else the one that Python carries."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--python", str(python)]
    if importlib.util.find_spec("ensurepip") is None:
        raise InstallError(f"this node has neither `uv` nor `pip`: {EXTRA}")
    run(str(python), "-m", "ensurepip", "--default-pip", env=env)
    return [str(python), "-m", "pip"]


def _configured() -> list[str]:
    """Return the settings of pip from files and variables, as options of `pip install`."""
    if importlib.util.find_spec("pip") is None or not _may_be_configured():
        return []
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    options = []
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        name = f"--{key.rpartition('.')[2].replace('_', '-')}"
        section = key.removeprefix(":env:").partition(".")[0]
        # Sections that are read: `install`, `global` and the variables (without a section).
        if section not in ("", "global", "install"):
            continue
        text = " ".join(shlex.split(value)).strip()
        if name in _FLAGS:
            if text.lower() in ("1", "true", "yes", "on"):
                options.append(name)
            continue
        # A setting may have several values, on lines of their own.
        several = text.replace("\\n", " ").split()
        options += [part for one in several for part in (name, one)]
    return options


def _may_be_configured() -> bool:
    """Whether pip has a variable or a file of settings; asking pip itself takes longer than a small build."""
    if any(name.startswith("PIP_") for name in os.environ):
        return True
    home = Path(os.environ.get("HOME") or "~").expanduser()
    folders = [
        "/etc",
        sys.prefix,
        str(home / ".pip"),
        os.path.join(os.environ.get("XDG_CONFIG_HOME") or str(home / ".config"), "pip"),
    ]
    shared = os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    folders += [os.path.join(one, "pip") for one in shared.split(os.pathsep)]
    return any(os.path.exists(os.path.join(folder, "pip.conf")) for folder in folders)


def run(*command: str, env: Mapping[str, str] | None = None) -> None:
    """Run an installer. Raises :class:`InstallError` with its last words."""
    global _running
    _running = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    while True:
        try:
            output, _ = _running.communicate(timeout=_LOOK_S)
            break
        except subprocess.TimeoutExpired:
            progress.goes_on(_written_by(_running.pid))
    code, _running = _running.returncode, None
    if code:
        said = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
        end = f"{shlex.join(command)} ended with {code}:"
        raise InstallError("\n".join([end, *said[-_OUTPUT_LINES:]]))


def _written_by(pid: int) -> int:
    """The bytes that a process has written: fetched and unpacked."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/io") as counts:
        for line in counts:
            if line.startswith("wchar:"):
                return int(line.split()[1])
    return 0


# The installer that this process waits for.
_running: subprocess.Popen[bytes] | None = None


def stop() -> None:
    """End the installer, if one runs, and what it has started."""
    if _running is None:
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getpgid(_running.pid) == os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)  # a build's compilers are in the group, too
    _running.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        _running.wait(_STOP_S_MAX)
    _running.kill()
    signal.signal(signal.SIGTERM, before)
