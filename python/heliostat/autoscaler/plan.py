"""The machines to ask for: a pure function of the nodes and the demands that wait.

What waits is laid on what is free, on machines that are on their way, and, where that does not do, on further
ones: gangs first, each as a whole or not at all, then single requests, the largest first. What
``request_resources`` asks for is laid on whole machines, whatever runs on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from heliostat.autoscaler.model import (
    Demand,
    Gang,
    NodeType,
    Resources,
    Selector,
    State,
    accepts,
    fits,
    take,
    times,
)

# Devices that are dear: what needs none is not laid on a machine that has some, if another can be had.
_DEVICES = ("GPU", "TPU", "NPU", "HPU", "neuron_cores")


@dataclass
class Bin:
    """Room on a machine that is there (``node``), on its way, or to be asked for."""

    room: Resources
    labels: Mapping[str, str]
    type: str
    node: str = ""
    is_used: bool = False

    def copy(self) -> Bin:
        return Bin(dict(self.room), self.labels, self.type, self.node, self.is_used)


@dataclass
class Wait:
    """Something that waits: for machines of ``types``, or, without one, for what ``why`` says."""

    types: list[str] = field(default_factory=list)
    why: str = ""
    resources: Resources | None = None
    gang: str = ""


@dataclass
class Plan:
    """``launch``: how many more of each kind; ``needed``: ids of nodes that something was laid on;
    ``unneeded``: of each kind, how many machines on their way nobody needs."""

    launch: Counter[str] = field(default_factory=Counter)
    waits: list[Wait] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)
    unneeded: Counter[str] = field(default_factory=Counter)


class _Planner:
    def __init__(
        self, types: Mapping[str, NodeType], counts: Mapping[str, int], bins: list[Bin]
    ) -> None:
        self.types = types
        self.counts = Counter(counts)  # of each kind, those to be asked for included
        self.bins = bins
        self.launch: Counter[str] = Counter()

    def snapshot(self) -> tuple[Counter[str], list[Bin], Counter[str]]:
        return Counter(self.counts), [one.copy() for one in self.bins], Counter(self.launch)

    def restore(self, kept: tuple[Counter[str], list[Bin], Counter[str]]) -> None:
        self.counts, self.bins, self.launch = kept

    def add(self, kind: NodeType) -> Bin:
        """A further machine of that kind, and those that come with it."""
        made = [_empty(kind) for _ in range(kind.batch)]
        self.bins += made
        self.counts[kind.name] += kind.batch
        self.launch[kind.name] += kind.batch
        return made[0]

    def choose(self, need: Resources, selectors: Sequence[Selector], count: int) -> NodeType | None:
        """The kind that wastes least on so many of them; ``None``: none can be had."""
        found = [
            kind
            for kind in self.types.values()
            if self.counts[kind.name] + kind.batch <= kind.most
            and fits(need, kind.resources)
            and accepts(selectors, labels_of(kind))
        ]

        def waste(kind: NodeType) -> tuple[float, float, float, str]:
            dear = sum(kind.resources.get(name, 0) for name in _DEVICES if name not in need)
            n_fit = times(need, kind.resources, count)
            used = [need[name] * n_fit / kind.resources[name] for name in need]
            # The fewer machines the better, among those that are used equally well.
            return dear, 1 - max(used, default=0.0), -n_fit, kind.name

        return min(found, key=waste, default=None)

    def lay(self, demand: Demand) -> tuple[int, list[str]]:
        """Lay requests on what there is and on further machines.

        Returns how many found no place, and for which kinds of machines the others wait.
        """
        left, types = demand.count, []
        # Machines that are there and used come first, so that others stay idle; then what is on its way.
        for one in sorted(self.bins, key=lambda one: (not one.node, not one.is_used)):
            if left == 0:
                break
            if not accepts(demand.selectors, one.labels):
                continue
            n_fit = times(demand.resources, one.room, left)
            if n_fit:
                take(demand.resources, one.room, n_fit)
                one.is_used = True
                left -= n_fit
                types += [] if one.node else [one.type]
        while left:
            kind = self.choose(demand.resources, demand.selectors, left)
            if kind is None:
                break
            self.add(kind)
            for one in self.bins[-kind.batch :]:
                n_fit = times(demand.resources, one.room, left)
                take(demand.resources, one.room, n_fit)
                one.is_used = one.is_used or n_fit > 0
                left -= n_fit
            types.append(kind.name)
        return left, types

    def lay_gang(self, gang: Gang) -> list[str] | None:
        """The kinds of machines that it waits for.

        ``None``, and nothing has changed, where it cannot be placed.
        """
        kept = self.snapshot()
        types: list[str] = []
        taken: set[int] = set()
        if gang.strategy == "STRICT_PACK":
            parts = [_together(gang.bundles)]
        else:
            parts = sorted(gang.bundles, key=_size, reverse=True)
        for part in parts:
            place = self._place(part, gang, taken)
            if place is None:
                self.restore(kept)
                return None
            one = self.bins[place]
            take(part.resources, one.room)
            one.is_used = True
            taken.add(place)
            types += [] if one.node else [one.type]
        return types

    def _place(self, part: Demand, gang: Gang, taken: set[int]) -> int | None:
        def can(place: int) -> bool:
            one = self.bins[place]
            return fits(part.resources, one.room) and accepts(part.selectors, one.labels)

        places = [place for place in range(len(self.bins)) if can(place)]
        apart = [
            place
            for place in places
            if place not in taken and self.bins[place].node not in gang.held
        ]
        if gang.strategy == "STRICT_SPREAD":
            places = apart
        elif gang.strategy == "SPREAD":
            places = apart or places
        elif gang.strategy == "PACK":
            places = [place for place in places if place in taken] or places
        there = [place for place in places if self.bins[place].node]
        if there or places:
            return (there or places)[0]
        kind = self.choose(part.resources, part.selectors, len(gang.bundles))
        if kind is None:
            return None
        self.add(kind)
        return len(self.bins) - kind.batch


def plan(state: State, types: Mapping[str, NodeType], counts: Mapping[str, int]) -> Plan:
    """Plan the machines to ask for. ``counts``: how many machines of each kind were asked for,
    joined or not.
    """
    alive = [node for node in state.nodes if not node.is_draining]
    joined = Counter(node.type for node in state.nodes if not node.is_head)
    coming = {name: max(counts.get(name, 0) - joined[name], 0) for name in types if name in counts}
    bins = [Bin(dict(node.available), node.labels, node.type, node.id) for node in alive]
    for name, count in coming.items():
        bins += [_empty(types[name]) for _ in range(count)]
    n_there = len(bins)
    planner = _Planner(types, counts, bins)
    result = Plan()
    for gang in sorted(state.gangs, key=lambda gang: _size(_together(gang.bundles)), reverse=True):
        kinds = planner.lay_gang(gang)
        why = "" if kinds is not None else _why_gang(gang, types)
        result.waits.append(Wait(_once(kinds or []), why, gang=gang.id))
    for demand in sorted(state.demands, key=_size, reverse=True):
        left, kinds = planner.lay(demand)
        why = _why(demand, types, planner.counts) if left else ""
        result.waits.append(Wait(_once(kinds), why, demand.resources))
    for kind in types.values():
        while planner.counts[kind.name] < kind.least:
            planner.add(kind).is_used = True
    _lay_constraints(state, types, planner, result)
    result.launch = planner.launch
    for one in planner.bins[:n_there]:
        if one.node and one.is_used:
            result.needed.add(one.node)
        elif not one.node and not one.is_used:
            result.unneeded[one.type] += 1
    return result


def _lay_constraints(
    state: State, types: Mapping[str, NodeType], planner: _Planner, result: Plan
) -> None:
    """The cluster is to have room for them if nothing ran: whole machines are laid out."""
    if not state.constraints:
        return
    nodes = {node.id: node for node in state.nodes}
    places = planner.bins
    whole = [
        Bin(dict(nodes[one.node].total), one.labels, one.type, one.node)
        if one.node
        else Bin(dict(types[one.type].resources), one.labels, one.type)
        for one in places
    ]
    layer = _Planner(types, planner.counts, list(whole))
    for demand in sorted(state.constraints, key=_size, reverse=True):
        left, kinds = layer.lay(demand)
        if left or kinds:
            why = _why(demand, types, layer.counts) if left else ""
            result.waits.append(Wait(_once(kinds), why, demand.resources))
    for place, one in zip(places, layer.bins, strict=False):
        place.is_used = place.is_used or one.is_used
    planner.bins += layer.bins[len(places) :]
    planner.counts = layer.counts
    planner.launch += layer.launch


def labels_of(kind: NodeType) -> dict[str, str]:
    """The labels that a node of that kind will have."""
    return {"ray.io/node-group": kind.name, **kind.labels}


def _empty(kind: NodeType) -> Bin:
    return Bin(dict(kind.resources), labels_of(kind), kind.name)


def _size(demand: Demand) -> tuple[float, float, float]:
    need = demand.resources
    dear = sum(quantity for name, quantity in need.items() if name != "CPU" and name != "memory")
    return dear, need.get("CPU", 0.0), need.get("memory", 0.0)


def _together(bundles: Iterable[Demand]) -> Demand:
    whole: Counter[str] = Counter()
    selectors: dict[str, str] = {}
    for bundle in bundles:
        whole.update(bundle.resources)
        selectors |= bundle.selectors[0] if bundle.selectors else {}
    return Demand(dict(whole), 1, [selectors])


def _once(kinds: Iterable[str]) -> list[str]:
    return sorted(set(kinds))


def _why(demand: Demand, types: Mapping[str, NodeType], counts: Mapping[str, int]) -> str:
    """Why no machine can be asked for."""
    able = [
        kind
        for kind in types.values()
        if fits(demand.resources, kind.resources) and accepts(demand.selectors, labels_of(kind))
    ]
    if able:
        full = ", ".join(f"{kind.name} (all {kind.most})" for kind in able)
        return f"there are as many nodes as may be of every type that has room for it: {full}"
    has = "; ".join(f"{kind.name}: {_shape(kind.resources)}" for kind in types.values())
    return (
        f"no type of node has {_shape(demand.resources)} with its labels ({has or 'there is none'})"
    )


def _why_gang(gang: Gang, types: Mapping[str, NodeType]) -> str:
    if gang.strategy == "STRICT_PACK":
        whole = _together(gang.bundles)
        return _why(whole, types, {})
    for bundle in gang.bundles:
        if not any(
            fits(bundle.resources, kind.resources) and accepts(bundle.selectors, labels_of(kind))
            for kind in types.values()
        ):
            return _why(bundle, types, {})
    return "the types of nodes may not have as many nodes as all of its bundles together need"


def _shape(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{quantity:g} {name}" for name, quantity in sorted(resources.items()))
