"""What an autoscaler asks for: a pure function, and the loop around it with a clock of the test's own."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

pytestmark = [
    pytest.mark.heliostat_only("the modules are Heliostat's own"),
    pytest.mark.contract("F6.29"),
]

pytest.importorskip("heliostat", reason="Heliostat's own modules")

from heliostat.autoscaler.loop import Autoscaler  # noqa: E402
from heliostat.autoscaler.model import (  # noqa: E402
    Demand,
    Failure,
    Gang,
    Instance,
    Node,
    NodeType,
    State,
    accepts,
)
from heliostat.autoscaler.plan import plan  # noqa: E402

SMALL = NodeType("small", {"CPU": 1}, most=10)
LARGE = NodeType("large", {"CPU": 4, "disk": 1}, most=2)
GPU = NodeType("gpu", {"CPU": 4, "GPU": 2}, {"zone": "a"}, most=3)
TYPES = {one.name: one for one in (SMALL, LARGE, GPU)}


def node(kind: NodeType, number: int, **changes: Any) -> Node:
    total = dict(kind.resources)
    labels = {"ray.io/node-group": kind.name, **kind.labels}
    name = f"{kind.name}-{number}"
    made = Node(f"id-{name}", name, kind.name, total, dict(total), labels)
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def launched(state: State, counts: Mapping[str, int] | None = None) -> dict[str, int]:
    return dict(+plan(state, TYPES, counts or {}).launch)


def check(demands: Sequence[Demand], expect: Mapping[str, int], **more: Any) -> None:
    assert launched(State(demands=list(demands), **more)) == expect


def test_requests_get_the_machines_that_they_fill_best() -> None:
    check([Demand({"CPU": 1}, 3)], {"small": 3})
    check([Demand({"CPU": 4}, 1)], {"large": 1})
    check([Demand({"CPU": 2, "disk": 1}, 1)], {"large": 1})
    check([Demand({"GPU": 1}, 5)], {"gpu": 3})
    # What needs no GPU takes a machine with one only where no other can be had.
    check([Demand({"CPU": 4}, 3)], {"large": 2, "gpu": 1})
    check([Demand({"CPU": 8}, 1)], {})
    check([], {})


def test_labels_choose_the_machine() -> None:
    check([Demand({"CPU": 1}, 1, [{"ray.io/node-group": "large"}])], {"large": 1})
    check([Demand({"CPU": 1}, 1, [{"zone": "b"}, {"zone": "in(a,c)"}])], {"gpu": 1})
    check([Demand({"CPU": 1}, 1, [{"zone": "b"}])], {})
    assert accepts([{"zone": "!a"}], {})
    assert not accepts([{"zone": "!in(a)"}], {"zone": "a"})


def test_what_is_free_or_on_its_way_is_not_asked_for_again() -> None:
    free = [node(LARGE, 1)]
    check([Demand({"CPU": 1}, 4)], {}, nodes=free)
    check([Demand({"CPU": 1}, 6)], {"small": 2}, nodes=[node(LARGE, 1)])
    waiting = State(demands=[Demand({"CPU": 1}, 3)])
    assert launched(waiting, {"small": 3}) == {}
    assert launched(waiting, {"small": 2}) == {"small": 1}
    # One that is drained takes no new work.
    drained = State([node(LARGE, 1, is_draining=True)], [Demand({"CPU": 4}, 1)])
    assert launched(drained, {"large": 1}) == {"large": 1}


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
def test_a_gang_is_asked_for_as_a_whole_or_not_at_all(strategy: str) -> None:
    def gang(cpus: float, count: int, held: Sequence[str] = ()) -> State:
        bundles = [Demand({"CPU": cpus}, 1) for _ in range(count)]
        return State([node(LARGE, 1)], gangs=[Gang("g", strategy, bundles, list(held))])

    expect = {
        "PACK": {"large": 1},
        "SPREAD": {"large": 1},
        "STRICT_PACK": {},
        "STRICT_SPREAD": {"large": 1},
    }
    types = {"large": LARGE}
    found = plan(gang(3, 2), types, {"large": 1})
    assert dict(+found.launch) == expect[strategy]
    assert bool(found.waits[0].why) is (strategy == "STRICT_PACK")
    # Three machines are more than there may be: not even the second is asked for.
    found = plan(gang(3, 3), types, {"large": 1})
    assert not +found.launch
    assert found.waits[0].why
    # A bundle that is held elsewhere keeps others off its machine where all are to be apart.
    found = plan(gang(1, 1, ["id-large-1"]), types, {"large": 1})
    assert dict(+found.launch) == ({"large": 1} if strategy == "STRICT_SPREAD" else {})


def test_constraints_are_for_whole_machines_whatever_runs_there() -> None:
    busy = node(LARGE, 1, available={})
    state = State([busy], constraints=[Demand({"CPU": 1}, 6)])
    found = plan(state, TYPES, {"large": 1})
    assert dict(+found.launch) == {"small": 2}
    assert found.needed == {busy.id}
    # And they keep a machine that nobody uses.
    idle = node(LARGE, 1, is_idle=True)
    assert plan(State([idle], constraints=[Demand({"CPU": 4}, 1)]), TYPES, {"large": 1}).needed


def test_what_cannot_be_had_says_why() -> None:
    found = plan(State(demands=[Demand({"TPU": 1}, 1), Demand({"CPU": 4}, 9)]), TYPES, {})
    texts = {tuple(one.resources or ()): one for one in found.waits}
    assert "no type of node has 1 TPU" in texts[("TPU",)].why
    assert "large (all 2)" in texts[("CPU",)].why
    assert texts[("CPU",)].types == ["gpu", "large"]


@pytest.mark.parametrize("seed", range(20))
def test_random_plans_hold_what_they_promise(seed: int) -> None:
    """Never more than may be, nothing laid out twice, and all that could be had is asked for."""
    draw = random.Random(seed)
    state = State(
        [node(draw.choice(list(TYPES.values())), number) for number in range(draw.randrange(4))],
        [Demand({"CPU": draw.choice([0.5, 1, 2, 4])}, draw.randrange(1, 9)) for _ in range(3)],
    )
    counts: dict[str, int] = {}
    for one in state.nodes:
        counts[one.type] = counts.get(one.type, 0) + 1
    found = plan(state, TYPES, counts)
    for name, kind in TYPES.items():
        assert counts.get(name, 0) + found.launch[name] <= max(kind.most, counts.get(name, 0))
    room = sum(one.available["CPU"] for one in state.nodes)
    room += sum(TYPES[name].resources["CPU"] * n for name, n in found.launch.items())
    need = sum(one.resources["CPU"] * one.count for one in state.demands)
    assert any(one.why for one in found.waits) or room >= need
    # Planned again with what was asked for, nothing more is.
    again = plan(state, TYPES, {k: counts.get(k, 0) + found.launch[k] for k in TYPES})
    assert not +again.launch


class World:
    """A provider and a head in one, with a clock that the test moves."""

    def __init__(self, *types: NodeType, idle_s: float = 60.0) -> None:
        self.kinds = {one.name: one for one in types}
        self.idle_s = idle_s
        self.now = 1000.0
        self.wanted = {one.name: one.least for one in types}
        self.machines: dict[str, Instance] = {}
        self.cluster = State()
        self.drained: list[str] = []
        self.ended: list[str] = []
        self.reports: list[Mapping[str, Any]] = []
        self.most: int | None = None
        self.scaler = Autoscaler(self, self, lambda: self.now, lambda: self.now)

    def types(self) -> dict[str, NodeType]:
        return self.kinds

    def idle_timeout_s(self) -> float:
        return self.idle_s

    def asked(self) -> dict[str, int]:
        return dict(self.wanted)

    def instances(self) -> list[Instance]:
        return list(self.machines.values())

    def joined(self, instances: Collection[str]) -> None:
        self.have_joined = set(instances)

    def failures(self) -> list[Failure]:
        return []

    def more_max(self) -> int | None:
        on_their_way = sum(self.wanted.values()) - len(self.cluster.nodes)
        return None if self.most is None else max(self.most - on_their_way, 0)

    def launch(self, wanted: Mapping[str, int]) -> None:
        for name, count in wanted.items():
            batch = self.kinds[name].batch
            for place in range(count):
                self.wanted[name] += 1
                unit = f"{name}-unit-{place // batch}-{self.now:g}" if batch > 1 else ""
                made = Instance(f"{name}-{self.wanted[name]}-{self.now:g}", name, unit)
                self.machines[made.id] = made

    def terminate(self, instances: Sequence[Instance]) -> None:
        for one in instances:
            self.wanted[one.type] -= 1
            del self.machines[one.id]
            self.ended.append(one.id)

    def state(self) -> State:
        return self.cluster

    def drain(self, node_id: str, reason: str) -> None:
        self.drained.append(node_id)
        for one in self.cluster.nodes:
            one.is_draining = one.is_draining or one.id == node_id

    def report(self, report: Mapping[str, Any]) -> None:
        self.reports.append(report)

    def join(self, **changes: Any) -> None:
        """All machines that were asked for are nodes now."""
        known = {one.instance for one in self.cluster.nodes}
        for one in self.machines.values():
            if one.id not in known:
                made = node(self.kinds[one.type], 0, id=f"id-{one.id}", instance=one.id, **changes)
                self.cluster.nodes.append(made)

    def after(self, seconds: float) -> None:
        """So much later, looked at as often as the loop looks."""
        for _ in range(int(seconds * 4)):
            self.now += 0.25
            self.scaler.step()


def test_one_look_asks_and_the_next_ones_do_not_ask_again() -> None:
    world = World(SMALL)
    world.cluster.demands = [Demand({"CPU": 1}, 3)]
    world.scaler.step()
    assert world.wanted == {"small": 3}
    world.after(30)
    assert world.wanted == {"small": 3}
    assert not world.ended
    waiting = world.reports[-1]["waiting"]
    assert waiting[0]["types"] == {"small": 1_000_000}
    pending = {"type": "small", "count": 3, "since_ms": 1_000_000, "resources": {"CPU": 1}}
    assert world.reports[-1]["pending"] == [pending]


def test_a_machine_is_drained_first_and_ended_when_its_node_has_left() -> None:
    world = World(SMALL, idle_s=10)
    world.cluster.demands = [Demand({"CPU": 1}, 2)]
    world.scaler.step()
    world.join(is_idle=False, available={})
    world.cluster.demands = []
    world.after(20)
    assert not world.drained, "what is busy stays"
    first = world.cluster.nodes[0]
    first.is_idle, first.available = True, dict(first.total)
    world.after(9)
    assert not world.drained
    world.after(2)
    assert world.drained == [first.id]
    assert not world.ended
    world.after(5)
    assert not world.ended, "its node is still there"
    world.cluster.nodes.remove(first)
    world.after(1)
    assert world.ended == [first.instance]
    assert world.wanted == {"small": 1}


def with_slices() -> World:
    """Two slices of two machines each, which have joined, and of which nobody wants anything any more."""
    world = World(NodeType("slice", {"CPU": 1}, most=8, batch=2), idle_s=10)
    world.cluster.demands = [Demand({"CPU": 1}, 4)]
    world.scaler.step()
    world.join(is_idle=False, available={})
    world.cluster.demands = []
    assert world.wanted == {"slice": 4}
    return world


def test_machines_that_come_together_go_together() -> None:
    world = with_slices()
    first, second, third, _ = world.cluster.nodes
    for one in (first, third):  # one of each slice
        one.is_idle, one.available = True, dict(one.total)
    world.after(30)
    assert not world.drained, "the other machine of each slice is busy"
    second.is_idle, second.available = True, dict(second.total)
    world.after(9)
    assert not world.drained, "the second has not been idle for long enough"
    world.after(2)
    assert sorted(world.drained) == sorted([first.id, second.id])
    world.cluster.nodes.remove(first)
    world.after(5)
    assert not world.ended, "the second has not left yet"
    world.cluster.nodes.remove(second)
    world.after(1)
    assert sorted(world.ended) == sorted([first.instance, second.instance])
    assert world.wanted == {"slice": 2}


def test_an_order_that_one_of_several_lost_is_given_anew() -> None:
    world = with_slices()
    first, second, *_ = world.cluster.nodes
    for one in (first, second):
        one.is_idle, one.available = True, dict(one.total)
    world.after(11)
    assert len(world.drained) == 2
    second.is_draining = False
    world.after(22)  # until it is clear that the order is lost, and then idle for as long as before
    assert world.drained[2:] == [second.id]


def test_slices_that_never_come_are_given_up_as_a_whole() -> None:
    world = World(NodeType("slice", {"CPU": 1}, most=8, batch=2), idle_s=10)
    world.cluster.demands = [Demand({"CPU": 1}, 4)]
    world.scaler.step()
    # One machine of the first slice has joined: that slice is not taken apart.
    (here, *_), machines = list(world.machines.values()), list(world.machines.values())
    world.cluster.nodes.append(
        node(world.kinds["slice"], 0, id="here", instance=here.id, is_idle=False, available={})
    )
    world.cluster.demands = []
    world.after(30)
    assert sorted(world.ended) == sorted(one.id for one in machines[2:])


def with_a_drained_machine() -> World:
    """The one machine was asked for, has joined, and has been idle for too long."""
    world = World(SMALL, idle_s=1)
    world.cluster.demands = [Demand({"CPU": 1}, 1)]
    world.scaler.step()
    world.join(is_idle=True)
    world.cluster.demands = []
    world.after(2)
    return world


def test_an_order_to_leave_that_is_lost_is_given_anew() -> None:
    world = with_a_drained_machine()
    one = world.cluster.nodes[0]
    one.is_draining = False
    world.after(8)
    assert world.drained == [one.id]
    world.after(5)
    assert world.drained == [one.id, one.id]


def test_work_that_comes_and_goes_moves_no_machines() -> None:
    world = World(SMALL, idle_s=10)
    world.cluster.demands = [Demand({"CPU": 1}, 1)]
    world.scaler.step()
    world.join()
    for _ in range(20):
        one = world.cluster.nodes[0]
        world.cluster.demands, one.is_idle = [], True
        world.after(6)
        one.is_idle = False
        world.after(1)
    assert world.wanted == {"small": 1}
    assert not world.drained
    assert not world.ended


def test_machines_that_are_drained_are_replaced_when_they_are_needed() -> None:
    world = with_a_drained_machine()
    assert world.drained
    world.cluster.demands = [Demand({"CPU": 1}, 1)]
    world.after(1)
    assert world.wanted == {"small": 2}


def test_the_least_stays_and_is_asked_for() -> None:
    world = World(NodeType("kept", {"CPU": 1}, least=2, most=4), idle_s=1)
    world.wanted = {"kept": 0}
    world.scaler.step()
    assert world.wanted == {"kept": 2}
    world.join(is_idle=True)
    world.after(30)
    assert not world.drained
    assert world.wanted == {"kept": 2}


def test_machines_that_never_come_and_nobody_needs_are_given_up() -> None:
    world = World(SMALL, idle_s=10)
    world.cluster.demands = [Demand({"CPU": 1}, 2)]
    world.scaler.step()
    world.after(3)
    world.cluster.demands = []
    world.after(9)
    assert not world.ended
    world.after(3)
    assert len(world.ended) == 2
    assert world.wanted == {"small": 0}


def test_a_bound_on_those_on_their_way_is_kept() -> None:
    world = World(SMALL)
    world.most = 3
    world.cluster.demands = [Demand({"CPU": 1}, 8)]
    world.after(3)
    assert world.wanted == {"small": 3}
    world.join(available={})
    world.cluster.demands = [Demand({"CPU": 1}, 5)]
    world.after(3)
    assert world.wanted == {"small": 6}


def test_who_does_not_answer_is_asked_again() -> None:
    world = World(SMALL)
    world.cluster.demands = [Demand({"CPU": 1}, 1)]
    answers = [OSError("gone"), OSError("gone"), None]
    pauses = []

    def state() -> State:
        failure = answers.pop(0)
        if failure is not None:
            raise failure
        return world.cluster

    def is_over(pause: float) -> bool:
        pauses.append(pause)
        return not answers

    world.state = state  # type: ignore[method-assign] # a head that is away
    world.scaler.run(is_over)
    assert world.wanted == {"small": 1}
    assert pauses == [0.0, 1.0, 1.0, 0.25]
