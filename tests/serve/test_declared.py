"""Configurations: what they may say, and what the controller's machine makes of them."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own machine and messages", allow_module_level=True)

from heliostat.serve import building, declaration
from heliostat.serve.controller.events import (
    Action,
    Build,
    Built,
    Counted,
    Declare,
    Deploy,
    Resume,
    Start,
    Started,
    Stop,
    Stopped,
    Tick,
)
from heliostat.serve.controller.machine import Machine, restored, saved
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.options import AutoscalingConfig, AutoscalingPolicy
from heliostat.serve.schema import ApplicationStatus, ServeDeploySchema
from heliostat.serve.specs import AppSpec, DeploymentID, DeploymentSpec

KEY = DeploymentID("app", "d")


def config(**app: Any) -> dict[str, Any]:
    return {"applications": [{"import_path": "a:b", **app}]}


@pytest.mark.contract("F12.07", "F12.08")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "must be a mapping"),
        ({}, "applications: Field required"),
        ({"applications": [{}]}, "applications[0].import_path: Field required"),
        (
            config(import_path="nothing"),
            "applications[0].import_path: 'nothing' is not an import path",
        ),
        (config(import_path="a:b:c"), "applications[0].import_path"),
        (config(import_path=":b"), "applications[0].import_path"),
        (
            config(route_prefix="x"),
            "applications[0].route_prefix: The route_prefix 'x' must begin with '/'",
        ),
        (config(name=""), "applications[0].name"),
        (config(port=1), "it belongs to http_options"),
        (config(runtime_env={"working_dir": "here"}), "applications[0].runtime_env: working_dir"),
        (
            config(deployments=[{"name": "d", "max_ongoing_requests": 0}]),
            "applications[0].deployments[0].max_ongoing_requests: Input should be greater than 0",
        ),
        (config(deployments=[{"name": "d", "num_replicas": "many"}]), 'must be an int or "auto"'),
        (
            config(deployments=[{"name": "d", "num_replicas": 1, "autoscaling_config": {}}]),
            "applications[0].deployments[0]: num_replicas and autoscaling_config",
        ),
        (config(deployments=[{"name": "d", "max_queued_requests": 0}]), "must be -1"),
        ({"applications": [{"import_path": "a:b"}] * 2}, "two applications named 'default'"),
        (
            {
                "applications": [
                    {"import_path": "a:b", "name": "x"},
                    {"import_path": "a:b", "name": "y"},
                ]
            },
            "two applications with route_prefix '/'",
        ),
        ({**config(), "proxy_location": "Moon"}, "proxy_location"),
        ({**config(), "http_options": {"port": "x"}}, "http_options.port"),
        ({**config(), "target_capacity": 101}, "target_capacity"),
    ],
)
def test_a_wrong_configuration_names_the_field(given: Any, field: str) -> None:
    with pytest.raises(ValueError) as caught:
        declaration.parsed(given)
    assert field in str(caught.value)


@pytest.mark.contract("F12.07")
def test_unknown_fields_are_found() -> None:
    given = {
        **config(deployments=[{"name": "d", "replicas": 2}], args={"any": 1}),
        "http_options": {"ports": 1},
    }
    found = declaration.unknown_fields(given)
    assert sorted(found) == ["applications[0].deployments[0].replicas", "http_options.ports"]
    assert ServeDeploySchema.model_validate(given).applications[0].name == "default"


def spec(code: str = "one", **options: Any) -> AppSpec:
    made = DeploymentSpec("d", DeploymentConfig(**options), code.encode(), "")
    return AppSpec("app", "/", "d", {"d": made})


def declared(**app: Any) -> dict[str, Any]:
    return {"name": "app", "route_prefix": "/", "import_path": "a:b", **app}


def declare(
    machine: Machine, configs: list[dict[str, Any]], now: float, capacity: float | None = None
) -> tuple[list[Action], list[Build]]:
    """What is to be done at once, and what is to be built."""
    actions = machine.apply(Declare(configs, capacity), now)
    builds = [one for one in actions if isinstance(one, Build)]
    return [one for one in actions if not isinstance(one, Build)], builds


def settle(machine: Machine, actions: list[Action], now: float) -> set[str]:
    """Start what is to be started, stop what is to be stopped; the versions that run."""
    todo = list(actions)
    while todo:
        action = todo.pop()
        if isinstance(action, Start):
            todo += machine.apply(Started(action.replica, "socket"), now)
        elif isinstance(action, Stop):
            todo += machine.apply(Stopped(action.replica), now)
    return {one.version for one in machine.view.running(KEY)}


def status(machine: Machine) -> ApplicationStatus:
    found = machine.view.app_of("app")
    assert found is not None
    return found.status


@pytest.mark.contract("F12.07")
def test_what_runs_serves_on_until_its_successor_is_built() -> None:
    machine = Machine()
    actions, [build] = declare(machine, [declared()], 0)
    assert actions == []
    assert status(machine) is ApplicationStatus.DEPLOYING
    assert machine.view.routes() == ([], {})
    first = settle(machine, machine.apply(Built(build, spec("one")), 0), 0)
    assert status(machine) is ApplicationStatus.RUNNING

    # Other options of the same code: nothing is built, nothing is started anew.
    actions, builds = declare(
        machine, [declared(deployments=[{"name": "d", "num_replicas": 3}])], 1
    )
    assert builds == []
    assert settle(machine, actions, 1) == first
    assert len(machine.view.running(KEY)) == 3

    # Other code that cannot be imported: the old one serves, and the status says why.
    actions, [build] = declare(machine, [declared(args={"x": 1})], 2)
    assert actions == []
    assert len(machine.view.routes()[1][KEY.key]["replicas"]) == 3
    assert machine.apply(Built(build, "no module"), 2) == []
    assert status(machine) is ApplicationStatus.DEPLOY_FAILED
    assert machine.view.app_of("app").message == "no module"  # type: ignore[union-attr]
    assert len(machine.view.running(KEY)) == 3

    # A build that comes too late is not taken.
    _, [early] = declare(machine, [declared(args={"x": 2})], 3)
    _, [late] = declare(machine, [declared(args={"x": 3})], 3)
    assert machine.apply(Built(early, spec("early")), 3) == []
    second = settle(machine, machine.apply(Built(late, spec("late")), 3), 3)
    assert second != first
    assert status(machine) is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.07")
def test_applications_that_are_not_declared_any_more_go() -> None:
    machine = Machine()
    other = AppSpec("other", "/other", "d", spec().deployments)
    _, [build] = declare(machine, [declared()], 0)
    settle(machine, machine.apply(Built(build, spec()), 0), 0)
    settle(machine, machine.apply(Deploy(other), 0), 0)
    actions, builds = declare(machine, [], 1)
    settle(machine, actions, 1)
    assert builds == []
    assert set(machine.view.apps) == {"other"}  # a program has deployed it


@pytest.mark.contract("F12.02", "F12.07")
def test_a_later_machine_builds_what_was_being_built() -> None:
    machine = Machine()
    declare(machine, [declared(args={"x": 1})], 0)
    later = restored(pickle.loads(pickle.dumps(saved(machine))), 1)
    [build] = later.view.builds()
    assert build.config["args"] == {"x": 1}
    settle(later, later.apply(Built(build, spec()), 1), 1)
    assert status(later) is ApplicationStatus.RUNNING


@pytest.mark.contract("F12.07", "F12.08")
def test_declared_applications_have_a_share_of_their_replicas() -> None:
    machine = Machine()
    seven = [declared(deployments=[{"name": "d", "num_replicas": 7}])]
    machine.apply(Deploy(AppSpec("other", "/other", "d", spec(num_replicas=4).deployments)), 0)
    _, [build] = declare(machine, seven, 0, 50)
    settle(machine, machine.apply(Built(build, spec()), 0), 0)
    assert len(machine.view.running(KEY)) == 4
    machine = restored(pickle.loads(pickle.dumps(saved(machine))), 1)
    for now, (capacity, number) in enumerate([(7, 1), (0, 0), (100, 7), (64.2, 4), (None, 7)], 2):
        actions, builds = declare(machine, seven, now, capacity)
        settle(machine, actions, now)
        assert (builds, len(machine.view.running(KEY))) == ([], number)
        assert machine.view.target(DeploymentID("other", "d")) == 4  # a program's


@pytest.mark.contract("F12.06", "F12.07", "F12.08")
def test_the_bounds_of_scaling_are_a_share_too() -> None:
    scaling = {
        "min_replicas": 2,
        "initial_replicas": 10,
        "max_replicas": 20,
        "downscale_delay_s": 0,
        "look_back_period_s": 0.1,
    }
    apps = [declared(deployments=[{"name": "d", "autoscaling_config": scaling}])]

    def targets(machine: Machine, now: float) -> list[int]:
        """Without a load, and with more of it than replicas can bear."""
        found = []
        for requests in (0, 1000):
            for at in range(3):
                machine.apply(Counted(KEY, "router", requests), now + at)
                settle(machine, machine.apply(Tick(), now + at + 0.5), now + at + 0.5)
            settle(machine, machine.apply(Tick(), now + 90), now + 90)
            found.append(machine.view.target(KEY))
            now += 100
        return found

    machine = Machine()
    _, [build] = declare(machine, apps, 0, 50)
    settle(machine, machine.apply(Built(build, spec()), 0), 0)
    assert targets(machine, 0) == [5, 10]  # it grows: as many as it begins with
    settle(machine, declare(machine, apps, 300, 100)[0], 300)
    assert targets(machine, 300) == [10, 20]
    settle(machine, declare(machine, apps, 600, 50)[0], 600)
    assert targets(machine, 600) == [1, 10]


def together(contexts: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """As many replicas of each deployment as there are requests for all of them."""
    total = sum(one.total_num_requests for one in contexts.values())
    states = {key: {"asked": one.policy_state.get("asked", 0) + 1} for key, one in contexts.items()}
    assert {key.name for key in contexts} == {"d", "e"}
    asked.append(states[KEY]["asked"])
    return {key: total for key in contexts if key.name == "d" or total < 3}, states


asked: list[int] = []


@pytest.mark.contract("F12.07", "F12.08")
def test_a_policy_decides_for_all_deployments_of_an_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scaling = {
        "min_replicas": 1,
        "max_replicas": 9,
        "upscale_delay_s": 0,
        "look_back_period_s": 0.1,
    }
    made = spec(autoscaling_config=AutoscalingConfig(**scaling), num_replicas=1)
    other = dataclasses.replace(made.deployments["d"], name="e")
    fixed = DeploymentSpec("f", DeploymentConfig(num_replicas=2), b"", "")
    made.deployments.update({"e": other, "f": fixed})
    # Its code travels by value, and counts here.
    monkeypatch.setattr(AutoscalingPolicy, "get_policy", lambda _: together)
    policy = {"policy_function": "heliostat.serve.autoscaling_policy:default_autoscaling_policy"}
    apps = [declared(autoscaling_policy=policy)]

    def targets(machine: Machine) -> list[int]:
        return [machine.view.target(DeploymentID("app", name)) for name in "def"]

    machine = Machine()
    _, [build] = declare(machine, apps, 0)
    settle(machine, machine.apply(Built(build, made), 0), 0)
    settle(machine, machine.apply(Tick(), 1), 1)
    assert targets(machine) == [1, 1, 2]
    for name, now in (("d", 2), ("e", 3)):
        machine.apply(Counted(DeploymentID("app", name), "router", now - 1), now)
    before = len(asked)
    settle(machine, machine.apply(Tick(), 5), 5)
    # It is asked once for a moment, and knows what it said of each. Three are too many to speak of `e`.
    assert asked[before:] == [asked[before - 1] + 1]
    assert targets(machine)[::2] == [3, 2]
    # So does the machine that comes after this one; without a policy each goes by its own requests.
    later = restored(pickle.loads(pickle.dumps(saved(machine))), 6)
    later.apply(Resume(), 6)
    later.apply(Counted(KEY, "router", 5), 6)
    later.apply(Tick(), 8)
    assert targets(later)[0] == 5
    wrong = [declared(autoscaling_policy={"policy_function": "nowhere:policy"})]
    declare(later, wrong, 9)
    assert status(later) is ApplicationStatus.DEPLOY_FAILED


@pytest.mark.contract("F12.07")
def test_options_of_a_configuration_take_the_place_of_those_in_the_code() -> None:
    code = spec(max_ongoing_requests=7, ray_actor_options={"num_cpus": 2})
    env = {"env_vars": {"A": "1", "B": "1"}, "working_dir": "local:///code"}
    made = building.overridden(
        code,
        declared(
            route_prefix="/x",
            runtime_env=env,
            deployments=[
                {
                    "name": "d",
                    "num_replicas": "auto",
                    "user_config": {"a": 1},
                    "ray_actor_options": {"runtime_env": {"env_vars": {"B": "2"}}},
                }
            ],
        ),
    )
    config = made.deployments["d"].config
    assert made.route_prefix == "/x"
    assert (config.max_ongoing_requests, config.user_config) == (7, {"a": 1})
    assert config.autoscaling_config is not None
    assert config.autoscaling_config.max_replicas == 100
    assert config.ray_actor_options == {
        "runtime_env": {"env_vars": {"A": "1", "B": "2"}, "working_dir": "/code"}
    }
    assert code.deployments["d"].config.num_replicas == 1
    with pytest.raises(ValueError, match=r"'e' does not exist .* \['d'\]"):
        building.overridden(code, declared(deployments=[{"name": "e"}]))
