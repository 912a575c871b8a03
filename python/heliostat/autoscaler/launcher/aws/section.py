"""``provider: {type: aws, …}`` of a cluster's file, and what a node type of EC2 must say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.autoscaler.launcher.checks import ConfigError, boolean, known, section
from heliostat.autoscaler.launcher.cloud import kinds_of
from heliostat.autoscaler.launcher.config import Config

_KEYS = (
    "type",
    "region",
    "availability_zone",
    "aws_credentials",
    "cache_stopped_nodes",
    "key_pair",
    "security_group",
    "use_internal_ips",
)
# Fields of EC2's request that the launcher sets by itself.
_OURS = ("MinCount", "MaxCount")


@dataclass(frozen=True)
class Section:
    """The file's section on EC2. ``zones``: in the order in which they are tried; none: all of the
    region.
    """

    region: str
    zones: tuple[str, ...] = ()
    uses_internal_ips: bool = False
    keeps_stopped: bool = True
    key_name: str = ""
    group_name: str = ""
    rules: tuple[Mapping[str, Any], ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict)


def read(config: Config) -> Section:
    """Raises ``ConfigError`` where it is wrong."""
    told = config.provider
    known(told, _KEYS, within="provider.", of="`type: aws`")
    region = told.get("region")
    if not isinstance(region, str) or not region:
        raise ConfigError("`provider.region` must name a region of AWS, such as us-west-2.")
    zones = told.get("availability_zone") or ""
    if not isinstance(zones, str):
        raise ConfigError("`provider.availability_zone` must be a text: zones with commas between.")
    group, pair = section(told, "security_group"), section(told, "key_pair")
    rules = group.get("IpPermissions") or []
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise ConfigError("`provider.security_group.IpPermissions` must be a list of mappings.")
    _check_types(config, str(pair.get("key_name") or ""))
    return Section(
        region=region,
        zones=tuple(zone.strip() for zone in zones.split(",") if zone.strip()),
        uses_internal_ips=boolean(told, "use_internal_ips"),
        keeps_stopped=boolean(told, "cache_stopped_nodes", usual=True),
        key_name=str(pair.get("key_name") or ""),
        group_name=str(group.get("GroupName") or ""),
        rules=tuple(rules),
        credentials={str(k): str(v) for k, v in section(told, "aws_credentials").items()},
    )


def _check_types(config: Config, key_name: str) -> None:
    kinds = kinds_of(config)
    for kind in (kinds.head, *kinds.workers.values()):
        where = f"`available_node_types.{kind.name}.node_config`"
        machine = kind.node_config
        if "InstanceType" not in machine and "LaunchTemplate" not in machine:
            raise ConfigError(f"{where} must have an `InstanceType`, such as m5.large.")
        for key in _OURS:
            if key in machine:
                raise ConfigError(
                    f"{where}: leave out `{key}`: the cluster says how many there are."
                )
        if config.auth.private_key is not None and not (key_name or "KeyName" in machine):
            raise ConfigError(
                f"`auth.ssh_private_key` is given, so {where} must have the `KeyName` that AWS knows "
                "the key by. Without `ssh_private_key` a key is made."
            )
