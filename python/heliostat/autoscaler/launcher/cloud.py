"""Machines that a cloud makes: what a cloud must do for it, and the provider over any of them.

The user's machine makes the head. All others are made by the autoscaler beside the head (``growing.py``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from heliostat.autoscaler.launcher.config import Auth, Config
from heliostat.autoscaler.launcher.node_types import NodeType, NodeTypes
from heliostat.autoscaler.launcher.providers import Host

# How long a machine may take until it has an address, and then until ssh reaches it, in seconds.
ADDRESS_S = 300.0
BOOT_S = 300.0
_LOOK_S = 1.0


class CloudError(OSError):
    """The refusal of a cloud, in one sentence."""


@dataclass(frozen=True)
class CloudMachine:
    """A machine of the cluster that is there or is being made. ``host``: ``None`` while it has no address."""

    id: str
    kind: str
    is_head: bool
    host: Host | None


class Cloud(Protocol):
    """A cloud, for one cluster. What asks it raises ``CloudError`` where it refuses or does not answer."""

    def prepare(self) -> None:
        """Make what its machines need, such as a key and a firewall that lets them reach one another."""

    def key(self) -> Path | None:
        """The private key that opens its machines; ``None``: the file's, or ssh's own."""

    def machines(self) -> list[CloudMachine]:
        """Return the machines that are there or are being made."""

    def run(self, kind: NodeType, count: int, *, is_head: bool = False) -> list[str]:
        """Make so many; their ids."""

    def release(self, ids: Sequence[str]) -> None:
        """End these, or put them aside for the next time."""

    def resources(self, kind: NodeType) -> dict[str, float]:
        """Return the resources of one machine of the kind."""

    def told_on_head(self) -> dict[str, Any]:
        """Return the file as the autoscaler beside the head reads it: all that was prepared is
        named.
        """


def kinds_of(config: Config) -> NodeTypes:
    """The node types of a cloud's cluster: its file has them."""
    assert config.node_types is not None
    return config.node_types


class CloudProvider:
    """The machines of a cluster in a cloud, as the launcher sees them."""

    def __init__(
        self,
        config: Config,
        cloud: Cloud,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cloud = cloud
        self.notes: list[str] = []
        self._config, self._kinds = config, kinds_of(config)
        self._now, self._pause = now, pause

    def auth(self) -> Auth:
        """The file's, with the key that the cloud was told of."""
        key = self.cloud.key()
        return self._config.auth if key is None else replace(self._config.auth, private_key=key)

    def env_of(self, host: Host) -> Mapping[str, str]:
        """Return the variables by which a node offers the resources that the file gives its kind."""
        kind = self._kinds.of(host.kind)
        if kind is None:
            return {}
        env = {"RAY_NODE_TYPE_NAME": kind.name, "RAY_CLOUD_INSTANCE_ID": host.id}
        if kind.resources:
            env["RAY_OVERRIDE_RESOURCES"] = json.dumps(dict(kind.resources))
        if kind.labels:
            env["RAY_OVERRIDE_LABELS"] = json.dumps(dict(kind.labels))
        return env

    def head(self) -> Host | None:
        """The head's machine, when it has an address."""
        return next((one.host for one in self.cloud.machines() if one.is_head), None)

    def workers(self) -> list[Host]:
        """The others that have an address."""
        found = [one.host for one in self.cloud.machines() if not one.is_head]
        return [host for host in found if host is not None]

    def is_up(self) -> bool:
        """Whether there is a head."""
        return any(one.is_head for one in self.cloud.machines())

    def everything(self) -> list[Host]:
        """All machines of the cluster, which are its workers: a cloud knows what it has made."""
        return self.workers()

    def take_head(self) -> Host:
        """The head's machine, made if there is none."""
        self.cloud.prepare()
        heads = [one.id for one in self.cloud.machines() if one.is_head]
        (made, *_) = heads or self.cloud.run(self._kinds.head, 1, is_head=True)
        return self.addressed(made)

    def addressed(self, machine: str) -> Host:
        """Wait until the machine has an address, and return it. Raises ``CloudError`` where it gets none."""
        until = self._now() + ADDRESS_S
        while True:
            found = {one.id: one for one in self.cloud.machines()}
            # A cloud may not know yet what it has just made.
            if machine in found and (host := found[machine].host) is not None:
                return host
            if self._now() >= until:
                raise CloudError(
                    f"Machine {machine} has no address after {ADDRESS_S:.0f} s. With "
                    "`provider.use_internal_ips: true` its inner one is taken."
                )
            self._pause(_LOOK_S)

    def take_workers(self) -> list[Host]:
        """Return the workers that stay with ``down --keep-min-workers``: of each kind ``min_workers``."""
        left = {name: kind.least for name, kind in self._kinds.workers.items()}
        kept = []
        for host in self.workers():
            if left.get(host.kind, 0) > 0:
                left[host.kind] -= 1
                kept.append(host)
        return kept

    def joined(self, host: Host) -> None:
        """A cloud knows that by itself."""

    def release(self, hosts: Sequence[Host]) -> None:
        """End them, and with the head those that have no address yet."""
        gone = {host.id for host in hosts}
        there = self.cloud.machines()
        if any(one.is_head and one.id in gone for one in there):
            gone |= {one.id for one in there}
        if gone:
            self.cloud.release(sorted(gone))
