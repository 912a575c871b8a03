"""The controller's machine, without processes: whatever happens in whatever order, it ends as it should."""

from __future__ import annotations

import random
from typing import Any

import pytest
from harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own machine", allow_module_level=True)

from heliostat.serve.config import AutoscalingConfig, DeploymentConfig
from heliostat.serve.controller.machine import (
    Machine,
    Publish,
    Reconfigure,
    Start,
    Stop,
    restored,
    saved,
)
from heliostat.serve.controller.scaling import Scaler
from heliostat.serve.schema import ApplicationStatus, ReplicaState
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec

KEY = DeploymentID("app", "d")


def app(number: int = 1, code: str = "one", **config: Any) -> AppSpec:
    spec = DeploymentSpec("d", DeploymentConfig(num_replicas=number, **config), b"", code)
    return AppSpec("app", "/", "d", {"d": spec})


class World:
    """Runs what the machine asks for, and counts what serves."""

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine or Machine()
        self.now = 0.0
        self.starting: dict[str, Start] = {}
        self.stopping: set[str] = set()
        self.running: dict[str, str] = {}  # replica: code
        self.reconfigured: list[str] = []

    def do(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, Start):
                assert action.replica not in self.starting
                self.starting[action.replica] = action
            elif isinstance(action, Stop):
                # A replica that is to stop gets no request any more.
                ids = [one.id for one in self.machine.running(action.deployment)]
                assert action.replica not in ids
                self.starting.pop(action.replica, None)
                self.running.pop(action.replica, None)
                self.stopping.add(action.replica)
            elif isinstance(action, Reconfigure):
                self.reconfigured.append(action.replica)
            else:
                assert isinstance(action, Publish)

    def start_one(self) -> None:
        replica, action = self.starting.popitem()
        self.running[replica] = action.spec.code_version
        self.do(self.machine.started(replica, "socket", self.now))

    def settle(self) -> None:
        while self.starting or self.stopping:
            while self.stopping:
                self.do(self.machine.stopped(self.stopping.pop(), self.now))
            if self.starting:
                self.start_one()

    def status(self) -> ApplicationStatus:
        found = self.machine.app_of("app")
        assert found is not None
        return found.status


@pytest.mark.contract("F12.01", "F12.02")
def test_an_application_comes_and_goes() -> None:
    world = World()
    world.do(world.machine.deploy(app(3), 0))
    assert world.status() is ApplicationStatus.DEPLOYING
    world.settle()
    assert world.status() is ApplicationStatus.RUNNING
    assert len(world.machine.running(KEY)) == 3
    world.do(world.machine.delete("app", 1))
    assert world.machine.running(KEY) == []
    assert world.status() is ApplicationStatus.DELETING
    world.settle()
    assert world.machine.app_of("app") is None


@pytest.mark.contract("F12.07")
@pytest.mark.parametrize("number", [1, 2, 10])
def test_an_update_never_serves_with_fewer(number: int) -> None:
    world = World()
    world.do(world.machine.deploy(app(number), 0))
    world.settle()
    world.do(world.machine.deploy(app(number, "two"), 1))
    while world.starting or world.stopping:
        assert len(world.machine.running(KEY)) >= number
        while world.stopping:
            world.do(world.machine.stopped(world.stopping.pop(), world.now))
        if world.starting:
            world.start_one()
    assert world.running.keys() == {one.id for one in world.machine.running(KEY)}
    assert set(world.running.values()) == {"two"}
    assert len(world.running) == number
    assert world.status() is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.07")
def test_where_there_is_no_room_an_old_replica_makes_it() -> None:
    world = World()
    world.do(world.machine.deploy(app(1), 0))
    world.settle()
    world.do(world.machine.deploy(app(1, "two"), 1))
    assert world.machine.wants_time()
    world.do(world.machine.tick(2))
    assert not world.stopping
    world.do(world.machine.tick(60))
    assert len(world.stopping) == 1
    world.settle()
    assert list(world.running.values()) == ["two"]


@pytest.mark.contract("F12.01")
def test_another_configuration_starts_nothing_anew() -> None:
    world = World()
    world.do(world.machine.deploy(app(2), 0))
    world.settle()
    before = set(world.running)
    world.now = 1
    world.do(world.machine.deploy(app(3, user_config={"a": 1}), 1))
    world.settle()
    assert before < set(world.running)
    assert set(world.reconfigured) == before
    world.do(world.machine.deploy(app(1, user_config={"a": 1}), 2))
    world.settle()
    assert len(world.running) == 1
    assert set(world.running) < before  # the youngest went


