"""The controller's machine, without processes: whatever happens in whatever order, it ends as it should."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
import yaml

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own machine", allow_module_level=True)

from heliostat.serve.controller.details import options_of
from heliostat.serve.controller.events import (
    Action,
    Counted,
    Delete,
    Deploy,
    Died,
    Publish,
    Reconfigure,
    Resume,
    Scale,
    Start,
    Started,
    StartFailed,
    Stop,
    Stopped,
    Tick,
)
from heliostat.serve.controller.machine import Machine, restored, saved
from heliostat.serve.controller.scaling import Scaler
from heliostat.serve.deployment import configured
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.options import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy
from heliostat.serve.schema import ApplicationStatus, ReplicaState
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec, scaled_from_outside

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

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                assert action.replica not in self.starting
                self.starting[action.replica] = action
            elif isinstance(action, Stop):
                # A replica that is to stop gets no request any more.
                ids = [one.id for one in self.machine.view.running(action.deployment)]
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
        self.do(self.machine.apply(Started(replica, "socket"), self.now))

    def settle(self) -> None:
        while self.starting or self.stopping:
            while self.stopping:
                self.do(self.machine.apply(Stopped(self.stopping.pop()), self.now))
            if self.starting:
                self.start_one()

    def status(self) -> ApplicationStatus:
        found = self.machine.view.app_of("app")
        assert found is not None
        return found.status


@pytest.mark.contract("F12.01", "F12.02")
def test_an_application_comes_and_goes() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(3)), 0))
    assert world.status() is ApplicationStatus.DEPLOYING
    world.settle()
    assert world.status() is ApplicationStatus.RUNNING
    assert len(world.machine.view.running(KEY)) == 3
    world.do(world.machine.apply(Delete("app"), 1))
    assert world.machine.view.running(KEY) == []
    assert world.status() is ApplicationStatus.DELETING
    world.settle()
    assert world.machine.view.app_of("app") is None


@pytest.mark.contract("F12.07")
@pytest.mark.parametrize("number", [1, 2, 10])
def test_an_update_never_serves_with_fewer(number: int) -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(number)), 0))
    world.settle()
    world.do(world.machine.apply(Deploy(app(number, "two")), 1))
    while world.starting or world.stopping:
        assert len(world.machine.view.running(KEY)) >= number
        while world.stopping:
            world.do(world.machine.apply(Stopped(world.stopping.pop()), world.now))
        if world.starting:
            world.start_one()
    assert world.running.keys() == {one.id for one in world.machine.view.running(KEY)}
    assert set(world.running.values()) == {"two"}
    assert len(world.running) == number
    assert world.status() is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.01", "F12.07")
@pytest.mark.parametrize(
    ("options", "least", "most"),
    [
        ({}, 10, 12),
        ({"max_surge_percent": 100}, 10, 20),
        ({"max_surge_percent": 31}, 10, 14),
        ({"max_surge_percent": 0}, 8, 10),
        ({"rolling_update_percentage": 0.5}, 5, 10),
        ({"rolling_update_percentage": 0.01, "max_surge_percent": 0}, 9, 10),
        ({"rolling_update_percentage": 1.0}, 0, 10),
    ],
)
def test_an_update_has_so_many_more_or_fewer(
    options: dict[str, Any], least: int, most: int
) -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(10, **options)), 0))
    world.settle()
    world.do(world.machine.apply(Deploy(app(10, "two", **options)), 1))
    served, there = [], []
    while world.starting or world.stopping:
        served.append(len(world.machine.view.running(KEY)))
        # Without a surge those that end count: new ones wait for what they have.
        ending = world.stopping if least < 10 else ()
        there.append(len(world.starting) + len(world.running) + len(ending))
        world.now += 0.01
        world.do(world.machine.apply(Tick(), world.now))
        if world.stopping:
            world.do(world.machine.apply(Stopped(world.stopping.pop()), world.now))
        elif world.starting:
            world.start_one()
    assert (min(served), set(world.running.values())) == (least, {"two"})
    assert len(world.running) == 10
    assert max(there) == most


@pytest.mark.contract("F12.01")
@pytest.mark.parametrize(
    "options",
    [
        {"rolling_update_percentage": 0},
        {"rolling_update_percentage": 1.5},
        {"max_surge_percent": -1},
        {"max_surge_percent": 101},
        {"max_surge_percent": 0.5},
    ],
)
def test_shares_of_an_update_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        DeploymentConfig(**options)


@pytest.mark.contract("F12.07")
def test_where_there_is_no_room_an_old_replica_makes_it() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(1)), 0))
    world.settle()
    world.do(world.machine.apply(Deploy(app(1, "two")), 1))
    assert world.machine.view.wants_time()
    world.do(world.machine.apply(Tick(), 2))
    assert not world.stopping
    world.do(world.machine.apply(Tick(), 60))
    assert len(world.stopping) == 1
    world.settle()
    assert list(world.running.values()) == ["two"]


@pytest.mark.contract("F12.01")
def test_another_configuration_starts_nothing_anew() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(2)), 0))
    world.settle()
    before = set(world.running)
    world.now = 1
    world.do(world.machine.apply(Deploy(app(3, user_config={"a": 1})), 1))
    world.settle()
    assert before < set(world.running)
    assert set(world.reconfigured) == before
    world.do(world.machine.apply(Deploy(app(1, user_config={"a": 1})), 2))
    world.settle()
    assert len(world.running) == 1
    assert set(world.running) < before  # the youngest went


@pytest.mark.contract("F12.01", "F12.07")
def test_gangs_are_replaced_and_counted_whole() -> None:
    world = World()
    gangs = {"gang_scheduling_config": {"gang_size": 3}}
    world.do(world.machine.apply(Deploy(app(6, **gangs)), 0))
    world.settle()
    world.do(world.machine.apply(Deploy(app(6, "two", **gangs)), 1))
    while world.starting or world.stopping:
        assert len(world.machine.view.running(KEY)) >= 6
        old = [name for name, code in world.running.items() if code == "one"]
        assert len(old) % 3 == 0
        while world.stopping:
            world.do(world.machine.apply(Stopped(world.stopping.pop()), world.now))
        if world.starting:
            world.start_one()
    assert list(world.running.values()) == ["two"] * 6
    # Gangs of another size: old ones make room where no whole gang fits.
    for size, number in ((4, 8), (1, 5), (2, 4)):
        options = {"gang_scheduling_config": {"gang_size": size}}
        world.do(world.machine.apply(Deploy(app(number, f"of {size}", **options)), world.now))
        world.settle()
        assert list(world.running.values()) == [f"of {size}"] * number
    # A load for three replicas, and bounds that are no whole gangs, make gangs of two.
    scaling = AutoscalingConfig(
        min_replicas=1,
        max_replicas=7,
        target_ongoing_requests=1,
        upscale_delay_s=0,
        downscale_delay_s=0,
        look_back_period_s=1,
    )
    options = {"gang_scheduling_config": {"gang_size": 2}, "autoscaling_config": scaling}
    world.do(world.machine.apply(Deploy(app(1, "scaled", **options)), 100))
    world.settle()
    for load, number in ((3, 4), (50, 6), (0, 2)):
        world.now += 100
        world.do(world.machine.apply(Counted(KEY, "router", load, is_waiting=True), world.now))
        world.do(world.machine.apply(Tick(), world.now + 50))
        world.settle()
        assert len(world.machine.view.running(KEY)) == world.machine.view.target(KEY) == number


@pytest.mark.contract("F12.01")
def test_constructors_that_fail_are_given_up() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(2, max_constructor_retry_count=4)), 0))
    failures = 0
    while world.status() is ApplicationStatus.DEPLOYING:
        world.now += 60
        world.do(world.machine.apply(Tick(), world.now))
        replica, _ = world.starting.popitem()
        failures += 1
        world.do(world.machine.apply(StartFailed(replica, "no model"), world.now))
    assert failures == 4
    assert world.status() is ApplicationStatus.DEPLOY_FAILED
    assert "no model" in str(world.machine.view.failure(KEY))
    assert not world.machine.view.wants_time() or not world.machine.apply(Tick(), world.now + 60)
    # Another deployment of it begins anew.
    world.starting.clear()
    world.do(world.machine.apply(Deploy(app(2, "better")), world.now))
    world.settle()
    assert world.status() is ApplicationStatus.RUNNING


def test_an_environment_that_cannot_be_built_is_not_tried_again_unless_it_has_been() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(2, max_constructor_retry_count=4)), 0))
    replica, _ = world.starting.popitem()
    world.do(world.machine.apply(Died(replica, "no package", is_final=True), world.now))
    assert world.status() is ApplicationStatus.DEPLOY_FAILED
    assert "no package" in str(world.machine.view.failure(KEY))
    world = World()
    world.do(world.machine.apply(Deploy(app(2)), 0))
    world.settle()
    # On another machine, say, whose network is down.
    world.do(world.machine.apply(Died(next(iter(world.running)), "killed"), 1))
    replica, _ = world.starting.popitem()
    world.do(world.machine.apply(Died(replica, "no package", is_final=True), 1))
    assert world.status() is not ApplicationStatus.DEPLOY_FAILED
    world.now += 60
    world.do(world.machine.apply(Tick(), world.now))
    assert len(world.starting) == 1


@pytest.mark.contract("F12.01")
def test_a_replica_that_dies_is_replaced_at_once() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(2)), 0))
    world.settle()
    victim = next(iter(world.running))
    del world.running[victim]
    world.do(world.machine.apply(Died(victim, "killed"), 1))
    assert len(world.starting) == 1
    assert victim not in [one.id for one in world.machine.view.running(KEY)]
    world.settle()
    assert world.status() is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.06")
def test_a_number_that_is_set_from_outside_stays_until_the_next_deployment() -> None:
    world = World()
    spec = scaled_from_outside(app(1), True)
    world.do(world.machine.apply(Deploy(spec), 0))
    world.settle()
    world.do(world.machine.apply(Scale(KEY, 4), 1))
    world.settle()
    assert len(world.running) == world.machine.view.target(KEY) == 4
    assert restored(saved(world.machine), 2).view.target(KEY) == 4
    world.do(world.machine.apply(Scale(KEY, 0), 2))
    world.settle()
    assert world.running == {}
    world.do(world.machine.apply(Deploy(scaled_from_outside(app(2), False)), 3))
    world.settle()
    assert len(world.running) == 2
    with pytest.raises(PermissionError, match="external_scaler_enabled"):
        world.machine.apply(Scale(KEY, 3), 4)
    with pytest.raises(LookupError):
        world.machine.apply(Scale(DeploymentID("app", "other"), 3), 4)
    world.do(world.machine.apply(Delete("app"), 5))
    with pytest.raises(LookupError):
        world.machine.apply(Scale(KEY, 3), 5)
    assert world.machine.view.target(KEY) == 0


@pytest.mark.contract("F12.02")
def test_a_later_machine_goes_on() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(3)), 0))
    world.start_one()
    world.start_one()
    later = World(restored(saved(world.machine), 5))
    lost, *found = [*world.running, *world.starting]
    for replica in found:
        later.running[replica] = "one"
        later.do(later.machine.apply(Started(replica, "socket"), 5))
    later.do(later.machine.apply(Died(lost, "was not found"), 5))
    later.now = 60
    later.do(later.machine.apply(Tick(), later.now))
    later.settle()
    assert later.status() is ApplicationStatus.RUNNING
    assert len(later.running) == 3
    assert set(found) < set(later.running)


def succeed(world: World) -> list[Action]:
    """Another machine takes over, as another controller does; what it says to begin with."""
    state = pickle.loads(pickle.dumps(saved(world.machine)))
    assert {one.replica for one in state["stopping"]} <= world.stopping
    world.machine = restored(state, world.now)
    return world.machine.apply(Resume(), world.now)


@pytest.mark.contract("F12.02", "F12.04")
def test_a_later_machine_serves_what_was_served_from_its_first_word_on() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(3)), 0))
    world.settle()
    world.do(world.machine.apply(Deploy(app(4)), 1))  # a replica that only starts gets no request
    before = world.machine.view.routes()
    assert before[0] == [{"prefix": "/", "app": "app", "deployment": KEY.key}]
    assert len(before[1][KEY.key]["replicas"]) == 3
    assert restored(saved(world.machine), 2).view.routes() == before


@pytest.mark.contract("F12.07")
def test_a_later_machine_ends_what_was_being_ended() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(3)), 0))
    world.settle()
    world.do(world.machine.apply(Deploy(app(1)), 1))
    stopping = {one.replica for one in saved(world.machine)["stopping"]}
    assert len(stopping) == 2
    world.do(world.machine.apply(Delete("app"), 2))
    stopping = {one.replica for one in saved(world.machine)["stopping"]}
    assert len(stopping) == 3


@pytest.mark.contract("F12.01", "F12.07")
def test_a_later_machine_tries_again_and_configures_again() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(1)), 0))
    replica, _ = world.starting.popitem()
    world.do(world.machine.apply(StartFailed(replica, "no model yet"), 0))
    assert not world.starting
    world.do(succeed(world))
    assert len(world.starting) == 1
    world.settle()
    # Which configuration a replica has got before the controller died is not known.
    world.machine.apply(Deploy(app(1, user_config={"a": 1})), 1)
    world.reconfigured.clear()
    world.do(succeed(world))
    assert set(world.reconfigured) == set(world.running)


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
    scaler, target, now = Scaler(KEY, config, None), 0, 0.0
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


@pytest.mark.contract("F12.06")
@pytest.mark.parametrize(("how", "least", "most"), [("mean", 2, 4), ("max", 6, 6), ("min", 1, 1)])
def test_a_load_that_changes_is_one_number(how: str, least: int, most: int) -> None:
    config = AutoscalingConfig(
        max_replicas=10,
        target_ongoing_requests=1,
        upscale_delay_s=0,
        downscale_delay_s=0,
        look_back_period_s=10,
        aggregation_function=how,
    )
    scaler = Scaler(KEY, config, None)
    for now in range(60):
        scaler.count("r1", 6 if now % 2 else 0, now)
        scaler.count("router", 0, now, waiting=True)
    assert least <= scaler.decide(5, 5, 60.5) <= most
    # A load that has stayed the same is known from before the time that is looked back on.
    scaler.count("r1", 3, 61)
    assert scaler.decide(5, 5, 100) == 3


@pytest.mark.contract("F12.08")
def test_a_policy_says_how_many_replicas_there_are() -> None:
    seen: list[AutoscalingContext] = []

    class Follows:
        def __init__(self, more: int) -> None:
            self.more = more

        def __call__(self, context: AutoscalingContext) -> tuple[float, dict[str, int]]:
            seen.append(context)
            wanted = context.aggregated_metrics["depth"].values()
            calls = context.policy_state.get("calls", 0) + 1
            return sum(wanted) + self.more - 0.5, {"calls": calls}

    policy = AutoscalingPolicy(Follows, {"more": 2})
    policy.get_policy = lambda: Follows  # type: ignore[method-assign] # this one, with its list
    config = AutoscalingConfig(
        max_replicas=6, upscale_delay_s=1, downscale_delay_s=0, look_back_period_s=10, policy=policy
    )
    scaler = Scaler(KEY, config, None)
    scaler.count("router", 4, 0, waiting=True)
    scaler.count("r1", 1, 0)
    for replica, depth in (("r1", 1), ("r2", 2), ("gone", 9)):
        scaler.record(replica, {"depth": depth}, 0)
    assert scaler.decide(2, 2, 1, ["r1", "r2"]) == 2  # not before upscale_delay_s
    assert scaler.decide(2, 2, 2, ["r1", "r2"]) == 5
    last = seen[-1]
    assert (last.total_num_requests, last.total_queued_requests) == (5, 4)
    assert last.total_running_requests == 1
    assert (last.deployment_name, last.app_name) == (KEY.name, KEY.app_name)
    assert (last.current_num_replicas, last.target_num_replicas) == (2, 2)
    assert [one.unique_id for one in last.running_replicas] == ["r1", "r2"]
    assert last.policy_state == {"calls": 1}
    scaler.record("r1", {"depth": 100}, 50)
    scaler.decide(5, 5, 70, ["r1"])
    assert seen[-1].last_scale_up_time == 2
    assert scaler.decide(5, 5, 80, ["r1"]) == 6  # at most max_replicas


@pytest.mark.contract("F12.08")
@pytest.mark.parametrize("answer", [float("nan"), None, (3, {}, 1), ("many", {}), (3, 4)])
def test_a_policy_that_fails_leaves_the_replicas(answer: Any) -> None:
    policy = AutoscalingPolicy(policy_that_does_not_scale)
    policy.get_policy = lambda: lambda _: answer  # type: ignore[method-assign] # one answer
    config = AutoscalingConfig(
        max_replicas=9, upscale_delay_s=0, downscale_delay_s=0, policy=policy
    )
    scaler = Scaler(KEY, config, None)
    assert scaler.decide(2, 2, 1, ["r1"]) == 2
    assert scaler.decide(2, 2, 2, ["r1"]) == 2


def policy_that_does_not_scale(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    return context.target_num_replicas, {}


@pytest.mark.contract("F12.07", "F12.08")
def test_a_file_names_a_policy() -> None:
    policy = {"policy_function": "heliostat.serve.autoscaling_policy:default_autoscaling_policy"}
    scaling = {"max_replicas": 3, "policy": policy, "aggregation_function": "MAX"}
    config = configured(DeploymentConfig(), {"autoscaling_config": scaling})
    told = options_of(DeploymentSpec("d", config, b"", ""), changed=True)["autoscaling_config"]
    assert yaml.safe_load(yaml.safe_dump(told)) == told
    assert told["policy"] == {**policy, "policy_kwargs": {}}
    assert told["aggregation_function"] == "max"


@pytest.mark.contract("F12.08")
def test_a_policy_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(ValueError, match="PYTHONPATH"):
        AutoscalingPolicy("no.such.module:policy")
    with pytest.raises(ValueError, match="JSON"):
        AutoscalingPolicy(policy_that_does_not_scale, {"a": object()})
    with pytest.raises(ValueError, match="median"):
        AutoscalingConfig(aggregation_function="median")


@pytest.mark.contract("F12.07")
def test_controllers_that_die_one_after_the_other_leave_no_replica() -> None:
    world = World()
    world.do(world.machine.apply(Deploy(app(2)), 0))
    world.settle()
    going = set(world.running)
    world.do(world.machine.apply(Delete("app"), 1))
    machine = world.machine
    for now in (2, 3):  # each dies before it has stopped them
        machine = restored(pickle.loads(pickle.dumps(saved(machine))), now)
        machine.apply(Resume(), now)
    assert {one.replica for one in saved(machine)["stopping"]} == going
    for replica in going:
        machine.apply(Stopped(replica), 4)
    assert saved(machine)["stopping"] == []


@pytest.mark.contract("F12.01", "F12.07")
@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_it_comes_to_rest(seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    versions = ["one", "two", "three"]
    # How an update goes, on every second seed as it does by default.
    shares: dict[str, Any] = {"max_surge_percent": 0, "rolling_update_percentage": 0.5}
    shares = shares if seed % 2 else {}
    world.do(world.machine.apply(Deploy(app(2, **shares)), 0))
    for _ in range(60):
        world.now += rng.random() * 2
        event = rng.randrange(8)
        if event == 0:
            number, version = rng.randint(1, 5), rng.choice(versions)
            spec = app(number, version, user_config=rng.randint(0, 1), **shares)
            world.do(world.machine.apply(Deploy(spec), world.now))
        elif event == 1 and world.starting:
            replica, _ = world.starting.popitem()
            world.do(world.machine.apply(StartFailed(replica, "failed"), world.now))
        elif event == 2 and world.running:
            victim = rng.choice(sorted(world.running))
            del world.running[victim]
            world.do(world.machine.apply(Died(victim, "died"), world.now))
        elif event == 3 and world.stopping:
            world.do(world.machine.apply(Stopped(world.stopping.pop()), world.now))
        elif event == 4 and rng.random() < 0.3:
            world.do(world.machine.apply(Delete("app"), world.now))
        elif event == 5 and world.starting:
            world.start_one()
        elif event == 6:
            before = world.machine.view.routes()[1]
            actions = succeed(world)
            for key, row in before.items():
                known = {one["id"] for one in row["replicas"]}
                stopped = {one.replica for one in actions if isinstance(one, Stop)}
                assert known - stopped == {one.id for one in world.machine.view.running(KEY)}, key
            world.do(actions)
        else:
            world.do(world.machine.apply(Tick(), world.now))
        known = world.machine.view.deployment(KEY)
        if known is not None:
            running = known.of(ReplicaState.RUNNING)
            assert {one.id for one in running} == set(world.running)
    world.do(world.machine.apply(Deploy(app(3, "last", **shares)), world.now))
    for _ in range(20):
        world.now += 20
        world.do(world.machine.apply(Tick(), world.now))
        world.settle()
    assert world.status() is ApplicationStatus.RUNNING
    assert sorted(world.running.values()) == ["last"] * 3
