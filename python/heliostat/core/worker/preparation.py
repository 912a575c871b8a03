"""The setup of a worker before it serves: the parts of its environment that are not variables.

The submitting side puts them into one variable (:func:`packed`); the worker takes it out and acts on
it (:func:`apply`) before any user code is loaded.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

VARIABLE = "HELIOSTAT_WORKER_SETUP"

# Stands for the working_dir, as `${...}`, in what pip or uv are to install.
WORKING_DIR = "RAY_RUNTIME_ENV_CREATE_WORKING_DIR"

# The variable that carries a worker's working directory.
CWD = "HELIOSTAT_WORKER_CWD"

_SECONDS = "setup_timeout_seconds"

# By these exit codes the daemon knows that others would take too long, too, or fail as well.
_TIMED_OUT = 78
_CANNOT_BE_MADE = 79

# The text that is being applied.
_clocked = ""

# The same on its way to the worker, which puts its folder in.
_HERE = f"<{WORKING_DIR}>"

# The fields of an environment that are acted on here, by :func:`change_python` and by :func:`apply`.
# `_logging` is the job's, not the user's. `working_dir` is entered before; packages may be named by where
# it is.
FIELDS = ("_logging", "pip", "uv", "py_executable", "py_modules", "worker_process_setup_hook")

# The same that `runtime_env.commands` knows.
_AROUND = ("conda", "plugins", "nsight", "_nsight", "rocprof_sys", "container", "image_uri")

# Those that make a worker another program than a copy of the zygote.
OTHER_PROGRAM = ("py_executable", "pip", "uv", *_AROUND)

# Set where a worker becomes one of another interpreter: the version of Python that the node's have.
NODE_PYTHON = "HELIOSTAT_NODE_PYTHON"


def packed(env: Mapping[str, Any]) -> str:
    """Return the setup of the worker as text; empty for nothing."""
    found = {name: env[name] for name in (*FIELDS, *_AROUND) if name != "plugins" and env.get(name)}
    if names := env.get("_plugins"):
        document = {name: value for name, value in env.items() if not name.startswith("_")}
        found["plugins"] = {"_plugins": names, "document": document}
    for tool in ("pip", "uv"):
        if tool not in found or not env.get("working_dir"):
            continue
        # Written in another way: the zygote would put nothing in place of a variable it does not know.
        given, named = found[tool]["packages"], f"${{{WORKING_DIR}}}"
        names = [name.replace(named, _HERE) for name in given]
        if names != given:
            found[tool] = {**found[tool], "packages": names}
    seconds = (env.get("config") or {}).get("setup_timeout_seconds", -1)
    if seconds > 0 and (found or env.get("working_dir")):
        found[_SECONDS] = seconds
    return json.dumps(found, sort_keys=True, separators=(",", ":")) if found else ""


def start_clock() -> None:
    """From here on the set-up may take so long as its environment says; :func:`apply` ends it."""
    setup = json.loads(os.environ.get(VARIABLE) or "{}")
    if seconds := setup.get(_SECONDS):
        signal.signal(signal.SIGALRM, _time_is_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _time_is_up(number: int, frame: object) -> None:
    setup = json.loads(_clocked or os.environ.get(VARIABLE) or "{}")
    steps = [
        name for name in ("pip", "uv", "py_modules", "worker_process_setup_hook") if setup.get(name)
    ]
    made = ", ".join(["working_dir"] if os.environ.get(CWD) else steps)
    seconds = setup.get(_SECONDS)
    text = f"runtime_env: {made} took more than the {seconds} s of setup_timeout_seconds\n"
    os.write(2, text.encode())
    if (packages := sys.modules.get("heliostat.core.runtime_env.packages")) is not None:
        packages.leave_nothing()
    # At once: what the set-up waits for may catch every exception.
    os._exit(_TIMED_OUT)


def change_python(worker: Sequence[str]) -> None:
    """Become the worker that the environment asks for, if it asks for another interpreter or command; else
    return.

    That is what ``py_executable`` names; then the interpreter of the environment's packages, which are
    installed above what that has; then what is around: a profiler, a container, what plugins say.

    ``worker``: the script that is a worker, and its arguments. The process keeps its id, its folder and
    its environment.
    """
    setup: dict[str, Any] = json.loads(os.environ.get(VARIABLE) or "{}")
    if wanted := setup.pop("py_executable", None):
        import shlex  # few workers change their Python: the zygote does without

        command = shlex.split(wanted)
        if command[:1] and os.path.basename(command[0]) == "uv":
            command = _of_uv_run(command)
        what = f"runtime_env['py_executable'] = {wanted!r}"
        _become([*command, *worker], setup, what)
    for tool in ("pip", "uv"):
        if wanted := setup.pop(tool, None):
            lead_a_session()
            python = _with_packages(tool, wanted)
            command = [python, *interpreter_flags(), *worker]
            _become(command, setup, f"the interpreter of runtime_env[{tool!r}]")
    if any(field in setup for field in _AROUND):
        _become_around(worker, setup)


def _of_uv_run(command: list[str]) -> list[str]:
    from heliostat.core.driver import uv_run
    from heliostat.core.runtime_env import interpreters

    if not uv_run.is_command(command):
        return command
    lead_a_session()
    try:
        return uv_run.interpreter(command)
    except interpreters.InstallError as error:
        _cannot_be_made(f"runtime_env['py_executable']: {error}")


def _become_around(worker: Sequence[str], setup: dict[str, Any]) -> None:
    from heliostat.core.runtime_env import commands, interpreters

    lead_a_session()
    command = [*commands.python_of_this_process(), *worker]
    wanted = [(field, setup.pop(field)) for field in commands.FIELDS if field in setup]
    _hand_on(setup)  # what a container's process is to find is part of its command
    try:
        for field, value in wanted:
            command = commands.command(field, value, command)
    except (interpreters.InstallError, OSError) as error:
        _cannot_be_made(str(error))
    _become(command, setup, f"runtime_env[{wanted[-1][0]!r}]: {command[0]}")


def _with_packages(tool: str, wanted: Mapping[str, Any]) -> str:
    """The interpreter that has them; the variables of this process lead to it from here on."""
    from heliostat.core.runtime_env import interpreters, packages

    names = [name.replace(_HERE, os.getcwd()) for name in wanted["packages"]]
    here = os.getcwd() if names != wanted["packages"] else None
    try:
        made = packages.have(tool, {**wanted, "packages": names}, here)
    except interpreters.InstallError as error:
        # The last lines of a worker that did not start are what its caller reads: let them be the
        # installer's.
        _cannot_be_made(f"runtime_env[{tool!r}] cannot be installed: {error}")
    os.environ.update(packages.enter_variables(made))
    return str(made.python)


def _cannot_be_made(why: str) -> NoReturn:
    sys.stderr.write(f"{why}\n")
    sys.stderr.flush()
    os._exit(
        _CANNOT_BE_MADE
    )  # the caller waits: what this interpreter has loaded needs no farewell


def interpreter_flags() -> list[str]:
    """The options that this interpreter was started with, such as ``-X utf8``."""
    import subprocess

    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # undocumented
    return flags


def lead_a_session() -> None:
    """Lead a session of processes: those that this process starts from here on end with it."""
    if os.getsid(0) != os.getpid():
        os.setsid()


def _hand_on(setup: Mapping[str, Any]) -> None:
    """Have the process that follows this one find what is left to be done."""
    if setup:
        os.environ[VARIABLE] = json.dumps(setup, sort_keys=True, separators=(",", ":"))
    else:
        os.environ.pop(VARIABLE, None)
    os.environ[NODE_PYTHON] = _python()


def _become(command: Sequence[str], setup: Mapping[str, Any], what: str) -> None:
    _hand_on(setup)
    signal.setitimer(signal.ITIMER_REAL, 0)  # would outlive this program, and what it is to do not
    for number in (signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)  # what is ignored stays so in another program
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        sys.exit(f"{what} cannot be started: {error}")


def own_packages() -> list[str]:
    """The folders of packages that this interpreter has and the node's has not."""
    return list(_own)


