"""The autoscaler: looks at the cluster again and again, asks for machines and gives them back.

A machine that is given back is drained first: it takes no new work, what runs there ends, its objects move.
Only when its node has left is its provider told.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from heliostat.autoscaler.model import Instance, NodeType, Provider, State
from heliostat.autoscaler.plan import Plan, Wait, plan

logger = logging.getLogger(__name__)

# How often the cluster is looked at, in seconds: a demand is answered in less than a second.
LOOK_EVERY_S = 0.25
# How often the provider is asked for what it has while nothing is to be done, in seconds.
PROVIDER_EVERY_S = 5.0
# How long the provider is left alone where a node has come that it did not name, in seconds.
ASK_AGAIN_S = 1.0
# How long a node that is drained may seem not to be, in seconds: then the order is lost, and given anew.
_ORDER_LOST_S = 10.0
# How long is waited after the cluster or the provider did not answer, in seconds.
FAILED_PAUSE_S = 1.0
# How often what is planned is told though nothing has changed, in seconds: readers take a report that is much
# older for that of an autoscaler which is gone.
REPORT_EVERY_S = 20.0
# How long a machine that has no node is kept at least, in seconds, when nobody needs it any more.
_UNNEEDED_S_MIN = 5.0

_IDLE = "It has had nothing to do for {seconds:.0f} s."


class Head(Protocol):
    """The head, as the autoscaler speaks with it. Each raises ``OSError`` where it does not answer."""

    def state(self) -> State:
        """Return the state of the cluster, and the demands that wait."""

    def drain(self, node_id: str, reason: str) -> None:
        """Have a node leave when what runs there has ended."""

    def report(self, report: Mapping[str, Any]) -> None:
        """Keep that for people to read."""


@dataclass
class _Leaving:
    """A machine that is being drained."""

    instance: Instance
    node: str
    since: float


@dataclass
class Autoscaler:
    """``now`` is a clock that only goes forward, ``moment`` the time of day; both in seconds."""

    head: Head
    provider: Provider
    now: Callable[[], float] = time.monotonic
    moment: Callable[[], float] = time.time

    _types: dict[str, NodeType] = field(default_factory=dict)
    _asked: Counter[str] = field(default_factory=Counter)
    _instances: dict[str, Instance] = field(default_factory=dict)
    _read: float = float("-inf")
    # Times at which the machines of each kind were asked for that have not come yet, the oldest first.
    _waiting: dict[str, deque[tuple[float, float]]] = field(default_factory=dict)
    _idle_since: dict[str, float] = field(default_factory=dict)
    _unneeded_since: dict[str, float] = field(default_factory=dict)
    _leaving: dict[str, _Leaving] = field(default_factory=dict)
    _told: Any = None
    _told_at: float = float("-inf")

    def run(self, is_over: Callable[[float], bool]) -> None:
        """Work until ``is_over``, which waits so many seconds at most, says so."""
        pause = 0.0
        while not is_over(pause):
            try:
                self.step()
                pause = LOOK_EVERY_S
            except OSError as error:
                logger.warning("The cluster cannot be looked at: %s", error)
                pause = FAILED_PAUSE_S

    def step(self) -> None:
        """Look once, and do what is to be done."""
        state, now = self.head.state(), self.now()
        if now - self._read >= PROVIDER_EVERY_S:
            self._ask_provider()
        wanted = self._plan(state)
        if wanted.launch or (self._is_wrong(state) and now - self._read >= ASK_AGAIN_S):
            # Others may have changed what was asked for.
            self._ask_provider()
            wanted = self._plan(state)
        self._note_joined(state)
        self.provider.joined({node.instance for node in state.nodes})
        self._launch(wanted)
        self._end_left(state)
        self._give_back(state, wanted)
        self._give_up(state, wanted)
        self._report(state, wanted)

    def _ask_provider(self) -> None:
        self._types = self.provider.types()
        self._asked = Counter(self.provider.asked())
        self._instances = {one.id: one for one in self.provider.instances()}
        self._read = self.now()

    def _is_wrong(self, state: State) -> bool:
        """Whether a node has come that the provider was not known to have."""
        known = self._instances
        return any(
            node.instance and node.instance not in known and node.type in self._types
            for node in state.nodes
            if not node.is_head and not node.is_draining and node.instance not in self._leaving
        )

    def _plan(self, state: State) -> Plan:
        # A machine that is being drained is counted neither as there nor as on its way.
        kept = [node for node in state.nodes if node.instance not in self._leaving]
        there = State(kept, state.demands, state.gangs, state.constraints)
        return plan(there, self._types, +self._kept())

    def _kept(self) -> Counter[str]:
        """The machines of each kind that were asked for and are not being drained."""
        counts = Counter(self._asked)
        counts.subtract(one.instance.type for one in self._leaving.values())
        return counts

    def _timeout_s(self, kind: NodeType) -> float:
        usual = self.provider.idle_timeout_s()
        return usual if kind.idle_timeout_s is None else kind.idle_timeout_s

    def _note_joined(self, state: State) -> None:
        """Note that the first of the machines that were asked for have come."""
        joined = _joined(state)
        for name, waiting in self._waiting.items():
            missing = max(self._asked[name] - joined[name], 0)
            while len(waiting) > missing:
                waiting.popleft()

    def _launch(self, wanted: Plan) -> None:
        launch = +wanted.launch
        room = self.provider.more_max()
        if room is not None:
            for name in sorted(launch):
                launch[name] = min(launch[name], room)
                room -= launch[name]
            launch = +launch
        if not launch:
            return
        self.provider.launch(launch)
        for name, count in launch.items():
            logger.info("Asked for %d more of %s.", count, name)
            self._asked[name] += count
            waiting = self._waiting.setdefault(name, deque())
            waiting.extend([(self.now(), self.moment())] * count)

    def _give_back(self, state: State, wanted: Plan) -> None:
        """Drain what has had nothing to do for long enough."""
        now = self.now()
        idle = {
            node.id: node
            for node in state.nodes
            if node.is_idle
            and not node.is_head
            and not node.is_draining
            and node.id not in wanted.needed
            and node.instance in self._instances
            and node.instance not in self._leaving
        }
        self._idle_since = {one: self._idle_since.get(one, now) for one in idle}
        left = self._kept()
        units: dict[str, list[str]] = {}
        for node_id in sorted(idle, key=lambda one: self._idle_since[one]):
            units.setdefault(_unit(self._instances[idle[node_id].instance]), []).append(node_id)
        leaving = Counter(_unit(one.instance) for one in self._leaving.values())
        for unit, members in units.items():
            kind = self._types.get(idle[members[0]].type)
            # Those that come and go together are not taken apart.
            if kind is None or len(members) + leaving[unit] < kind.batch:
                continue
            idle_s = now - self._idle_since[members[-1]]
            if left[kind.name] - len(members) < kind.least or idle_s < self._timeout_s(kind):
                continue
            left[kind.name] -= len(members)
            for node_id in members:
                node = idle[node_id]
                self.head.drain(node_id, _IDLE.format(seconds=now - self._idle_since[node_id]))
                logger.info("Drains %s (%s): it is idle.", node.instance, node.type)
                instance = self._instances[node.instance]
                self._leaving[node.instance] = _Leaving(instance, node_id, now)

    def _end_left(self, state: State) -> None:
        """End the machines whose nodes have left."""
        alive = {node.id: node for node in state.nodes}
        for one in list(self._leaving.values()):
            node = alive.get(one.node)
            is_lost = node is not None and not node.is_draining
            if is_lost and self.now() - one.since >= _ORDER_LOST_S:
                del self._leaving[one.instance.id]
        joined = {node.instance for node in state.nodes}
        stay = {_unit(one.instance) for one in self._leaving.values() if one.node in alive}
        stay |= {
            _unit(one)
            for one in self._instances.values()
            if one.id in joined and one.id not in self._leaving
        }
        gone = [one for one in self._leaving.values() if _unit(one.instance) not in stay]
        if not gone:
            return
        self.provider.terminate([one.instance for one in gone])
        for one in gone:
            logger.info("Ended %s (%s).", one.instance.id, one.instance.type)
            del self._leaving[one.instance.id]
        self._ask_provider()

    def _give_up(self, state: State, wanted: Plan) -> None:
        """Machines that have not come, and that nobody needs any more, are given back, too."""
        now = self.now()
        joined = {node.instance for node in state.nodes}
        for name in list(self._unneeded_since):
            if not wanted.unneeded[name]:
                del self._unneeded_since[name]
        for name, count in wanted.unneeded.items():
            kind = self._types[name]
            since = self._unneeded_since.setdefault(name, now)
            if now - since < max(self._timeout_s(kind), _UNNEEDED_S_MIN):
                continue
            spare = min(count, self._asked[name] - kind.least)
            absent: dict[str, list[Instance]] = {}
            for one in self._instances.values():
                if one.type == name and one.id not in joined and one.id not in self._leaving:
                    absent.setdefault(_unit(one), []).append(one)
            whole = [members for members in absent.values() if len(members) >= kind.batch]
            n_units = max(spare, 0) // kind.batch
            if chosen := [one for members in whole[:n_units] for one in members]:
                self.provider.terminate(chosen)
                logger.info("Gave up %d of %s, which nobody needs any more.", len(chosen), name)
                del self._unneeded_since[name]
                self._ask_provider()

    # --- what people read

    def _report(self, state: State, wanted: Plan) -> None:
        now = self.now()
        joined = _joined(state)
        coming = {
            name: count - joined[name]
            for name, count in self._asked.items()
            if count > joined[name] and name in self._types
        }
        report = {
            "pending": [
                {
                    "type": name,
                    "count": count,
                    "since_ms": self._since_ms(name),
                    "resources": self._types[name].resources,
                }
                for name, count in sorted(coming.items())
            ],
            "requested": [
                {"resources": one.resources, "count": one.count} for one in state.constraints
            ],
            "waiting": [self._row(one) for one in wanted.waits if one.types or one.why],
            "leaving": sorted(self._leaving),
            "failures": [
                {"type": one.kind, "why": one.why, "at_ms": int(one.moment * 1000)}
                for one in self.provider.failures()
            ],
        }
        if report == self._told and now - self._told_at < REPORT_EVERY_S:
            return
        self.head.report({"at_ms": int(self.moment() * 1000), **report})
        self._told, self._told_at = report, now

    def _row(self, wait: Wait) -> dict[str, Any]:
        row: dict[str, Any] = {"types": {}, "why": wait.why}
        for name in wait.types:
            row["types"][name] = self._since_ms(name)
        if wait.gang:
            row["gang"] = wait.gang
        if wait.resources is not None:
            row["resources"] = wait.resources
        return row

    def _since_ms(self, name: str) -> int:
        """Since when the machine is awaited that was asked for first."""
        waiting = self._waiting.get(name)
        # Another one asked, before this one was started.
        moment = waiting[0][1] if waiting else self.moment()
        return int(moment * 1000)


def _unit(one: Instance) -> str:
    """Return the id of the unit that comes and goes as a whole: several machines, or this one."""
    return one.unit or one.id


def _joined(state: State) -> Counter[str]:
    """The number of nodes of each kind, besides the head."""
    return Counter(node.type for node in state.nodes if not node.is_head)
