"""Fields of a runtime environment that change the command by which a worker is started.

``conda`` names an interpreter, ``container`` and ``image_uri`` a container around one, ``nsight`` and
``rocprof_sys`` a profiler that starts one, and plugins of ``RAY_RUNTIME_ENV_PLUGINS`` whatever they like.
What a node does not have is said in a sentence that ends the worker's start.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heliostat.core.runtime_env import plugin_fields
from heliostat.core.runtime_env.interpreters import InstallError

# In the order in which they come: each is around what is before it.
FIELDS = ("conda", "plugins", "nsight", "_nsight", "rocprof_sys", "container", "image_uri")

# Programs that manage conda environments, the quickest first.
_CONDA = ("micromamba", "mamba", "conda")

# The options of Ray's plugins for `"nsight": "default"` and `"rocprof_sys": "default"`.
_NSIGHT = {"t": "cuda,cudnn,cublas,nvtx", "o": "worker_process_%p", "stop-on-exit": "true"}
_ROCPROF = {
    "env": {"ROCPROFSYS_TIME_OUTPUT": "false", "ROCPROFSYS_OUTPUT_PREFIX": "worker_process-%p"},
    "args": {"F": "true"},
}

# Variables that a worker in a container needs, besides Heliostat's and Ray's own.
_PASSED = ("PYTHONPATH", "CUDA_VISIBLE_DEVICES", "PYTHONUNBUFFERED")


def command(field: str, value: Any, worker: Sequence[str]) -> list[str]:
    """The command that is the worker in that environment; ``worker``: the command so far.

    Raises :class:`InstallError`. Variables that it needs are set in this process.
    """
    if field == "conda":
        return [_conda_python(value), *worker[1:]]
    if field in ("nsight", "_nsight"):
        return [*_nsight(value), *worker]
    if field == "rocprof_sys":
        return [*_rocprof(value), *worker]
    if field == "plugins":
        return plugin_fields.command(value, worker)
    return _container(value, worker)


def check(env: Mapping[str, Any]) -> None:
    """Refuse what cannot be meant, at the call that asks for it.

    Raises ``TypeError`` or ``ValueError``.
    """
    for field in ("nsight", "_nsight", "rocprof_sys"):
        value = env.get(field)
        if value and value != "default" and not isinstance(value, Mapping):
            raise TypeError(
                f"runtime_env[{field!r}] must be 'default' or a dictionary, not {value!r}"
            )
    conda = env.get("conda")
    if conda is not None and not isinstance(conda, str | Mapping):
        raise TypeError(
            "runtime_env['conda'] must be the name of an environment, the path of a YAML file or a "
            f"dictionary, not {type(conda)}"
        )
    container = env.get("container")
    if container and (not isinstance(container, Mapping) or not container.get("image")):
        raise ValueError("runtime_env['container'] must be a dictionary with the field 'image'")
    for field in ("container", "image_uri"):
        if env.get(field) and (both := [name for name in _NOT_WITH_IMAGES if env.get(name)]):
            raise ValueError(
                f"runtime_env[{field!r}] cannot be given together with {', '.join(both)}: what a container "
                "has is in its image"
            )


_NOT_WITH_IMAGES = ("pip", "uv", "conda", "py_executable", "nsight", "_nsight", "rocprof_sys")


def _program(*names: str, field: str) -> str:
    for name in names:
        if found := shutil.which(name):
            return found
    raise InstallError(f"runtime_env[{field!r}]: this node has no program {' or '.join(names)}")


def conda_config(given: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    """The field ``conda`` with the content of the YAML file that it names."""
    if isinstance(given, str) and given.endswith((".yml", ".yaml")):
        path = Path(given).expanduser()
        if not path.is_file():
            raise ValueError(f"runtime_env['conda'] = {given!r}: no such file")
        return {"environment.yml": path.read_text()}
    return given


def _conda_python(given: str | Mapping[str, Any]) -> str:
    tool = os.environ.get("CONDA_EXE") or _program(*_CONDA, field="conda")
    if isinstance(given, str):
        if os.path.isdir(given):
            return _of_prefix(Path(given))
        asked = [tool, "run", "-n", given, "python", "-c", "import sys; print(sys.prefix)"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise InstallError(f"runtime_env['conda'] = {given!r}: {said}")
        return _of_prefix(Path(done.stdout.split()[-1]))
    from heliostat.core.runtime_env import packages

    def make(folder: Path) -> None:
        folder.mkdir()
        # JSON is YAML.
        text = given.get("environment.yml") or json.dumps(dict(given))
        listed = folder / "environment.yml"
        listed.write_text(text)
        from heliostat.core.runtime_env import installers

        is_micro = os.path.basename(tool) == "micromamba"
        how = ["create", "-y"] if is_micro else ["env", "create"]
        prefix = folder / "prefix"
        installers.run(tool, *how, "-p", str(prefix), "-f", str(listed), env=os.environ)

    made = packages.have_made("conda", given, make)
    return _of_prefix(made / "prefix")


def _of_prefix(prefix: Path) -> str:
    python = prefix / "bin" / "python"
    if not python.exists():
        raise InstallError(f"runtime_env['conda']: the environment {prefix} has no bin/python")
    path = os.environ.get("PATH", os.defpath)
    os.environ.update(CONDA_PREFIX=str(prefix), PATH=f"{prefix / 'bin'}{os.pathsep}{path}")
    return str(python)


def _profiles(name: str) -> Path:
    folder = Path(os.environ["HELIOSTAT_SESSION_DIR"], "logs", name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _options(given: Mapping[str, Any]) -> list[str]:
    """Options of a command, as both profilers have them: ``-t value`` and ``--stop-on-exit=value``."""
    options = []
    for name, value in given.items():
        options += [f"-{name}", str(value)] if len(name) == 1 else [f"--{name}={value}"]
    return options


def _nsight(given: Any) -> list[str]:
    wanted = dict(_NSIGHT if given == "default" else given)
    output = wanted.pop("o", None) or wanted.pop("output", None) or _NSIGHT["o"]
    wanted["o"] = _profiles("nsight") / str(output).strip("'\"")
    return [_program("nsys", field="nsight"), "profile", *_options(wanted)]


def _rocprof(given: Any) -> list[str]:
    wanted = _ROCPROF if given == "default" else given
    variables = {str(name): str(value) for name, value in (wanted.get("env") or {}).items()}
    os.environ.update(variables, ROCPROFSYS_OUTPUT_PATH=str(_profiles("rocprof_sys")))
    program = _program("rocprof-sys-python", field="rocprof_sys")
    return [program, *_options(wanted.get("args") or {}), "--"]


def _container(given: Any, worker: Sequence[str]) -> list[str]:
    """The worker in a container that shares this machine's network, processes and session."""
    wanted = {"image": given} if isinstance(given, str) else given
    field = "image_uri" if isinstance(given, str) else "container"
    session = os.path.realpath(os.environ["HELIOSTAT_SESSION_DIR"])
    own = ("HELIOSTAT_", "RAY_")
    names = [name for name in os.environ if name.startswith(own) or name in _PASSED]
    here = os.getcwd()
    return [
        _program("podman", field=field),
        "run",
        "--rm",
        f"--volume={os.path.dirname(session)}:{os.path.dirname(session)}",
        "--network=host",
        "--pid=host",
        "--ipc=host",
        "--userns=keep-id",
        *(f"--env={name}={os.environ[name]}" for name in names),
        *([f"--volume={here}:{here}", f"--workdir={here}"] if here != os.sep else []),
        *(part for option in wanted.get("run_options") or () for part in shlex.split(option)),
        "--entrypoint=python",
        str(wanted["image"]),
        # The image has a Heliostat of its own, wherever that lies.
        *(
            ["-m", "heliostat.core.worker.zygote"]
            if not wanted.get("worker_path")
            else [wanted["worker_path"]]
        ),
        *worker[worker.index("worker") :],
    ]


def python_of_this_process() -> list[str]:
    """The interpreter with its options, which a worker's command begins with."""
    from heliostat.core.worker.preparation import interpreter_flags

    return [sys.executable, *interpreter_flags()]
