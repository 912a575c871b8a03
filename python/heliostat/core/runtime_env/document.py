"""Runtime environments: what a job's, task's or actor's worker finds around it."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import typing
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from heliostat import _heliostat
from heliostat.core.platform import spelling
from heliostat.core.worker import preparation

# Fields of an environment, besides those of plugins.
FIELDS = (
    "env_vars",
    "working_dir",
    "py_modules",
    "excludes",
    "pip",
    "uv",
    "conda",
    "py_executable",
    "worker_process_setup_hook",
    "container",
    "image_uri",
    "nsight",
    "_nsight",
    "rocprof_sys",
    "config",
    "java_jars",
    # Ray's own, for its developers; they say nothing here.
    "_ray_release",
    "_ray_commit",
    "_inject_current_ray",
)

# Fields that choose the interpreter: one of them at most is set.
_ONE_OF = ("pip", "uv", "conda")


# Fields that Heliostat itself adds.
_OURS = ("_logging", "_plugins")

_TYPES = (
    ("working_dir", "a folder, an archive or a URI", str | os.PathLike | None),
    ("py_modules", "a list of folders, archives, URIs or modules", list | None),
    ("excludes", "a list of patterns", list | None),
    ("config", "a dictionary or a RuntimeEnvConfig", Mapping | None),
)


_CONFIG = ("setup_timeout_seconds", "eager_install", "log_files")


class RuntimeEnvConfig(dict[str, Any]):
    """The field ``config`` of a runtime environment: timeouts and the like.

    Args:
        setup_timeout_seconds: Seconds that making one may take. Default 600; -1: without end.
        eager_install: Make a job's environment when the job starts. Default True; False: when it is
            first used.
        log_files: Has no effect.

    Raises:
        TypeError: An argument has another type.
        ValueError: ``setup_timeout_seconds`` is neither positive nor -1.

    Examples:
        >>> import ray
        >>> from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig
        >>> env = RuntimeEnv(
        ...     env_vars={"LEVEL": "3"}, config=RuntimeEnvConfig(setup_timeout_seconds=60)
        ... )
        >>> @ray.remote(runtime_env=env)
        ... def level():
        ...     import os
        ...     return os.environ["LEVEL"]
        >>> ray.get(level.remote())
        '3'
    """

    known_fields: ClassVar[set[str]] = set(_CONFIG)
    _default_config: ClassVar[dict[str, Any]] = {
        "setup_timeout_seconds": 600,
        "eager_install": True,
        "log_files": [],
    }

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
        names: Any = log_files or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("log_files must be a list of strings")
        super().__init__(
            setup_timeout_seconds=setup_timeout_seconds,
            eager_install=eager_install,
            log_files=list(log_files or []),
        )

    @staticmethod
    def parse_and_validate_runtime_env_config(config: Any) -> RuntimeEnvConfig:
        """A configuration from a dictionary.

        Args:
            config: A dictionary of the constructor's arguments, or a ``RuntimeEnvConfig``, which is
                returned.

        Returns:
            The configuration.

        Raises:
            TypeError: It is neither.
            ValueError: There is no such field, or it cannot have that value.
        """
        if isinstance(config, RuntimeEnvConfig):
            return config
        if not isinstance(config, Mapping):
            raise TypeError(
                "runtime_env['config'] must be of type dict or RuntimeEnvConfig, "
                f"got: {type(config)}"
            )
        for name in config:
            if name not in _CONFIG:
                raise ValueError(
                    _unknown(f"runtime_env['config'] has no field {name!r}", name, _CONFIG)
                )
        return RuntimeEnvConfig(**config)

    @classmethod
    def default_config(cls) -> RuntimeEnvConfig:
        """Return the configuration that holds where none is given."""
        return cls(**cls._default_config)

    def build_proto_runtime_env_config(self) -> RuntimeEnvConfig:
        """Return the configuration itself: there is no other form of it here."""
        return self

    @classmethod
    def from_proto(cls, runtime_env_config: Mapping[str, Any]) -> RuntimeEnvConfig:
        """The configuration from what :meth:`build_proto_runtime_env_config` gives.

        Args:
            runtime_env_config: Its fields.

        Returns:
            The configuration.
        """
        return cls(**runtime_env_config)

    def __setitem__(self, name: str, value: Any) -> None:
        check_runtime_env({**self, name: value})
        super().__setitem__(name, value)

    def get(self, name: str, default: Any = None, data_class: Any = None) -> Any:
        """A field's value.

        Args:
            name: The field's name.
            default: What is returned where there is no such field. Default ``None``.
            data_class: A dataclass that the value, a dictionary, is made an object of.

        Returns:
            The value.
        """
        found = super().get(name, default)
        return found if data_class is None or name not in self else data_class(**found)

    def set(self, name: str, value: Any) -> None:
        """Give a field another value; refuses what the constructor does.

        Args:
            name: The field's name.
            value: Its value.

        Raises:
            ValueError: The field cannot have that value.
            TypeError: The value has another type.
        """
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary."""
        return copy.deepcopy(dict(self))


