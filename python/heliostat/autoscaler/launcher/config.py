"""The YAML file that describes a cluster: what it may say, and one sentence for each mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heliostat.autoscaler.launcher.checks import (
    ConfigError,
    boolean,
    bounds,
    known,
    number,
    section,
    texts,
)
from heliostat.autoscaler.launcher.container import Containers
from heliostat.autoscaler.launcher.container import read as containers_of
from heliostat.autoscaler.launcher.node_types import WORKERS_MAX, NodeTypes, read
from heliostat.core.platform.extras import missing

_COMMANDS = (
    "initialization_commands",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
# Kinds of providers: `providers.py` knows each.
PROVIDER_TYPES = ("aws", "local")
# Fields for the machines of a cloud, which come and go: a list of machines has no use for it.
_GROWTH = ("idle_timeout_minutes", "upscaling_speed")
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
    *_GROWTH,
    "metadata",
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


@dataclass(frozen=True)
class Auth:
    """The login of ssh. ``user``, ``private_key``: ``None`` leaves it to ssh and its own configuration."""

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
    containers: Containers | None = None
    """The containers in which it runs; ``None`` where it runs on the machines themselves."""
    node_types: NodeTypes | None = None
    """The kinds of a cloud's machines; ``None`` for a list of machines."""
    idle_timeout_s: float = 300.0
    upscaling_speed: float = 1.0
    told: Mapping[str, Any] = field(default_factory=dict)
    """All that the file says."""
    notes: tuple[str, ...] = ()
    """The parts of the file without effect, a sentence each."""

    def setup_of(self, is_head: bool, kind: str = "") -> tuple[str, ...]:
        """The commands that set up the head, or another machine of that kind, in their order, behind
        ``initialization_commands``."""
        own = self.head_setup_commands if is_head else self.worker_setup_commands
        found = self.node_types.of(kind) if self.node_types and not is_head else None
        if found is not None and found.setup_commands is not None:
            own = found.setup_commands
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
    """Check what a file says. Raises ``ConfigError``."""
    try:
        return _checked(told, path, {k: v for k, v in overrides.items() if v is not None})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _checked(told: Any, path: str, overrides: Mapping[str, Any]) -> Config:
    if not isinstance(told, Mapping):
        raise ConfigError("it must be a mapping that begins with `cluster_name:`.")
    told = {**told, **overrides}
    known(told, _KEYS)
    for key in ("cluster_name", "provider"):
        if key not in told:
            raise ConfigError(f"`{key}` is missing.")
    name = told["cluster_name"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"`cluster_name` is {name!r}: write a name of letters, digits, `-`, `_` and `.`."
        )
    least, most = bounds(told)
    provider = _provider(told)
    is_list = provider["type"] == "local"
    notes = [
        f"{path}: `{key}` has no effect: all machines of a list stay in the cluster."
        for key in _GROWTH
        if key in told and is_list
    ]
    if least is not None and not is_list:
        raise ConfigError("`min_workers` stands in each of `available_node_types`.")
    if boolean(told, "file_mounts_sync_continuously"):
        notes.append(
            f"{path}: `file_mounts_sync_continuously` has no effect: `rsync-up --all-nodes` "
            "copies the file mounts again."
        )
    containers = containers_of(told)
    if containers is not None and not is_list:
        raise ConfigError(
            "`docker` goes with `type: local`: for a cloud's machines leave it out, and start containers "
            "by your own commands."
        )
    return Config(
        path=path,
        cluster_name=name,
        provider=provider,
        auth=_auth(told),
        min_workers=least,
        max_workers=most,
        file_mounts=_mounts(told),
        cluster_synced_files=texts(told, "cluster_synced_files"),
        rsync_exclude=texts(told, "rsync_exclude"),
        rsync_filter=texts(told, "rsync_filter"),
        containers=containers,
        node_types=None if is_list else read(told, WORKERS_MAX if most is None else most),
        idle_timeout_s=60.0 * number(told, "idle_timeout_minutes", 5.0),
        upscaling_speed=number(told, "upscaling_speed", 1.0),
        told=told,
        notes=tuple(notes),
        **{key: texts(told, key) for key in _COMMANDS if told.get(key) is not None},
    )


def _provider(told: Mapping[str, Any]) -> Mapping[str, Any]:
    found = told["provider"]
    if not isinstance(found, Mapping):
        raise ConfigError("`provider` must be a mapping that begins with `type:`.")
    kind = found.get("type")
    if not isinstance(kind, str):
        raise ConfigError("`provider` has no `type`: write `type: local` for a list of machines.")
    if kind not in PROVIDER_TYPES:
        raise ConfigError(
            f"`provider.type` is {kind!r}, which is not supported: {' and '.join(PROVIDER_TYPES)} are."
        )
    if kind == "local":
        for key in ("head_node", "worker_nodes", "available_node_types", "head_node_type"):
            if told.get(key):
                raise ConfigError(
                    f"`{key}` is not for `type: local`, whose machines are `provider.head_ip` "
                    "and `provider.worker_ips`."
                )
    return found


def _auth(told: Mapping[str, Any]) -> Auth:
    found = section(told, "auth")
    known(found, _AUTH, "auth: ")
    for key in ("ssh_user", "ssh_private_key", "ssh_proxy_command"):
        if found.get(key) is not None and (not isinstance(found[key], str) or not found[key]):
            raise ConfigError(f"`auth.{key}` must be a text, not {found[key]!r}.")
    file = found.get("ssh_private_key")
    path = None if file is None else Path(file).expanduser()
    if path is not None and not path.is_file():
        raise ConfigError(f"`auth.ssh_private_key` is {file!r}, and there is no such file.")
    return Auth(found.get("ssh_user"), path, found.get("ssh_proxy_command"))


def _mounts(told: Mapping[str, Any]) -> dict[str, Path]:
    found = section(told, "file_mounts")
    mounts = {}
    for remote, local in found.items():
        if not isinstance(remote, str) or not isinstance(local, str):
            raise ConfigError(f"`file_mounts`: {remote!r}: {local!r} must be two paths.")
        mounts[remote] = Path(local).expanduser()
        if not mounts[remote].exists():
            raise ConfigError(f"`file_mounts`: {remote!r} is {local!r}, and there is no such file.")
    return mounts