# Filled by :func:`check_python`.
_own: list[str] = []


def check_python() -> None:
    """In a worker that :func:`change_python` started: end it unless its Python is the node's."""
    version = os.environ.pop(NODE_PYTHON)
    if version != _python():
        sys.exit(
            f"runtime_env['py_executable'] is Python {_python()}, and the node's is {version}: "
            "they must be the same version"
        )
    import site

    _own.extend(place for place in site.getsitepackages([sys.prefix]) if place in sys.path)


def _python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def apply(text: str) -> None:
    """Do it; an error ends the worker, and is what its start failed with."""
    global _clocked
    _clocked, setup = text, json.loads(text)
    modules = setup.get("py_modules") or []
    sys.path[0:0] = [_place(uri, "py_modules") for uri in modules]
    if fields := setup.get("_logging"):
        from heliostat.core.platform.logging_config import LoggingConfig

        LoggingConfig(**fields).apply()
    if hook := setup.get("worker_process_setup_hook"):
        _hook(hook)()
    if setup.get(_SECONDS):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def enter(working_dir: str) -> str:
    """Make the ``working_dir`` this process's folder; which one that is."""
    folder = _place(working_dir, "working_dir") if "://" in working_dir else working_dir
    os.chdir(folder)
    return folder


def _place(uri: str, field: str) -> str:
    from heliostat.core.runtime_env import code_packages

    try:
        return code_packages.place(uri, field)
    except code_packages.CodeError as error:
        sys.exit(str(error))


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

        from heliostat import cloudpickle

        return cloudpickle.loads(base64.b64decode(text.removeprefix("pickled:")))
    import importlib

    module, _, name = text.rpartition(".")
    return getattr(importlib.import_module(module), name)
