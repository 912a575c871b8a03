"""Histories of Serve's controller from a seed: events in random order, replicas that die, a controller that
restarts from what it has saved, and a clock that somebody sets. A judge that keeps its own account looks at
each step.

``SERVE_SEED=4711 pytest tests/serve/test_controller_histories.py`` plays that one.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own controller", allow_module_level=True)

from heliostat.serve.controller.clock import Clock
from heliostat.serve.controller.deployment_actors import DeploymentActors
from heliostat.serve.controller.events import (
    Action,
    ActorEnded,
    ActorID,
    ActorStarted,
    Counted,
    Delete,
    Deploy,
    Died,
    Publish,
    Resume,
    Start,
    StartActor,
    Started,
    StartFailed,
    Stop,
    StopActor,
    Stopped,
    Tick,
)
from heliostat.serve.controller.machine import Machine, restored, saved
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.options import AutoscalingConfig, DeploymentActorConfig
from heliostat.serve.schema import ApplicationStatus, ReplicaState
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec

SEEDS = [int(os.environ["SERVE_SEED"])] if "SERVE_SEED" in os.environ else range(300)
APPS = ("a", "b")
EVENTS = 120
# In so many histories a planted bug is found.
SEEDS_OF_A_BUG = 40
# Seconds until everything is at rest that is not disturbed: longer than every pause, delay and look for room.
REST_S = 120.0


def app(
    name: str, number: int, code: str, scaling: AutoscalingConfig | None, **config: Any
) -> AppSpec:
    gang, names = config.pop("gang", 1), config.pop("actors", ())
    if gang > 1:
        config["gang_scheduling_config"] = {"gang_size": gang}
    if names:
        config["deployment_actors"] = [DeploymentActorConfig(one, "module:Class") for one in names]
    told = DeploymentConfig(num_replicas=number * gang, autoscaling_config=scaling, **config)
    spec = DeploymentSpec("d", told, b"", f"{code}-{gang}-{'-'.join(names)}")
    return AppSpec(name, f"/{name}", "d", {"d": spec})


@dataclass
class Actor:
    """The process of a replica, as it is, whatever a controller thinks."""

    key: DeploymentID
    code: str
    is_ready: bool = False  # its constructor has returned
    is_told: bool = False  # this controller knows that


@dataclass
class World:
    """Processes, and what a controller wants of them that is not done yet."""

    rng: random.Random
    machine: Machine = field(default_factory=Machine)
    wall: float = 1e9
    steady: float = 0.0
    actors: dict[str, Actor] = field(default_factory=dict)
    to_do: list[Action] = field(default_factory=list)
    # Actors of deployments that are there, and those whose constructor or end is not heard of.
    shared: dict[tuple[DeploymentID, str, str], ActorID] = field(default_factory=dict)
    begun: list[ActorID] = field(default_factory=list)
    over: list[ActorID] = field(default_factory=list)
    dead: dict[str, str] = field(default_factory=dict)  # of whose end the controller has not heard
    started: set[str] = field(default_factory=set)  # ever
    state: bytes = b""

    def __post_init__(self) -> None:
        self.restart_clock()

    def restart_clock(self) -> None:
        self.now = Clock(lambda: self.wall, lambda: self.steady)

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                assert action.replica not in self.started, "a replica's name is used twice"
                self.started.add(action.replica)
                self.judge_actors(action)
            if isinstance(action, Stop):
                serving = {one.id for one in self.machine.view.running(action.deployment)}
                assert action.replica not in serving, "what is to stop gets requests"
            if not isinstance(action, Publish):
                self.to_do.append(action)
        if actions:  # it saves before it acts
            self.state = pickle.dumps(saved(self.machine))
        self.judge()

    def judge_actors(self, action: Start) -> None:
        """What a replica looks for is there, or has ended without the controller's knowing."""
        known = {_named(one) for one in self.over}
        known |= {name for name, one in self.shared.items() if one not in self.begun}
        for config in action.spec.config.deployment_actors or ():
            name = (action.deployment, action.spec.code_version, config.name)
            assert name in known, f"{action.replica} does not find the actor {config.name!r}"

    def judge(self) -> None:
        """What the machine says serves is there, or has ended without its knowing."""
        for known in self.machine.view.deployments():
            for one in known.of(ReplicaState.RUNNING):
                actor = self.actors.get(one.id)
                is_there = actor is not None and actor.is_ready
                assert one.id in self.dead or is_there, f"{one.id} of {known.id} is not there"
            there = {one.id for one in known.of(ReplicaState.RUNNING, ReplicaState.STARTING)}
            for one in known.replicas:
                if one.id in there and one.gang is not None:
                    assert set(one.gang.members) <= there, f"{one.id} is of half a gang"
            most = known.target + known.spec.config.surge(known.target)
            fresh = [one for one in known.of(ReplicaState.STARTING) if known.is_current(one)]
            assert len(fresh) <= most, f"{len(fresh)} start, {most} may be"

    # --- what happens

    def act(self) -> None:
        """The controller does the next thing that it wants done."""
        action = self.to_do.pop(0)
        if isinstance(action, Start):
            self.actors[action.replica] = Actor(action.deployment, action.spec.code_version)
        elif isinstance(action, Stop):
            self.actors.pop(action.replica, None)
            self.dead.pop(action.replica, None)
            self.do(self.machine.apply(Stopped(action.replica), self.now()))
        elif isinstance(action, StartActor):
            self.shared[_named(action.actor)] = action.actor
            self.begun.append(action.actor)
        elif isinstance(action, StopActor):
            self.shared.pop(_named(action.actor), None)
            self.do(self.machine.apply(ActorEnded(action.actor, ""), self.now()))

    def get_actor_ready(self) -> None:
        if self.begun:
            self.do(self.machine.apply(ActorStarted(self.begun.pop(0)), self.now()))

    def end_actor(self) -> None:
        """One of them is killed, or its constructor raises."""
        # Of one that is still to be looked for, the controller hears nothing.
        sought = {action.actor for action in self.to_do if isinstance(action, StartActor)}
        there = [name for name, one in self.shared.items() if one not in sought]
        if there:
            one = self.shared.pop(self.rng.choice(there))
            self.begun = [other for other in self.begun if other != one]
            self.over.append(one)

    def hear_of_actor(self) -> None:
        if self.over:
            self.do(self.machine.apply(ActorEnded(self.over.pop(), "it was killed"), self.now()))

    def get_ready(self) -> None:
        waiting = [name for name, one in self.actors.items() if not one.is_told]
        if waiting:
            name = self.rng.choice(waiting)
            one = self.actors[name]
            one.is_ready = one.is_told = True
            self.do(self.machine.apply(Started(name, "socket", 1), self.now()))

    def fail(self) -> None:
        waiting = [name for name, one in self.actors.items() if not one.is_ready]
        if waiting:
            name = self.rng.choice(waiting)
            del self.actors[name]
            self.do(self.machine.apply(StartFailed(name, "its constructor raised"), self.now()))

    def die(self) -> None:
        if self.actors:
            name = self.rng.choice(list(self.actors))
            self.dead[name] = self.actors.pop(name).code

    def hear(self) -> None:
        if self.dead:
            name = self.rng.choice(list(self.dead))
            del self.dead[name]
            self.do(self.machine.apply(Died(name, "it was killed"), self.now()))

    def restart(self) -> None:
        """The controller dies, and with it what it wanted to do; another one reads what it had saved."""
        if not self.state:
            return
        routes = self.machine.view.routes()
        self.to_do.clear()
        self.dead.clear()
        self.begun.clear()
        self.over.clear()
        self.restart_clock()
        state = pickle.loads(self.state)
        self.machine = restored(state, self.now())
        assert self.machine.view.routes() == routes, (
            "a restart of the controller changes what is served"
        )
        self.to_do += state["stopping"]
        for known in self.machine.view.deployments():
            for one in known.actors:
                if _named(one) in self.shared:
                    self.shared[_named(one)] = one
                else:
                    self.over.append(one)
        for key, name, *_ in state["replicas"]:
            if key not in self.machine.view:
                continue
            if name in self.actors:
                self.actors[name].is_told = False  # it is asked again
            else:
                self.dead[name] = ""
        self.do(self.machine.apply(Resume(), self.now()))

    def count(self) -> None:
        key = DeploymentID(self.rng.choice(APPS), "d")
        self.do(
            self.machine.apply(
                Counted(key, "router", self.rng.randrange(12), is_waiting=True), self.now()
            )
        )

    def set_time(self) -> None:
        self.wall += self.rng.choice((-3600, -60, 60, 3600))

    def declare(self) -> None:
        rng = self.rng
        shares = (
            {"max_surge_percent": 0, "rolling_update_percentage": 0.5} if rng.random() < 0.3 else {}
        )
        scaling = AutoscalingConfig(min_replicas=0, max_replicas=4) if rng.random() < 0.3 else None
        spec = app(
            rng.choice(APPS),
            rng.randint(1, 4),
            rng.choice(("one", "two")),
            scaling,
            user_config=rng.randint(0, 1),
            gang=rng.choice((1, 1, 2, 3)),
            actors=rng.choice(((), (), ("x",), ("x", "y"))),
            **shares,
        )
        self.do(self.machine.apply(Deploy(spec), self.now()))

    def delete(self) -> None:
        self.do(self.machine.apply(Delete(self.rng.choice(APPS)), self.now()))

    def settle(self) -> None:
        """Nothing breaks any more, and time passes; nobody sets the clock back by as much as that."""
        end = self.steady + REST_S
        while self.steady < end:
            self.pass_time(0.5)
            for _ in range(60):
                if not self.to_do:
                    break
                self.act()
            while self.dead:
                self.hear()
            while self.over:
                self.hear_of_actor()
            while self.begun:
                self.get_actor_ready()
            while any(not one.is_told for one in self.actors.values()):
                self.get_ready()
            self.do(self.machine.apply(Tick(), self.now()))