@pytest.mark.contract("F12.01")
def test_constructors_that_fail_are_given_up() -> None:
    world = World()
    world.do(world.machine.deploy(app(2, max_constructor_retry_count=4), 0))
    failures = 0
    while world.status() is ApplicationStatus.DEPLOYING:
        world.now += 60
        world.do(world.machine.tick(world.now))
        replica, _ = world.starting.popitem()
        failures += 1
        world.do(world.machine.start_failed(replica, "no model", world.now))
    assert failures == 4
    assert world.status() is ApplicationStatus.DEPLOY_FAILED
    assert "no model" in str(world.machine.failure(KEY))
    assert not world.machine.wants_time() or not world.machine.tick(world.now + 60)
    # Another deployment of it begins anew.
    world.starting.clear()
    world.do(world.machine.deploy(app(2, "better"), world.now))
    world.settle()
    assert world.status() is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.01")
def test_a_replica_that_dies_is_replaced_at_once() -> None:
    world = World()
    world.do(world.machine.deploy(app(2), 0))
    world.settle()
    victim = next(iter(world.running))
    del world.running[victim]
    world.do(world.machine.died(victim, "killed", 1))
    assert len(world.starting) == 1
    assert victim not in [one.id for one in world.machine.running(KEY)]
    world.settle()
    assert world.status() is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.02")
def test_a_later_machine_goes_on() -> None:
    world = World()
    world.do(world.machine.deploy(app(3), 0))
    world.start_one()
    world.start_one()
    later = World(restored(saved(world.machine), 5))
    lost, *found = [*world.running, *world.starting]
    for replica in found:
        later.running[replica] = "one"
        later.do(later.machine.started(replica, "socket", 5))
    later.do(later.machine.died(lost, "was not found", 5))
    later.now = 60
    later.do(later.machine.tick(later.now))
    later.settle()
    assert later.status() is ApplicationStatus.RUNNING
    assert len(later.running) == 3
    assert set(found) < set(later.running)


@pytest.mark.contract("F12.06")
def test_replicas_follow_the_load() -> None:
    config = AutoscalingConfig(
        min_replicas=0,
        max_replicas=10,
        target_ongoing_requests=2,
        upscale_delay_s=3,
        downscale_delay_s=10,
        look_back_period_s=5,
    )
    scaler, target, now = Scaler(config, None), 0, 0.0
    assert scaler.decide(target, 0, now) == 0
    scaler.count("ingress", 1, now)
    target = scaler.decide(target, 0, now)
    assert target == 1  # held for it: at once
    scaler.count("ingress", 0, now)
    scaler.count("r1", 12, now)
    seen = []
    for _ in range(100):
        now += 0.1
        target = scaler.decide(target, target, now)
        seen.append(target)
    assert seen[20] == 1  # not before upscale_delay_s
    assert seen[-1] == 6  # twelve requests, two each
    scaler.forget("r1")
    scaler.count("r2", 0, now)
    for _ in range(400):
        now += 0.1
        target = scaler.decide(target, target, now)
        seen.append(target)
    assert seen[150] == 6  # not before downscale_delay_s
    assert seen[-1] == 0
    scaler.count("r1", 1000, now)
    assert scaler.decide(0, 0, now) == 1


@pytest.mark.contract("F12.01", "F12.07")
@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_it_comes_to_rest(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    versions = ["one", "two", "three"]
    world.do(world.machine.deploy(app(2), 0))
    for _ in range(60):
        world.now += rng.random() * 2
        event = rng.randrange(7)
        if event == 0:
            spec = app(rng.randint(1, 5), rng.choice(versions), user_config=rng.randint(0, 1))
            world.do(world.machine.deploy(spec, world.now))
        elif event == 1 and world.starting:
            replica, _ = world.starting.popitem()
            world.do(world.machine.start_failed(replica, "failed", world.now))
        elif event == 2 and world.running:
            victim = rng.choice(sorted(world.running))
            del world.running[victim]
            world.do(world.machine.died(victim, "died", world.now))
        elif event == 3 and world.stopping:
            world.do(world.machine.stopped(world.stopping.pop(), world.now))
        elif event == 4 and rng.random() < 0.3:
            world.do(world.machine.delete("app", world.now))
        elif event == 5 and world.starting:
            world.start_one()
        else:
            world.do(world.machine.tick(world.now))
        known = world.machine.deployments.get(KEY)
        if known is not None:
            running = known.of(ReplicaState.RUNNING)
            assert {one.id for one in running} == set(world.running)
    world.do(world.machine.deploy(app(3, "last"), world.now))
    for _ in range(20):
        world.now += 20
        world.do(world.machine.tick(world.now))
        world.settle()
    assert world.status() is ApplicationStatus.RUNNING
    assert sorted(world.running.values()) == ["last"] * 3
