"""Plugins for fields of runtime environments: ``RAY_RUNTIME_ENV_PLUGINS``.

The variable is a list in JSON, ``[{"class": "module.Class", "priority": 10}]``; drivers, to know the field,
and the nodes' daemons are started with it. A class has Ray's interface, :class:`RuntimeEnvPlugin`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import inspect
import json
import logging
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "RAY_RUNTIME_ENV_PLUGINS"

logger = logging.getLogger("heliostat")


@dataclass
class RuntimeEnvContext:
    """The parts of a starting worker that a plugin may change."""

    command_prefix: list[str] = field(default_factory=list)
    env_vars: dict[str, str] = field(default_factory=dict)
    py_executable: str = ""
    override_worker_entrypoint: str | None = None
    java_jars: list[str] = field(default_factory=list)
    symlink_dirs_to_cwd: list[str] = field(default_factory=list)


class RuntimeEnvPlugin:
    """The base class of plugins: ``name`` is the field, the smallest ``priority`` comes first."""

    name: str = ""
    priority: int = 10

    @staticmethod
    def validate(runtime_env_dict: dict[str, Any]) -> None:
        """Raise for a value that the field cannot have."""

    def get_uris(self, runtime_env: Any) -> list[str]:
        """Return the URIs of the things to make: each is made once a node."""
        return []

    async def create(
        self, uri: str | None, runtime_env: Any, context: RuntimeEnvContext, logger: Any = logger
    ) -> float:
        """Make what a URI names, or what there is to make without one; returns its size in bytes."""
        return 0

    def modify_context(
        self, uris: list[str], runtime_env: Any, context: RuntimeEnvContext, logger: Any = logger
    ) -> None:
        """Change the worker that is to be started."""

    def delete_uri(self, uri: str, logger: Any = logger) -> float:
        """Remove what a URI names; returns its size in bytes."""
        return 0


def plugins() -> dict[str, Any]:
    """The plugins of the variable by their fields, those of the smallest priority first.

    Raises ``ValueError`` for what cannot be read or loaded.
    """
    return _plugins(os.environ.get(VARIABLE, ""))


@cache
def _plugins(text: str) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = []
        for entry in json.loads(text):
            module, _, name = entry["class"].rpartition(".")
            kind = getattr(importlib.import_module(module), name)
            priority = int(entry.get("priority", getattr(kind, "priority", 10)))
            found.append((priority, kind.name, kind()))
    except (ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise ValueError(f"{VARIABLE} = {text!r}: {error!r}") from error
    return {name: plugin for _, name, plugin in sorted(found, key=lambda one: one[:2])}


def check(env: Mapping[str, Any]) -> None:
    """Have the plugins look at their fields; raises what they raise."""
    for name, plugin in plugins().items():
        if env.get(name) is not None:
            plugin.validate(dict(env))


def command(env: Mapping[str, Any], worker: Sequence[str]) -> list[str]:
    """The worker's command after all plugins whose fields an environment has."""
    from heliostat.core.runtime_env.document import RuntimeEnv
    from heliostat.core.runtime_env.interpreters import InstallError

    context = RuntimeEnvContext(py_executable=worker[0])
    known = plugins()
    missing = [name for name in env["_plugins"] if name not in known]
    if missing:
        raise InstallError(
            f"runtime_env: this node has no plugin for {', '.join(missing)}: its daemon was started without "
            f"{VARIABLE}"
        )
    whole = RuntimeEnv(_validate=False, **env["document"])
    for name in known:
        if name in env["_plugins"]:
            try:
                _run(known[name], whole, context)
            except Exception as error:
                raise InstallError(f"runtime_env[{name!r}]: {error!r}") from error
    os.environ.update(context.env_vars)
    rest = list(worker[1:])
    if context.override_worker_entrypoint:
        rest[0] = context.override_worker_entrypoint
    if not context.command_prefix and context.py_executable == worker[0]:
        return [worker[0], *rest]
    # A prefix is a piece of a shell's command, such as `source activate x &&`.
    text = " ".join([*context.command_prefix, "exec", context.py_executable, shlex.join(rest)])
    return ["bash", "-c", text]


def _run(plugin: Any, env: Any, context: RuntimeEnvContext) -> None:
    uris = list(plugin.get_uris(env) or [])
    if not uris:
        _wait(plugin.create(None, env, context, logger))
    for uri in uris:
        with _once(f"{plugin.name}:{uri}") as done:
            if not done.exists():
                _wait(plugin.create(uri, env, context, logger))
                done.touch()
    plugin.modify_context(uris, env, context, logger)


def _wait(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    import asyncio  # 40 ms, which every `init` would take

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


@contextlib.contextmanager
def _once(name: str) -> Iterator[Path]:
    """Hold a lock of this node; yield the path of the file that marks the step as done."""
    folder = Path(os.environ["HELIOSTAT_SESSION_DIR"], "plugin_uris")
    folder.mkdir(mode=0o700, exist_ok=True)
    node = os.environ.get("HELIOSTAT_NODE_ID", "")
    key = hashlib.sha256(f"{node}:{name}".encode()).hexdigest()[:20]
    with open(folder / f"{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / f"{key}.done"