def _named(one: ActorID) -> tuple[DeploymentID, str, str]:
    return one.deployment, one.version, one.name


@pytest.mark.contract("F12.01", "F12.07")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_comes_to_rest(seed: int) -> None:
    play(seed)


def play(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng)
    events = [
        *[world.act] * 6,
        *[world.get_ready] * 4,
        *[world.hear] * 2,
        world.fail,
        world.die,
        world.count,
        world.set_time,
        world.declare,
        *[world.get_actor_ready] * 2,
        world.hear_of_actor,
    ]
    rare = [world.restart, world.delete, world.end_actor]
    world.declare()
    for _ in range(EVENTS):
        world.pass_time(rng.random() * 2)
        event = rng.choice(rare if rng.random() < 0.06 else events)
        if event != world.act or world.to_do:
            event()
        if rng.random() < 0.3:
            world.do(world.machine.apply(Tick(), world.now()))
    if rng.random() < 0.5:
        world.restart()
    wanted = {}
    for name in APPS:
        number, gang = rng.randint(1, 4), rng.choice((1, 2, 3))
        wanted[DeploymentID(name, "d")] = number * gang
        spec = app(name, number, "last", None, gang=gang, actors=("x",))
        world.do(world.machine.apply(Deploy(spec), world.now()))
    if rng.random() < 0.5:  # a constructor fails, and somebody sets the clock
        while world.to_do or world.begun:
            world.act() if world.to_do else world.get_actor_ready()
        world.fail()
    if rng.random() < 0.5:
        world.set_time()
    world.settle()
    for key, number in wanted.items():
        found = world.machine.view.app_of(key.app_name)
        assert found is not None
        assert found.status is ApplicationStatus.RUNNING
        serving = {one.id for one in world.machine.view.running(key)}
        there = {name for name, one in world.actors.items() if one.key == key}
        assert serving == there, "a process that no controller knows, or one that is not there"
        codes = {world.actors[one].code for one in serving}
        assert len(serving) == number
        assert len(codes) == 1
        assert [one.version for one in world.shared.values() if one.deployment == key] == [*codes]
        assert next(iter(codes)).startswith("last")
    for name in APPS:
        world.do(world.machine.apply(Delete(name), world.now()))
    world.settle()
    assert not world.actors, "what is deleted leaves processes"
    assert not world.shared, "what is deleted leaves actors"
    assert not world.machine.view.apps
    assert not [*world.machine.view.deployments()]


