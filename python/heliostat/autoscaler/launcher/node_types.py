"""``available_node_types``: the kinds of machines that a cloud makes for a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.autoscaler.launcher.checks import ConfigError, bounds, known, number, section, texts
from heliostat.core.platform.spelling import did_you_mean

_KEYS = (
    "node_config",
    "resources",
    "labels",
    "min_workers",
    "max_workers",
    "worker_setup_commands",
)
# As Ray has it where the file says nothing.
WORKERS_MAX = 2


@dataclass(frozen=True)
class NodeType:
    """A kind of machine. ``node_config``: its cloud's settings; ``resources``: those of the file.

    ``least`` and ``most`` bound how many workers of it there are. ``setup_commands``: ``None`` stands for the
    cluster's ``worker_setup_commands``.
    """

    name: str
    node_config: Mapping[str, Any]
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    least: int = 0
    most: int = 0
    setup_commands: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NodeTypes:
    """All kinds by name, and which of them the head is."""

    head: NodeType
    workers: Mapping[str, NodeType]

    def of(self, name: str) -> NodeType | None:
        """The kind of that name, the head's included."""
        return self.head if name == self.head.name else self.workers.get(name)


def read(told: Mapping[str, Any], workers_max: int) -> NodeTypes:
    """Read the node types of a cluster's file. Raises ``ConfigError``."""
    for key in ("head_node", "worker_nodes"):
        if told.get(key):
            raise ConfigError(f"`{key}` is of old releases: write `available_node_types`.")
    rows = section(told, "available_node_types")
    if not rows:
        raise ConfigError(
            "`available_node_types` is missing: it names the kinds of machines, such as "
            "`available_node_types: {head: {node_config: {InstanceType: m5.large}}}`."
        )
    name = str(told.get("head_node_type"))
    if name not in rows:
        named = f"is {name!r}" if told.get("head_node_type") else "is missing"
        raise ConfigError(
            f"`head_node_type` {named}: it must be one of `available_node_types`."
            f"{did_you_mean(name, rows)}"
        )
    kinds = {str(key): _one(str(key), row, workers_max) for key, row in rows.items()}
    head = kinds[name]
    # Further machines of the head's kind are made only where the file says so.
    further = {
        key: kind
        for key, kind in kinds.items()
        if key != head.name or rows[name].get("max_workers")
    }
    least = sum(kind.least for kind in further.values())
    if least > workers_max:
        raise ConfigError(
            f"`min_workers` of `available_node_types` are {least} together, and `max_workers` is "
            f"{workers_max}."
        )
    return NodeTypes(head, further)


def _one(name: str, row: Any, workers_max: int) -> NodeType:
    where = f"`available_node_types.{name}`: "
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where}it must be a mapping with `node_config`.")
    known(row, _KEYS, where)
    told = section(row, "resources", where)
    resources = {str(key): number(told, key, where=where, within="resources.") for key in told}
    labels = {}
    for key, value in section(row, "labels", where).items():
        if not isinstance(value, str):
            raise ConfigError(f"{where}`labels.{key}` is {value!r}: write a text.")
        labels[str(key)] = value
    least, most = bounds(row, where)
    setup = None
    if row.get("worker_setup_commands") is not None:
        setup = texts(row, "worker_setup_commands", where)
    return NodeType(
        name=name,
        node_config=section(row, "node_config", where),
        resources=resources,
        labels=labels,
        least=least or 0,
        most=workers_max if most is None else most,
        setup_commands=setup,
    )
