"""The resources of the cluster: whether a group can be placed at all, and how much fits now."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.core.platform import membership
from heliostat.train.config import ScalingConfig
from heliostat.train.group.placement import placed_resources

if TYPE_CHECKING:
    from heliostat.core.platform.membership import NodeRow

_ACCELERATOR = "accelerator_type:"
_UNITS = {"memory": "bytes of memory", "CPU": "CPU", "GPU": "GPU"}


def _fits(resources: dict[str, float], wanted: dict[str, float]) -> int:
    """The number of workers with ``wanted`` each that fit into ``resources``."""
    counts = [
        math.floor(resources.get(name, 0.0) / amount + 1e-9) for name, amount in wanted.items()
    ]
    return min(counts) if counts else 1_000_000


def _alive() -> list[dict[str, Any]]:
    leaving = {row["node_id"] for row in membership.members()[1] if row["is_draining"]}
    return [n for n in ray.nodes() if n["Alive"] and n["NodeID"] not in leaving]


def _amounts(resources: dict[str, float]) -> str:
    shown = [f"{v:g} {k}" for k, v in sorted(resources.items()) if k in ("CPU", "GPU")]
    # Those of placement groups, such as CPU_group_<id>, are parts of the others.
    rest = sorted(
        k
        for k in resources
        if ":" not in k and "_group_" not in k and k not in ("CPU", "GPU", "object_store_memory")
    )
    shown += [f"{resources[k]:g} {k}" for k in rest if k != "memory"]
    shown += sorted(k for k in resources if k.startswith(_ACCELERATOR))
    return ", ".join(shown) or "nothing"


def why_infeasible(scaling: ScalingConfig, workers: int) -> str | None:
    """Say why a group of ``workers`` can never be placed, None when it can, as far as known."""
    nodes, wanted = _alive(), placed_resources(scaling)
    rooms = [_fits(n.get("Resources", {}), wanted) for n in nodes]
    if sum(rooms) < workers:
        return _too_little(nodes, rooms, wanted, workers)
    strategy, places = scaling.placement_strategy, sum(1 for room in rooms if room)
    if scaling.elasticity_enabled:  # its workers are placed one by one
        return None
    if strategy == "STRICT_SPREAD" and places < workers:
        return (
            f"placement_strategy='STRICT_SPREAD' puts each of {workers} workers on a node of its "
            f"own, but only {places} of {len(nodes)} nodes can hold one. Set "
            "placement_strategy='SPREAD', or add nodes."
        )
    if strategy == "STRICT_PACK" and max(rooms) < workers:
        return (
            f"placement_strategy='STRICT_PACK' puts all {workers} workers on one node, but the "
            f"largest has room for {max(rooms)}. Set placement_strategy='PACK', or ask for less."
        )
    return None


def _too_little(
    nodes: list[dict[str, Any]], rooms: list[int], wanted: dict[str, float], workers: int
) -> str:
    lines, missing = [], set()
    for node, room in zip(nodes, rooms, strict=True):
        total = node.get("Resources", {})
        short = [k for k, v in wanted.items() if total.get(k, 0.0) < v * (room + 1)]
        missing.update(short)
        lines.append(
            f"  node {node.get('NodeManagerAddress', '?')} has {_amounts(total)}: room for {room}"
            + (f", limited by {', '.join(short)}" if short else "")
        )
    advice = []
    if "GPU" in missing and not any(n.get("Resources", {}).get("GPU") for n in nodes):
        advice.append("set use_gpu=False to train on CPUs, or add a node with GPUs")
    else:
        advice.append("ask for fewer workers or less per worker, or add nodes")
        if list(missing) == ["CPU"]:
            advice.append("CPUs are counted, not measured: init(num_cpus=...) may promise more")
    want = ", ".join(
        k if k.startswith(_ACCELERATOR) else f"{v:g} {_UNITS.get(k, k)}" for k, v in wanted.items()
    )
    return (
        f"The cluster cannot hold {workers} worker{'s' if workers != 1 else ''} with {want} each:\n"
        + "\n".join(lines)
        + f"\nTo go on: {'; '.join(advice)}."
    )


def room_now(wanted: dict[str, float]) -> int:
    """The number of further workers that fit into what is free now, on nodes that stay."""
    return sum(_fits(row["available"], wanted) for row in staying())


def staying() -> list[NodeRow]:
    """The nodes that are alive and are not about to leave."""
    return [row for row in membership.members()[1] if row["alive"] and not row["is_draining"]]


def why_waiting(scaling: ScalingConfig, workers: int, has_room: bool) -> str:
    """Say what ``workers`` wait for that can be placed; ``has_room``: it is reserved for them."""
    wanted, free = scaling.worker_resources, ray.available_resources()
    short = [
        f"{v * workers:g} {_UNITS.get(k, k)} (free: {free.get(k, 0.0):g})"
        for k, v in wanted.items()
        if free.get(k, 0.0) < v * workers
    ]
    if short and not has_room:
        return "waiting for " + ", ".join(short) + ", in use by others"
    asked = [
        f"{name}={value!r}"
        for name, value in (
            ("label_selector", scaling.label_selector),
            ("accelerator_type", scaling.accelerator_type),
        )
        if value
    ]
    if asked:
        nodes = "; ".join(
            f"node {n.get('NodeManagerAddress', '?')} has {_labels(n)}" for n in _alive()
        )
        return f"waiting for nodes that match {' and '.join(asked)}; {nodes}"
    return "waiting for the processes of the workers to start"


def _labels(node: dict[str, Any]) -> str:
    labels = {k: v for k, v in node.get("Labels", {}).items() if k != "ray.io/node-id"}
    return f"the labels {labels}" if labels else "no labels"