# ---- the judge: bugs that it has to find ----


def _lost_stop(machine: Machine, event: Stopped, now: float) -> list[Action]:
    """The end of a replica that was told to stop is not taken in."""
    return []


def _deaf(machine: Machine, event: Died, now: float) -> list[Action]:
    """The death of a replica is not taken in."""
    return []


def _left_in_gang(machine: Machine, known: Any, one: Any) -> list[Any]:
    """The rest of a gang goes on without one of its replicas."""
    return []


def _saved_without(*names: str) -> Any:
    """What is saved lacks these."""

    def less(machine: Machine) -> dict[str, Any]:
        return {**_saved(machine), **{name: [] for name in names}}

    return less


def _saved_with_count_of_before(machine: Machine) -> dict[str, Any]:
    """Another controller gives names that were given before."""
    return {**_saved(machine), "count": 0}


_saved = saved


def _never_again(self: Machine, known: Any, why: str, now: float, trigger: str, **_: Any) -> None:
    """What failed once is never tried again."""
    known.has_failed = True


def _without_actors(self: Any, spec: Any) -> bool:
    """Replicas start before what they look for is there."""
    return True


def _no_old_actor_ends(self: Any, versions: set[str]) -> list[Any]:
    """Actors of earlier versions stay."""
    return []


