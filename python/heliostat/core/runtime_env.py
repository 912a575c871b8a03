"""Runtime environments: what a job's, task's or actor's worker finds around it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from heliostat import _heliostat
from heliostat.core import worker_setup

# Fields that mean something to users of the API, and that no part of the core applies yet.
UNSUPPORTED = (
    "conda",
    "container",
    "image_uri",
    "nsight",
    "_nsight",
    "rocprof_sys",
    "java_jars",
)


_TYPES = (
    ("working_dir", "a folder, an archive or a URI", str | os.PathLike | None),
    ("py_modules", "a list of folders, archives, URIs or modules", list | None),
    ("excludes", "a list of patterns", list | None),
    ("config", "a dictionary or a RuntimeEnvConfig", Mapping | None),
)


_CONFIG = ("setup_timeout_seconds", "eager_install", "log_files")


class RuntimeEnvConfig(dict[str, Any]):
    """How environments are made."""

    def __init__(
        self,
        setup_timeout_seconds: int = 600,
        eager_install: bool = True,
        log_files: list[str] | None = None,
    ) -> None:
        if not isinstance(setup_timeout_seconds, int):
            raise TypeError(
                f"setup_timeout_seconds must be of type int, got: {type(setup_timeout_seconds)}"
            )
        if setup_timeout_seconds <= 0 and setup_timeout_seconds != -1:
            raise ValueError(
                "setup_timeout_seconds must be greater than zero or equals to -1, "
                f"got: {setup_timeout_seconds}"
            )
        if not isinstance(eager_install, bool):
            raise TypeError(f"eager_install must be a boolean. got {type(eager_install)}")
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds,
            eager_install=eager_install,
            log_files=list(log_files or []),
        )


class RuntimeEnv(dict[str, Any]):
    """A runtime environment; a dictionary will do as well."""

    def __init__(self, **fields: Any) -> None:
        given = {name: value for name, value in fields.items() if value is not None}
        check_runtime_env(given)
        super().__init__(given)

    def env_vars(self) -> dict[str, str]:
        """The environment variables."""
        return dict(self.get("env_vars") or {})

    def __setitem__(self, name: str, value: Any) -> None:
        check_runtime_env({**self, name: value})
        super().__setitem__(name, value)

    def get(self, name: str, default: Any = None, data_class: Any = None) -> Any:
        """A field; with a ``data_class``, made into one."""
        found = super().get(name, default)
        return found if data_class is None or name not in self else data_class(**found)

    def set(self, name: str, value: Any) -> None:
        """Give a field another value; refuses what the constructor does."""
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary."""
        return dict(self)

    def serialize(self) -> str:
        """JSON."""
        return to_json(self)

    @classmethod
    def deserialize(cls, text: str) -> RuntimeEnv:
        """From JSON."""
        return cls(**of_user(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self),)


def _rebuild(fields: dict[str, Any]) -> RuntimeEnv:
    return RuntimeEnv(**fields)


def check_runtime_env(env: Mapping[str, Any] | None) -> None:
    """Refuse what cannot be made, at the call that asks for it."""
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise TypeError(f"runtime_env must be a dictionary or a RuntimeEnv, got {type(env)}")
    for field in UNSUPPORTED:
        if env.get(field):
            raise NotImplementedError(f"runtime_env[{field!r}] is not supported by this release")
    if env.get("pip") and env.get("uv"):
        raise ValueError("runtime_env: 'pip' and 'uv' cannot both be given")
    for tool in ("pip", "uv"):
        if env.get(tool) is not None:
            _packages(tool, env[tool])
    _check_env_vars(env.get("env_vars"))
    if isinstance(config := env.get("config"), Mapping):
        RuntimeEnvConfig(**{name: config[name] for name in _CONFIG if name in config})
    if not isinstance(env.get("py_executable") or "", str):
        raise TypeError(
            "runtime_env['py_executable'] must be a command as one string, "
            f"got {type(env['py_executable'])}"
        )
    for field, wanted, types in _TYPES:
        if not isinstance(env.get(field), types):
            raise TypeError(f"runtime_env[{field!r}] must be {wanted}, got {type(env[field])}")
    if env.get("working_dir") or env.get("py_modules"):
        from heliostat.core import code_packages

        if env.get("working_dir"):
            code_packages.check("working_dir", env["working_dir"])
        for place in env.get("py_modules") or ():
            code_packages.check("py_modules", place)


def _packages(tool: str, given: Any) -> dict[str, Any]:
    from heliostat.core import packages

    return packages.normal(tool, given)


def _check_env_vars(env_vars: Any) -> None:
    if env_vars is None:
        return
    if not isinstance(env_vars, Mapping):
        raise TypeError(
            "runtime_env['env_vars'] must be of type Dict[str, str], "
            f"but it is of type {type(env_vars)}"
        )
    for key, value in env_vars.items():
        for word, part in (("key", key), ("value", value)):
            if not isinstance(part, str):
                raise TypeError(
                    "runtime_env['env_vars'] must be of type Dict[str, str], "
                    f"but the {word} {part} is of type {type(part)}"
                )


def to_json(env: Mapping[str, Any] | None, logging: Mapping[str, Any] | None = None) -> str:
    """Canonical JSON, so that equal environments share workers; empty for none.

    Paths are to be packages by now, see :func:`code_packages.packaged`.
    What a worker has to do by itself goes into a variable of its own, see :mod:`worker_setup`.
    """
    plain = {name: value for name, value in (env or {}).items() if value}
    if logging is not None:
        plain["_logging"] = dict(logging)
    for tool in ("pip", "uv"):
        if tool in plain:
            plain[tool] = _packages(tool, plain[tool])
    if "worker_process_setup_hook" in plain:
        hook = plain["worker_process_setup_hook"]
        plain["worker_process_setup_hook"] = worker_setup.hook_text(hook)
    if setup := worker_setup.packed(plain):
        plain["env_vars"] = {**(plain.get("env_vars") or {}), worker_setup.VARIABLE: setup}
    return json.dumps(plain, sort_keys=True, separators=(",", ":")) if plain else ""


def from_json(text: str) -> dict[str, Any]:
    """Back again; nothing for the empty text."""
    env: dict[str, Any] = json.loads(text) if text else {}
    env_vars = env.get("env_vars") or {}
    if env_vars.pop(worker_setup.VARIABLE, None) is not None and not env_vars:
        del env["env_vars"]
    return env


def of_user(text: str) -> dict[str, Any]:
    """Back again, without what the user has not said."""
    return {name: value for name, value in from_json(text).items() if name != "_logging"}


def inherit(parent: str, child: Mapping[str, Any] | None) -> str:
    """The child's environment in the parent's: variables merge, other fields replace (JSON)."""
    if not child:
        return parent
    base = from_json(parent)
    if child.get("working_dir") or child.get("py_modules"):
        from heliostat.core import code_packages

        child = code_packages.packaged(child, _heliostat.session()["session_dir"])
    env_vars = {**(base.get("env_vars") or {}), **(child.get("env_vars") or {})}
    return to_json({**base, **child, "env_vars": env_vars})
