"""The YAML file that describes a cluster: what it may say, and one sentence for each mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliostat.core.extras import missing
from heliostat.core.hints import did_you_mean

_COMMANDS = (
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
# What says how a cloud's machines grow: a list of machines has no use for it.
_WITHOUT_EFFECT = ("idle_timeout_minutes", "upscaling_speed", "metadata")
_KEYS = (
    "cluster_name",
    "provider",
    "auth",
    "min_workers",
    "max_workers",
    "file_mounts",
    "file_mounts_sync_continuously",
    "cluster_synced_files",
    "rsync_exclude",
    "rsync_filter",
    "docker",
    "available_node_types",
    "head_node_type",
    "head_node",
    "worker_nodes",
    *_COMMANDS,
    *_WITHOUT_EFFECT,
)
_AUTH = (
    "ssh_user",
    "ssh_private_key",
    "ssh_public_key",
    "ssh_proxy_command",
    "ssh_proxy_use_node_id",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

HEAD_START = ("ray stop", "ulimit -c unlimited; ray start --head --port=6379")
WORKER_START = ("ray stop", "ray start --address=$RAY_HEAD_IP:6379")


class ConfigError(ValueError):
    """What is wrong with the file, in one sentence."""


@dataclass(frozen=True)
class Auth:
    """How ssh gets in. ``user``, ``private_key``: ``None`` leaves it to ssh and its own configuration."""

    user: str | None = None
    private_key: Path | None = None
    proxy_command: str | None = None


@dataclass(frozen=True)
class Config:
    """A cluster that was checked. ``max_workers``, ``min_workers``: ``None`` where the file does not say."""

    path: str
    cluster_name: str
    provider: Mapping[str, Any]
    auth: Auth = Auth()
    min_workers: int | None = None
    max_workers: int | None = None
    file_mounts: Mapping[str, Path] = field(default_factory=dict)
    cluster_synced_files: tuple[str, ...] = ()
    rsync_exclude: tuple[str, ...] = ()
    rsync_filter: tuple[str, ...] = ()
    initialization_commands: tuple[str, ...] = ()
    setup_commands: tuple[str, ...] = ()
    head_setup_commands: tuple[str, ...] = ()
    worker_setup_commands: tuple[str, ...] = ()
    head_start_ray_commands: tuple[str, ...] = HEAD_START
    worker_start_ray_commands: tuple[str, ...] = WORKER_START
    told: Mapping[str, Any] = field(default_factory=dict)
    """All that the file says."""
    notes: tuple[str, ...] = ()
    """What the file says that has no effect, a sentence each."""

    def setup_of(self, is_head: bool) -> tuple[str, ...]:
        """The commands that set up the head, or another machine, in their order."""
        own = self.head_setup_commands if is_head else self.worker_setup_commands
        return (*self.setup_commands, *own)

    def start_of(self, is_head: bool) -> tuple[str, ...]:
        """The commands that start the head, or another machine."""
        return self.head_start_ray_commands if is_head else self.worker_start_ray_commands


def load(path: str, **overrides: Any) -> Config:
    """Read and check a file; ``overrides`` replace keys of it, ``None`` replaces none.

    Raises ``ConfigError`` with what is wrong.
    """
    try:
        import yaml
    except ImportError:
        raise ConfigError(str(missing("yaml", "A cluster's file"))) from None
    try:
        told = yaml.safe_load(Path(path).expanduser().read_text())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    return check(told, path, **overrides)


def check(told: Any, path: str = "The configuration", **overrides: Any) -> Config:
    """The same for what a file says. Raises ``ConfigError``."""
    try:
        return _checked(told, path, {k: v for k, v in overrides.items() if v is not None})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _checked(told: Any, path: str, overrides: Mapping[str, Any]) -> Config:
    if not isinstance(told, Mapping):
        raise ConfigError("it must be a mapping that begins with `cluster_name:`.")
    told = {**told, **overrides}
    _known(told, _KEYS, "")
    for key in ("cluster_name", "provider"):
        if key not in told:
            raise ConfigError(f"`{key}` is missing.")
    name = told["cluster_name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"`cluster_name` is {name!r}: write a name of letters, digits, `-`, `_` and `.`."
        )
    least, most = (_count(told, key) for key in ("min_workers", "max_workers"))
    if least is not None and most is not None and least > most:
        raise ConfigError(f"`min_workers` ({least}) is more than `max_workers` ({most}).")
    notes = [
        f"{path}: `{key}` has no effect: all machines of a list stay in the cluster."
        for key in ("idle_timeout_minutes", "upscaling_speed")
        if key in told
    ]
    if _bool(told, "file_mounts_sync_continuously"):
        notes.append(
            f"{path}: `file_mounts_sync_continuously` has no effect: `rsync-up --all-nodes` "
            "copies the file mounts again."
        )
    docker = told.get("docker") or {}
    if not isinstance(docker, Mapping) or any(docker.get(key) for key in docker if "image" in key):
        raise ConfigError(
            "`docker` is not supported: leave it out, and start containers by your own commands."
        )
    return Config(
        path=path,
        cluster_name=name,
        provider=_provider(told),
        auth=_auth(told),
        min_workers=least,
        max_workers=most,
        file_mounts=_mounts(told),
        cluster_synced_files=_texts(told, "cluster_synced_files"),
        rsync_exclude=_texts(told, "rsync_exclude"),
        rsync_filter=_texts(told, "rsync_filter"),
        told=told,
        notes=tuple(notes),
        **{key: _texts(told, key) for key in _COMMANDS if told.get(key) is not None},
    )


def _known(told: Mapping[Any, Any], keys: Iterable[str], where: str) -> None:
    for key in told:
        if key not in keys:
            raise ConfigError(
                f"{where}`{key}` is not a key of a cluster's file.{did_you_mean(str(key), keys)}"
            )


def _provider(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found = told["provider"]
    if not isinstance(found, Mapping):
        raise ConfigError("`provider` must be a mapping that begins with `type:`.")
    if not isinstance(found.get("type"), str):
        raise ConfigError("`provider` has no `type`: write `type: local` for a list of machines.")
    if found["type"] == "local":
        for key in ("head_node", "worker_nodes", "available_node_types", "head_node_type"):
            if told.get(key):
                raise ConfigError(
                    f"`{key}` is not for `type: local`, whose machines are `provider.head_ip` "
                    "and `provider.worker_ips`."
                )
    return found


def _auth(told: Mapping[str, Any]) -> Auth:
    found = told.get("auth") or {}
    if not isinstance(found, Mapping):
        raise ConfigError("`auth` must be a mapping, such as `auth: {ssh_user: ubuntu}`.")
    _known(found, _AUTH, "auth: ")
    for key in ("ssh_user", "ssh_private_key", "ssh_proxy_command"):
        if found.get(key) is not None and (not isinstance(found[key], str) or not found[key]):
            raise ConfigError(f"`auth.{key}` must be a text, not {found[key]!r}.")
    file = found.get("ssh_private_key")
    path = None if file is None else Path(file).expanduser()
    if path is not None and not path.is_file():
        raise ConfigError(f"`auth.ssh_private_key` is {file!r}, and there is no such file.")
    return Auth(found.get("ssh_user"), path, found.get("ssh_proxy_command"))


def _mounts(told: Mapping[str, Any]) -> dict[str, Path]:
    found = told.get("file_mounts") or {}
    if not isinstance(found, Mapping):
        raise ConfigError("`file_mounts` must be a mapping of remote paths to local ones.")
    mounts = {}
    for remote, local in found.items():
        if not isinstance(remote, str) or not isinstance(local, str):
            raise ConfigError(f"`file_mounts`: {remote!r}: {local!r} must be two paths.")
        mounts[remote] = Path(local).expanduser()
        if not mounts[remote].exists():
            raise ConfigError(f"`file_mounts`: {remote!r} is {local!r}, and there is no such file.")
    return mounts


def _count(told: Mapping[str, Any], key: str) -> int | None:
    found = told.get(key)
    if found is not None and (type(found) is not int or found < 0):
        raise ConfigError(f"`{key}` is {found!r}: write a whole number of 0 or more.")
    return found


def _bool(told: Mapping[str, Any], key: str) -> bool:
    found = told.get(key) or False
    if not isinstance(found, bool):
        raise ConfigError(f"`{key}` is {found!r}: write true or false.")
    return found


def _texts(told: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = told.get(key) or []
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ConfigError(f"`{key}` must be a list of texts, one a line after `- `.")
    return tuple(found)
