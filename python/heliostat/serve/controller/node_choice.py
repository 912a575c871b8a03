"""On which node a replica goes whose deployment has a `max_replicas_per_node`. No clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heliostat.serve.deployment_config import DeploymentConfig


class Node(NamedTuple):
    """A node, and what nobody uses of it: amounts by name."""

    id: str
    free: Mapping[str, float]


def place(config: DeploymentConfig, nodes: Iterable[Node], taken: Iterable[str]) -> str | None:
    """The node with room that has the fewest of the deployment's replicas; ``None``: each has its most.

    ``taken``: the node of each of these replicas.
    """
    most = config.max_replicas_per_node
    needed = config.resources()
    there = list(taken)
    free = [
        node
        for node in nodes
        if (most is None or there.count(node.id) < most)
        and all(node.free.get(name, 0) >= amount for name, amount in needed.items())
    ]
    if not free:
        return None
    return min(free, key=lambda node: (there.count(node.id), -node.free.get("CPU", 0))).id