class RuntimeEnv(dict[str, Any]):
    """The environment of a job, task or actor, checked where it is written. A dictionary will do as
    well.

    Args:
        **fields: ``env_vars`` (variables by name), ``working_dir`` (a folder, an archive or a URI),
            ``py_modules`` (a list of such, or of modules), ``excludes`` (patterns as in
            ``.gitignore``), one of ``pip``, ``uv`` and ``conda`` (packages, a requirements file, or a
            description), ``py_executable`` (the interpreter's command), ``image_uri`` or ``container``
            (an image for workers), ``worker_process_setup_hook`` (a function that each worker calls
            first), ``config`` (a ``RuntimeEnvConfig``), and the fields of plugins. ``None`` sets
            nothing.

    Raises:
        ValueError: There is no such field, fields exclude each other, or a value cannot be so.
        TypeError: A field has a value of another type.

    Examples:
        >>> import ray
        >>> from ray.runtime_env import RuntimeEnv
        >>> env = RuntimeEnv(env_vars={"MODE": "test"})
        >>> @ray.remote(runtime_env=env)
        ... def mode():
        ...     import os
        ...     return os.environ["MODE"]
        >>> ray.get(mode.remote())
        'test'
    """

    known_fields: ClassVar[set[str]] = set(FIELDS)
    extensions_fields: ClassVar[set[str]] = {
        "_ray_release",
        "_ray_commit",
        "_inject_current_ray",
    }

    def __init__(self, *, _validate: bool = True, **fields: Any) -> None:
        given = {name: _plain(value) for name, value in fields.items() if value is not None}
        if _validate:
            check_runtime_env(given)
        super().__init__(given)

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a field; ``None`` sets nothing.

        A name that is not known may be the field of a plugin which only the cluster has: it is checked
        when the environment is used.
        """
        value = _plain(value)
        if value is None:
            return
        if key in self.known_fields:
            check_runtime_env({key: value})
        super().__setitem__(key, value)

    def set(self, name: str, value: Any) -> None:
        """Set a field, or the field of a plugin, be its value a dataclass.

        Args:
            name: The field's name.
            value: Its value; ``None`` sets nothing.

        Raises:
            ValueError: A field of the table cannot have that value.
            TypeError: A field of the table has another type.
        """
        self[name] = value

    def get(self, name: str, default: Any = None, data_class: Any = None) -> Any:
        """A field's value.

        Args:
            name: The field's name.
            default: What is returned where the field is not set. Default ``None``.
            data_class: A dataclass that the value, a dictionary, is made an object of.

        Returns:
            The value.
        """
        if name not in self:
            return default
        return self[name] if data_class is None else _object(data_class, self[name])

    def to_dict(self) -> dict[str, Any]:
        """A plain dictionary."""
        return {
            name: value.to_dict() if isinstance(value, RuntimeEnvConfig) else copy.deepcopy(value)
            for name, value in self.items()
        }

    def serialize(self) -> str:
        """JSON."""
        return to_json(self)

    @classmethod
    def deserialize(cls, serialized_runtime_env: str) -> RuntimeEnv:
        """The environment that :meth:`serialize` wrote.

        Args:
            serialized_runtime_env: The JSON.

        Returns:
            The environment, unchecked.
        """
        return cls(_validate=False, **of_user(serialized_runtime_env))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self),)

    # Methods that give an environment's fields.

    def env_vars(self) -> dict[str, str]:
        """The environment variables."""
        return dict(self.get("env_vars") or {})

    def has_working_dir(self) -> bool:
        """Whether workers have a folder of the environment's."""
        return self.get("working_dir") is not None

    def working_dir(self) -> str:
        """The folder or URI; empty for none."""
        return str(self.get("working_dir") or "")

    def working_dir_uri(self) -> str | None:
        """The same; ``None`` for none."""
        return self.working_dir() or None

    def py_modules(self) -> list[Any]:
        """The modules, as they were given."""
        return list(self.get("py_modules") or [])

    def py_modules_uris(self) -> list[Any]:
        """The same."""
        return self.py_modules()

    def java_jars(self) -> list[str]:
        """None: there are no workers in Java here."""
        return list(self.get("java_jars") or [])

    def py_executable(self) -> str | None:
        """The command that workers are started with."""
        return self.get("py_executable") or None

    def has_pip(self) -> bool:
        """Whether packages are installed by ``pip``."""
        return bool(self.get("pip"))

    def pip_config(self) -> dict[str, Any]:
        """The field ``pip`` with its packages as a list; empty for none."""
        return _packages("pip", self["pip"]) if self.has_pip() else {}

    def virtualenv_name(self) -> str | None:
        """The path of the requirements file that ``pip`` names, if it names one."""
        return self["pip"] if isinstance(self.get("pip"), str) else None

    def pip_uri(self) -> str | None:
        """A name for the packages: the same for the same ones."""
        return _uri("pip", self.pip_config())

    def has_uv(self) -> bool:
        """Whether packages are installed by ``uv``."""
        return bool(self.get("uv"))

    def uv_config(self) -> dict[str, Any]:
        """The field ``uv`` with its packages as a list; empty for none."""
        return _packages("uv", self["uv"]) if self.has_uv() else {}

    def uv_uri(self) -> str | None:
        """A name for the packages: the same for the same ones."""
        return _uri("uv", self.uv_config())

    def has_conda(self) -> bool:
        """Whether the interpreter is one of conda."""
        return bool(self.get("conda"))

    def conda_env_name(self) -> str | None:
        """The name of the environment that ``conda`` names, if it names one."""
        return self["conda"] if isinstance(self.get("conda"), str) else None

    def conda_config(self) -> str | None:
        """The environment that ``conda`` describes, as JSON, if it describes one."""
        conda = self.get("conda")
        return json.dumps(dict(conda), sort_keys=True) if isinstance(conda, Mapping) else None

    def conda_uri(self) -> str | None:
        """A name for what ``conda`` describes: the same for the same."""
        return _uri("conda", self.get("conda"))

    def has_py_container(self) -> bool:
        """Whether workers run in a container."""
        return bool(self.get("container"))

    def py_container_image(self) -> str | None:
        """The container's image."""
        return self["container"].get("image", "") if self.has_py_container() else None

    def py_container_worker_path(self) -> str | None:
        """The path of the worker's script in the container, if given."""
        return self["container"].get("worker_path", "") if self.has_py_container() else None

    def py_container_run_options(self) -> list[str] | None:
        """Options for the program that runs it."""
        return self["container"].get("run_options", []) if self.has_py_container() else None

    def image_uri(self) -> str | None:
        """The image of the container that workers run in."""
        return self.get("image_uri") or None

    def nsight(self) -> Any:
        """The options of NVIDIA's profiler, if it is used."""
        return self.get("nsight") or self.get("_nsight")

    def rocprof_sys(self) -> Any:
        """The options of AMD's profiler, if it is used."""
        return self.get("rocprof_sys")

    def worker_process_setup_hook(self) -> Any:
        """The function that every worker runs first."""
        return self.get("worker_process_setup_hook")

    def get_extension(self, key: str) -> Any:
        """The value of one of :attr:`extensions_fields`.

        Args:
            key: Its name.

        Returns:
            Its value; ``None`` where it is not set.

        Raises:
            ValueError: There is no such extension.
        """
        if key not in self.extensions_fields:
            raise ValueError(
                f"Extension key must be one of {sorted(self.extensions_fields)}, got: {key}"
            )
        return self.get(key)

    def plugins(self) -> list[tuple[str, Any]]:
        """The fields of plugins, with their values."""
        return [(name, value) for name, value in self.items() if name not in self.known_fields]

    def plugin_uris(self) -> list[str]:
        """Return nothing: plugins are asked for their URIs where the environment is made."""
        return []


