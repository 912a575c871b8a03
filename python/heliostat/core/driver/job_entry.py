"""An entry point that needs more than a shell: packages of its own, or resources that are held for it.

The head's server runs this in the entry point's place and says in a variable what is to be done. With
packages alone this process makes them ready and becomes the command. With resources it is a driver whose
one actor, which holds them on whichever node has them, runs the command; what that prints and how it ends
comes back here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from heliostat.core.worker.preparation import WORKING_DIR

VARIABLE = "HELIOSTAT_JOB_ENTRY"
WAIT_FILE = "HELIOSTAT_JOB_WAIT_FILE"
_LOOK_S = 0.5
_PART = 64 << 10
_SHELL = "/bin/sh"


def main() -> NoReturn:
    """Do what the variable says."""
    spec = json.loads(os.environ.pop(VARIABLE))
    _make_ready(spec["runtime_env"])
    if spec["needs"]:
        sys.exit(_run_elsewhere(spec["entrypoint"], spec["needs"]))
    _say(begun=True)
    os.environ.pop(WAIT_FILE, None)
    os.execv(_SHELL, [_SHELL, "-c", spec["entrypoint"]])


def _make_ready(env: Mapping[str, Any]) -> None:
    from heliostat.core.runtime_env import code_packages, interpreters, progress

    begun = time.monotonic()
    try:
        _fetch(env)
        for tool in ("pip", "uv"):
            if env.get(tool):
                _enter(tool, env)
        if conda := env.get("conda"):
            _enter_conda(conda)
    except (interpreters.InstallError, code_packages.CodeError) as error:
        _say(no_environment=str(error))
        sys.exit(str(error))
    took_ms = round((time.monotonic() - begun) * 1000)
    if env:
        _say(environment_ms=took_ms, environment_size=progress.counted())


def _fetch(env: Mapping[str, Any]) -> None:
    """Download the parts of the environment that are named by URIs of other places, and use them."""
    from heliostat.core.runtime_env import code_packages

    places = [
        code_packages.place(uri, "py_modules") for uri in _remote(env.get("py_modules") or [])
    ]
    if places:
        given = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([*places, *([given] if given else [])])
    for uri in _remote([env.get("working_dir") or ""]):
        os.chdir(code_packages.place(uri, "working_dir"))


def _remote(given: list[str]) -> list[str]:
    return [one for one in given if "://" in one and not one.startswith("gcs://")]


def _enter(tool: str, env: Mapping[str, Any]) -> None:
    """Have `python` be the interpreter with these packages."""
    from heliostat.core.runtime_env import interpreters, packages

    folder = os.getcwd() if env.get("working_dir") else None
    wanted = packages.normal(tool, env[tool])
    if folder is not None:
        here = f"${{{WORKING_DIR}}}"
        wanted["packages"] = [name.replace(here, folder) for name in wanted["packages"]]
    try:
        made = packages.have(tool, wanted, folder)
    except interpreters.InstallError as error:
        raise interpreters.InstallError(
            f"runtime_env[{tool!r}] cannot be installed: {error}"
        ) from None
    os.environ.update(packages.enter_variables(made))


def _enter_conda(conda: Any) -> None:
    """Have `python` be conda's, which finds Heliostat behind what it has of its own."""
    from heliostat.core.runtime_env import commands, interpreters

    commands.command("conda", commands.conda_config(conda), ["python"])
    given = os.environ.get("PYTHONPATH")
    ours = interpreters.alone(Path(os.environ["HELIOSTAT_SESSION_DIR"]))
    os.environ["PYTHONPATH"] = os.pathsep.join([*([given] if given else []), str(ours)])


def _run_elsewhere(entrypoint: str, needs: Mapping[str, Any]) -> int:
    from heliostat import _heliostat
    from heliostat.core import api

    api.init(log_to_driver=False, logging_level="error")
    options: dict[str, Any] = {"num_cpus": needs.get("entrypoint_num_cpus", 0)}
    for name in ("num_gpus", "memory", "resources", "label_selector"):
        if needs.get(f"entrypoint_{name}"):
            options[name] = needs[f"entrypoint_{name}"]
    holder = api.remote(**options, max_concurrency=2)(JobEntrypoint).remote()

    def stop(number: int, _: object) -> None:
        holder.stop.remote()

    signal.signal(signal.SIGTERM, stop)
    ready = holder.ready.remote()
    while not api.wait([ready], timeout=_LOOK_S)[0]:
        why = _heliostat.why(holder._actor_id.binary(), _LOOK_S)
        # The line begins with the name of an actor that the user did not make.
        reason = why.partition(" is not there yet: ")[2] or why
        _say(why=f"The job waits for the resources of its entry point: {reason}")
    _say(begun=True)
    os.environ.pop(WAIT_FILE, None)
    code = 1
    stream = holder.run.options(num_returns="streaming").remote(
        entrypoint, dict(os.environ), os.getcwd()
    )
    for ref in stream:
        part = api.get(ref)
        if isinstance(part, int):
            code = part
        else:
            sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
    if code < 0:
        # End as the command did, so that whoever waits sees the same.
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


# The log so far.
_said: dict[str, Any] = {}


def _say(**what: Any) -> None:
    """Tell the head's server how far this is; it reads the file whole or not at all."""
    _said.update(what)
    if path := os.environ.get(WAIT_FILE):
        with contextlib.suppress(OSError):  # a full disk: it is not told
            draft = f"{path}.part"
            with open(draft, "w") as file:
                json.dump(_said, file)
            os.replace(draft, path)


class JobEntrypoint:
    """Holds the resources, and runs the command."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def ready(self) -> None:
        """Return: the actor runs, so it has its resources."""

    def run(self, entrypoint: str, env: dict[str, str], folder: str) -> Iterator[bytes | int]:
        """Yield the output of the command, part by part; at last its exit code."""
        own = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES",) if name in os.environ}
        self._child = subprocess.Popen(
            [_SHELL, "-c", entrypoint],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**env, **own},
            cwd=folder,
        )
        assert self._child.stdout is not None
        if self._stopped:
            self._child.terminate()
        while part := os.read(self._child.stdout.fileno(), _PART):
            yield part
        yield self._child.wait()

    def stop(self) -> None:
        """Ask the command to end."""
        self._stopped = True
        if self._child is not None:
            self._child.terminate()


if __name__ == "__main__":
    main()
