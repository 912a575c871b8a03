"""``ray.air.util.node``: calls and actors that are to run on one node."""

from __future__ import annotations

from typing import Any

import heliostat as ray
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

__all__ = ["_force_on_current_node", "_force_on_node", "_get_node_id_from_node_ip"]


def _get_node_id_from_node_ip(node_ip: str) -> str | None:
    """The first living node with this address."""
    ids = (n["NodeID"] for n in ray.nodes() if n["Alive"] and n["NodeManagerAddress"] == node_ip)
    return next(ids, None)


def _force_on_node(node_id: str, remote_func_or_actor_class: Any = None) -> Any:
    """The function or class with options that keep it on this node; without one, the options."""
    options = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id, soft=False)}
    if remote_func_or_actor_class is None:
        return options
    return remote_func_or_actor_class.options(**options)


def _force_on_current_node(remote_func_or_actor_class: Any = None) -> Any:
    """Require the caller's own node, where nothing else is asked for."""
    return _force_on_node(ray.get_runtime_context().get_node_id(), remote_func_or_actor_class)
