"""A driver that was started by ``uv run``: its workers get the same environment, on every node.

The options of that command become the environment's ``py_executable``, and the folder it ran in, which has
``pyproject.toml`` and the lock, its ``working_dir``. A node asks its uv for the interpreter of that
environment, which uv makes where it is not there yet, and the worker becomes one of it.
RAY_ENABLE_UV_RUN_RUNTIME_ENV=0 leaves workers as they would be.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

VARIABLE = "RAY_ENABLE_UV_RUN_RUNTIME_ENV"

# Options of `uv run` without a value; all others have one.
_FLAGS = frozenset(
    """
    --active --all-extras --all-groups --all-packages --compile-bytecode --dev --exact --frozen
    --gui-script --inexact --isolated --locked --managed-python --native-tls --no-active
    --no-all-extras --no-binary --no-build --no-build-isolation --no-cache --no-config
    --no-default-groups --no-dev --no-editable --no-env-file --no-index --no-managed-python
    --no-progress --no-project --no-python-downloads --no-require-build-hashes --no-sources --no-sync
    --offline --only-dev --quiet --refresh --reinstall --require-build-hashes --system-certs --upgrade
    --verbose -U -n -q -v
    """.split()  # noqa: SIM905 - a list of words would be a line for each
)
# Options of `uv run` behind which the program follows.
_PROGRAM = ("-m", "--module", "-s", "--script", "--")

# Prints what the interpreter of `uv run` is, where its packages lie, and the variables that lead to it.
_ASK = (
    "import json, os, sys; "
    "print(json.dumps([sys.executable, sys._base_executable, sys.path, dict(os.environ)]))"
)


def fields(env: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the environment of this driver's job gets, beside those that it has."""
    if os.environ.get(VARIABLE, "1").lower() in ("0", "false") or env.get("py_executable"):
        return {}
    command = _ancestors_command()
    if command is None:
        return {}
    options, folder = _options(command[2:]), Path.cwd()
    found: dict[str, Any] = {"py_executable": shlex.join(["uv", "run", *options])}
    if not env.get("working_dir"):
        found["working_dir"] = str(folder)
    return found


def _ancestors_command() -> list[str] | None:
    """The ``uv run`` that this process descends from."""
    pid = os.getppid()
    while pid > 1:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        words = command.split("\0")[:-1]
        if len(words) > 1 and os.path.basename(words[0]) == "uv" and words[1] == "run":
            return words
        pid = int(status.rpartition(")")[2].split()[1])
    return None


def _options(words: Sequence[str]) -> list[str]:
    """The options before the program."""
    options, left = [], list(words)
    while left and left[0].startswith("-") and left[0] not in _PROGRAM:
        option = left.pop(0)
        options.append(option)
        if option not in _FLAGS and "=" not in option and left:
            options.append(left.pop(0))
    return options


def is_command(command: Sequence[str]) -> bool:
    """Whether a ``py_executable`` is ``uv run`` with options."""
    return len(command) > 1 and os.path.basename(command[0]) == "uv" and command[1] == "run"


def interpreter(command: Sequence[str]) -> list[str]:
    """The interpreter that ``uv run`` starts, in a folder that is this process's; its variables are set.

    uv itself does not stay: the worker is the process that the daemon has started. Raises
    :class:`InstallError`.
    """
    import subprocess

    from heliostat.core.runtime_env import installers
    from heliostat.core.runtime_env.interpreters import InstallError

    uv = installers.find_uv()
    if uv is None:
        raise InstallError(f"this node has no program `uv`: {installers.EXTRA}")
    env = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    asked = [uv, *command[1:], "python", "-c", _ASK]
    done = subprocess.run(asked, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise InstallError(
            f"{shlex.join(command)} ended with {done.returncode}:\n{done.stderr.strip()}"
        )
    python, base, path, variables = json.loads(done.stdout.splitlines()[-1])
    os.environ.update(variables)
    if not os.path.exists(python):
        # One with packages of `--with` ends with its uv; the folders of its packages stay.
        python = _with_the_same_packages(base, [place for place in path if _has_packages(place)])
    return [str(python)]


def _has_packages(place: str) -> bool:
    return os.path.basename(place) in ("site-packages", "dist-packages") and os.path.isdir(place)


def _with_the_same_packages(base: str, places: Sequence[str]) -> Path:
    from heliostat.core.runtime_env import interpreters, packages

    def make(folder: Path) -> None:
        interpreters.make_from(base, folder, places)

    folder = packages.have_made("uv run", [base, *places], make)
    variables = packages.enter_variables(packages.Environment(folder, folder / "bin" / "python"))
    os.environ.update(variables)
    return folder / "bin" / "python"