def _youngest_time(self: Clock) -> float:
    """The clock is the computer's, which somebody sets."""
    return self.wall()  # type: ignore[attr-defined]


def _wall(self: Clock, wall: Any, steady: Any) -> None:
    self.wall = wall  # type: ignore[attr-defined]


def _all_old_at_once(self: Machine, known: Any, now: float) -> list[Any]:
    """Nothing is ever stopped that is too much or too old."""
    return []


BUGS: dict[str, list[tuple[Any, str, Any]]] = {
    "the end of what was to stop is not heard": [(Machine, "_on_stopped", _lost_stop)],
    "a death is not heard": [(Machine, "_on_died", _deaf)],
    "half a gang goes on": [(Machine, "_end_with", _left_in_gang)],
    "what was to stop is not saved": [(sys.modules[__name__], "saved", _saved_without("stopping"))],
    "replicas are not saved": [(sys.modules[__name__], "saved", _saved_without("replicas"))],
    "the applications are not saved": [(sys.modules[__name__], "saved", _saved_without("apps"))],
    "names are given twice": [(sys.modules[__name__], "saved", _saved_with_count_of_before)],
    "what failed once is not tried again": [(Machine, "_fail", _never_again)],
    "replicas do not wait for their actors": [(DeploymentActors, "are_there", _without_actors)],
    "actors of earlier versions stay": [(DeploymentActors, "end", _no_old_actor_ends)],
    "the clock is the computer's": [
        (Clock, "__init__", _wall),
        (Clock, "__call__", _youngest_time),
    ],
    "what is old or too much stays": [(Machine, "_surplus", _all_old_at_once)],
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_judge_finds_a_planted_bug(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, instead in BUGS[bug]:
        monkeypatch.setattr(owner, name, instead)
    for seed in range(SEEDS_OF_A_BUG):
        try:
            play(seed)
        except AssertionError:
            return
    pytest.fail("no history shows it")
