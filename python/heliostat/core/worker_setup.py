"""What a worker does to itself before it serves: the parts of its environment that are not variables.

The submitting side puts them into one variable (:func:`packed`); the worker takes it out and acts on
it (:func:`apply`) before any user code is loaded.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

VARIABLE = "HELIOSTAT_WORKER_SETUP"

# Stands for the working_dir, as `${...}`, in what pip or uv are to install.
WORKING_DIR = "RAY_RUNTIME_ENV_CREATE_WORKING_DIR"

# The fields of an environment that are acted on here. `_logging` is the job's, not the user's.
# `working_dir` is the daemon's to enter; packages may be named by where it is.
FIELDS = ("_logging", "pip", "uv", "py_executable", "py_modules", "worker_process_setup_hook")

# Set by :func:`change_python`: the version of Python that the node's workers have.
NODE_PYTHON = "HELIOSTAT_NODE_PYTHON"


def packed(env: Mapping[str, Any]) -> str:
    """What the worker is to do, as text; empty for nothing."""
    found = {name: env[name] for name in FIELDS if env.get(name)}
    for tool in ("pip", "uv"):
        if tool not in found or not env.get("working_dir"):
            continue
        # Put in now: the daemon fills in what variables name, and it knows none of that name.
        given, named = found[tool]["packages"], f"${{{WORKING_DIR}}}"
        names = [name.replace(named, env["working_dir"]) for name in given]
        if names != given:
            found[tool] = {**found[tool], "packages": names}
            found["working_dir"] = env["working_dir"]
    return json.dumps(found, sort_keys=True, separators=(",", ":")) if found else ""


def change_python(worker: Sequence[str]) -> None:
    """Become the worker that ``py_executable`` starts, if the environment names one; else return.

    ``worker``: the script that is a worker, and its arguments. The process keeps its id, its folder and
    its environment.
    """
    setup: dict[str, Any] = json.loads(os.environ.get(VARIABLE) or "{}")
    wanted = setup.pop("py_executable", None)
    if wanted is None:
        return
    if setup:
        os.environ[VARIABLE] = json.dumps(setup, sort_keys=True, separators=(",", ":"))
    else:
        del os.environ[VARIABLE]
    os.environ[NODE_PYTHON] = _python()
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)  # what is ignored stays so in another program
    command = shlex.split(wanted)
    try:
        os.execvp(command[0], [*command, *worker])
    except OSError as error:
        sys.exit(f"runtime_env['py_executable'] = {wanted!r} cannot be started: {error}")


def check_python() -> None:
    """In a worker that :func:`change_python` started: end it unless its Python is the node's."""
    version = os.environ.pop(NODE_PYTHON)
    if version != _python():
        sys.exit(
            f"runtime_env['py_executable'] is Python {_python()}, and the node's is {version}: "
            "they must be the same version"
        )


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def apply(text: str) -> None:
    """Do it; an error ends the worker, and is what its start failed with."""
    setup: dict[str, Any] = json.loads(text)
    for tool in ("pip", "uv"):
        if wanted := setup.get(tool):
            from heliostat.core import packages

            try:
                packages.enter(tool, wanted, setup.get("working_dir"))
            except packages.InstallError as error:
                # The last lines of a worker that did not start are what its caller reads: let them be
                # the installer's.
                sys.exit(f"runtime_env[{tool!r}] cannot be installed: {error}")
    for package in reversed(setup.get("py_modules") or []):
        sys.path.insert(0, import_place(package))
    if fields := setup.get("_logging"):
        from heliostat.core.logging_config import LoggingConfig

        LoggingConfig(**fields).apply()
    if hook := setup.get("worker_process_setup_hook"):
        _hook(hook)()


def import_place(package: str) -> str:
    """What goes on ``sys.path``: the folder around a package, or an archive itself."""
    return os.path.dirname(package) if os.path.isdir(package) else package


def hook_text(hook: Any) -> str:
    """A hook as text: ``module.function``, or a function by value."""
    if isinstance(hook, str):
        return hook
    if not callable(hook):
        raise TypeError(
            "runtime_env['worker_process_setup_hook'] must be a function or the name of one, "
            f"got {type(hook)}"
        )
    import base64

    from heliostat.core.errors import RuntimeEnvSetupError
    from heliostat.core.serialize import pickle_function

    try:
        pickled = pickle_function(hook)
    except Exception as error:
        raise RuntimeEnvSetupError(
            f"runtime_env['worker_process_setup_hook'] = {hook!r} cannot be sent to workers: {error}"
        ) from error
    return "pickled:" + base64.b64encode(pickled).decode()


def _hook(text: str) -> Any:
    if text.startswith("pickled:"):
        import base64

        import cloudpickle

        return cloudpickle.loads(base64.b64decode(text.removeprefix("pickled:")))
    import importlib

    module, _, name = text.rpartition(".")
    return getattr(importlib.import_module(module), name)