def _plain(value: Any) -> Any:
    """A dataclass as a dictionary."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


def _object(kind: Any, value: Any) -> Any:
    """A dictionary as an object of a dataclass, whose fields may be dataclasses."""
    if not (dataclasses.is_dataclass(kind) and isinstance(value, Mapping)):
        return value
    types = typing.get_type_hints(kind)
    make: Any = kind
    return make(**{name: _object(types.get(name), inner) for name, inner in value.items()})


def _uri(tool: str, what: Any) -> str | None:
    if not what:
        return None
    import hashlib

    text = json.dumps(what, sort_keys=True)
    return f"{tool}://{hashlib.sha256(text.encode()).hexdigest()[:40]}"


def _rebuild(fields: dict[str, Any]) -> RuntimeEnv:
    return RuntimeEnv(_validate=False, **fields)


def check_runtime_env(env: Mapping[str, Any] | None) -> None:
    """Refuse what cannot be made, at the call that asks for it."""
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise TypeError(f"runtime_env must be a dictionary or a RuntimeEnv, got {type(env)}")
    _check_fields(env)
    for tool in ("pip", "uv"):
        if env.get(tool) is not None:
            _packages(tool, env[tool])
    _check_env_vars(env.get("env_vars"))
    if isinstance(config := env.get("config"), Mapping):
        RuntimeEnvConfig.parse_and_validate_runtime_env_config(config)
    if not isinstance(env.get("py_executable") or "", str):
        raise TypeError(
            "runtime_env['py_executable'] must be a command as one string, "
            f"got {type(env['py_executable'])}"
        )
    for field, wanted, types in _TYPES:
        if not isinstance(env.get(field), types):
            raise TypeError(f"runtime_env[{field!r}] must be {wanted}, got {type(env[field])}")
    if env.get("working_dir") or env.get("py_modules"):
        from heliostat.core.runtime_env import code_packages

        if env.get("working_dir"):
            code_packages.check("working_dir", env["working_dir"])
        for place in env.get("py_modules") or ():
            code_packages.check("py_modules", place)


def _check_fields(env: Mapping[str, Any]) -> None:
    """Refuse every field that there is not, or that cannot be done."""
    if not env:
        return
    from heliostat.core.runtime_env import commands, plugin_fields

    plugins = plugin_fields.plugins()
    for name, value in env.items():
        if name not in FIELDS and name not in plugins and value is not None:
            said = _unknown(f"runtime_env has no field {name!r}", name, [*FIELDS, *plugins])
            raise ValueError(f"{said} A plugin's field is known by {plugin_fields.VARIABLE}.")
    if env.get("java_jars"):
        raise ValueError("runtime_env['java_jars']: Heliostat has no workers in Java; leave it out")
    both = [name for name in _ONE_OF if env.get(name)]
    if len(both) > 1:
        names = " and ".join(repr(name) for name in both)
        raise ValueError(
            f"runtime_env: {names} cannot both be given. A conda environment takes packages of pip by a "
            "'pip' list among its dependencies."
        )
    commands.check(env)
    plugin_fields.check(env)


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    near = spelling.nearest(str(name), [one for one in known if one[0] != "_"], cutoff=0.5)
    return f"{what}; did you mean {near[0]!r}?" if near else f"{what}."


def _packages(tool: str, given: Any) -> dict[str, Any]:
    from heliostat.core.runtime_env import packages

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
    What a worker has to do by itself goes into a variable of its own, see :mod:`.worker.preparation`.
    """
    plain = {name: value for name, value in (env or {}).items() if value}
    if logging is not None:
        plain["_logging"] = dict(logging)
    for tool in ("pip", "uv"):
        if tool in plain:
            plain[tool] = _packages(tool, plain[tool])
    if "conda" in plain:
        from heliostat.core.runtime_env import commands

        plain["conda"] = commands.conda_config(plain["conda"])
    if fields := [name for name in plain if name not in FIELDS and name not in _OURS]:
        plain["_plugins"] = fields
    if "worker_process_setup_hook" in plain:
        hook = plain["worker_process_setup_hook"]
        plain["worker_process_setup_hook"] = preparation.hook_text(hook)
    if setup := preparation.packed(plain):
        plain["env_vars"] = {**(plain.get("env_vars") or {}), preparation.VARIABLE: setup}
    return json.dumps(plain, sort_keys=True, separators=(",", ":")) if plain else ""


def from_json(text: str) -> dict[str, Any]:
    """Back again; nothing for the empty text."""
    env: dict[str, Any] = json.loads(text) if text else {}
    env_vars = env.get("env_vars") or {}
    if env_vars.pop(preparation.VARIABLE, None) is not None and not env_vars:
        del env["env_vars"]
    return env


def of_user(text: str) -> dict[str, Any]:
    """Back again, without what the user has not said."""
    return {name: value for name, value in from_json(text).items() if name not in _OURS}


def inherit(parent: str, child: Mapping[str, Any] | None) -> str:
    """The child's environment in the parent's: variables merge, other fields replace (JSON)."""
    if not child:
        return parent
    base = from_json(parent)
    if child.get("working_dir") or child.get("py_modules"):
        from heliostat.core.runtime_env import code_packages

        child = code_packages.packaged(child, _heliostat.session()["session_dir"])
    env_vars = {**(base.get("env_vars") or {}), **(child.get("env_vars") or {})}
    return to_json({**base, **child, "env_vars": env_vars})
