"""The model of an autoscaler: kinds of machines, the machines that there are, and the demands that
wait for room.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Resources = dict[str, float]
Selector = Mapping[str, str]

# Resources that bind no request: they stand for the machine, or are not planned with.
_UNPLANNED = ("object_store_memory",)
_TINY = 1e-9


@dataclass(frozen=True)
class NodeType:
    """A kind of machine that can be had.

    ``least`` and ``most`` bound how many of them there are, ``idle_timeout_s`` is how long one may have
    nothing to do, in seconds; ``None``: the cluster's own. ``batch`` of them come and go together.
    """

    name: str
    resources: Resources
    labels: dict[str, str] = field(default_factory=dict)
    least: int = 0
    most: int = 0
    idle_timeout_s: float | None = None
    batch: int = 1


@dataclass(frozen=True)
class Instance:
    """A machine that was asked for, whether or not its node has joined.

    ``id`` is what its provider calls it. Those of one ``unit`` come and go together; ``""``: it is alone.
    """

    id: str
    type: str
    unit: str = ""


@dataclass(frozen=True)
class Failure:
    """A machine of the kind that was not had, why, and when: seconds since 1970."""

    kind: str
    why: str
    moment: float


@dataclass
class Node:
    """A node that is in the cluster."""

    id: str
    instance: str
    type: str
    total: Resources
    available: Resources
    labels: dict[str, str]
    is_head: bool = False
    is_idle: bool = False
    is_draining: bool = False


@dataclass
class Demand:
    """``count`` requests of one shape; each fits a node whose labels one of ``selectors`` takes."""

    resources: Resources
    count: int
    selectors: Sequence[Selector] = ({},)


@dataclass
class Gang:
    """Bundles that are placed together or not at all; ``held``: ids of the nodes that have others of them."""

    id: str
    strategy: str
    bundles: list[Demand]
    held: list[str] = field(default_factory=list)


@dataclass
class State:
    """The cluster, as its head tells it."""

    nodes: list[Node] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)
    gangs: list[Gang] = field(default_factory=list)
    constraints: list[Demand] = field(default_factory=list)


class Provider(Protocol):
    """A provider of machines: it starts them and ends them."""

    def types(self) -> dict[str, NodeType]:
        """The kinds of machines by name."""

    def idle_timeout_s(self) -> float:
        """The seconds that a machine may be idle, unless its kind says otherwise."""

    def asked(self) -> dict[str, int]:
        """The number of machines of each kind that were asked for, those that are there included."""

    def instances(self) -> list[Instance]:
        """The machines that have a name already, and are not being ended."""

    def joined(self, instances: Collection[str]) -> None:
        """Told at each look: the machines that have a node now."""

    def failures(self) -> list[Failure]:
        """Return the latest failures, the newest last."""

    def more_max(self) -> int | None:
        """The number of machines that may still be asked for now; ``None``: any number."""

    def launch(self, wanted: Mapping[str, int]) -> None:
        """Ask for so many more of each kind. Returns at once; raises ``OSError`` where nobody answers."""

    def terminate(self, instances: Sequence[Instance]) -> None:
        """End these. Returns at once; raises as ``launch``."""


def parse(told: Mapping[str, Any]) -> State:
    """The state of ``GET /api/autoscaler/state``."""
    return State(
        nodes=[
            Node(
                id=row["node_id"],
                instance=row["instance_id"],
                type=row["node_type"] or "",
                total=planned(row["total"]),
                available=planned(row["available"]),
                labels=row["labels"],
                is_head=row["is_head"],
                is_idle=row["is_idle"],
                is_draining=row["is_draining"],
            )
            for row in told["nodes"]
        ],
        demands=[_demand(row, row["count"]) for row in told["demands"]],
        gangs=[
            Gang(
                row["id"], row["strategy"], [_demand(one, 1) for one in row["bundles"]], row["held"]
            )
            for row in told["gangs"]
        ],
        constraints=_grouped(told["constraints"]),
    )


def _demand(row: Mapping[str, Any], count: int) -> Demand:
    return Demand(planned(row["resources"]), count, row["selectors"])


def _grouped(rows: Sequence[Mapping[str, Any]]) -> list[Demand]:
    """Equal ones of ``request_resources`` as one with their count."""
    found: dict[str, Demand] = {}
    for row in rows:
        selector = row.get("label_selector") or {}
        key = repr((sorted(row["resources"].items()), sorted(selector.items())))
        known = found.setdefault(key, Demand(planned(row["resources"]), 0, [selector]))
        known.count += 1
    return list(found.values())


def planned(resources: Mapping[str, float]) -> Resources:
    """Return the resources that plans count with."""
    return {
        name: float(quantity)
        for name, quantity in resources.items()
        if quantity > 0 and name not in _UNPLANNED
    }


def fits(need: Resources, room: Resources) -> bool:
    """Whether there is room for it."""
    return all(room.get(name, 0.0) + _TINY >= quantity for name, quantity in need.items())


def times(need: Resources, room: Resources, most: int) -> int:
    """The number of times that the need fits, up to ``most``."""
    bounds = [int((room.get(name, 0.0) + _TINY) / quantity) for name, quantity in need.items()]
    return max(min([most, *bounds]), 0)


def take(need: Resources, room: Resources, count: int = 1) -> None:
    """Have it ``count`` times."""
    for name, quantity in need.items():
        room[name] = room.get(name, 0.0) - quantity * count


def accepts(selectors: Sequence[Selector], labels: Mapping[str, str]) -> bool:
    """Whether one of the selectors takes a node with these labels."""
    return any(
        all(_takes(value, labels.get(key)) for key, value in one.items()) for one in selectors
    )


def _takes(selector: str, value: str | None) -> bool:
    is_not = selector.startswith("!")
    words = selector[1:] if is_not else selector
    several = re.fullmatch(r"in\((.*)\)", words)
    chosen = [word.strip() for word in several[1].split(",")] if several else [words]
    return (value in chosen) is not is_not
