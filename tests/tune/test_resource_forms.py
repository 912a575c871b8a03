"""What a trial takes, in every form that programs write it in and at every place that takes it (F11.08)."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import ray
from ray import train, tune
from ray.tune import PlacementGroupFactory

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")

TWO = {"CPU": 2.0}
# Form: how it is written, and what all bundles of it take.
FORMS: dict[str, tuple[Any, dict[str, float]]] = {
    "dict": ({"cpu": 2}, TWO),
    "dict as of a bundle": ({"CPU": 2}, TWO),
    "dict with another resource": ({"cpu": 1, "seat": 0.5}, {"CPU": 1.0, "seat": 0.5}),
    "dict with custom_resources": (
        {"cpu": 1, "custom_resources": {"seat": 0.5}},
        {"CPU": 1.0, "seat": 0.5},
    ),
    "factory": (PlacementGroupFactory([{"CPU": 2}]), TWO),
    "factory of two bundles": (PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}]), TWO),
    "factory without a head": (PlacementGroupFactory([{}, {"CPU": 2}]), TWO),
    "factory with a strategy": (PlacementGroupFactory([{"CPU": 2}], strategy="SPREAD"), TWO),
    "function to a dict": (lambda config: {"cpu": config["cpus"]}, TWO),
    "function to a factory": (lambda config: PlacementGroupFactory([{"CPU": config["cpus"]}]), TWO),
    "ScalingConfig": (train.ScalingConfig(num_workers=2), TWO),
    "function to a ScalingConfig": (
        lambda config: train.ScalingConfig(num_workers=config["cpus"]),
        TWO,
    ),
}


@pytest.fixture(scope="module")
def cluster() -> Any:
    ray.shutdown()
    ray.init(num_cpus=2, resources={"seat": 1}, include_dashboard=False)
    yield
    ray.shutdown()


def look(resources: PlacementGroupFactory) -> dict[str, Any]:
    """What a trial is told it has; and whether what it starts finds room there."""
    bundles = resources.bundles if resources.head_bundle_is_empty else resources.bundles[1:]
    wants = [bundle["CPU"] for bundle in bundles]
    children = [ray.remote(lambda: 1).options(num_cpus=cpus).remote() for cpus in wants]
    return {"took": resources.required_resources, "ran": sum(ray.get(children)) == len(wants)}


def function(config: dict[str, Any]) -> None:
    tune.report(look(tune.get_context().get_trial_resources()))


class Steps(tune.Trainable):
    def step(self) -> dict[str, Any]:
        return {**look(self.trial_resources), "done": True}


def requesting(resources: Any) -> type[tune.Trainable]:
    """A class that says by itself what it takes."""

    class Requests(Steps):
        @classmethod
        def default_resource_request(cls, config: dict[str, Any]) -> Any:
            made = resources
            if callable(made) and not isinstance(made, PlacementGroupFactory):
                made = made(config)
            return made

    return Requests


class Named:
    def method(self, config: dict[str, Any]) -> None:
        function(config)


def registered(trainable: Any) -> str:
    tune.register_trainable("by name", trainable)
    return "by name"


SPACE = {"cpus": 2, "x": tune.grid_search([1, 2])}


def by_tuner(trainable: Any, folder: Path) -> list[dict[str, Any]]:
    run = tune.RunConfig(storage_path=str(folder), verbose=0)
    grid = tune.Tuner(trainable, param_space=SPACE, run_config=run).fit()
    assert not grid.errors
    return [result.metrics for result in grid]


def by_run(trainable: Any, folder: Path, resources: Any) -> list[dict[str, Any]]:
    found = tune.run(
        trainable,
        config=SPACE,
        storage_path=str(folder),
        resources_per_trial=resources,
        verbose=0,
    )
    return [trial.last_result for trial in found.trials]


def by_experiment(trainable: Any, folder: Path, resources: Any) -> list[dict[str, Any]]:
    experiment = tune.Experiment(
        "search",
        trainable,
        config=SPACE,
        storage_path=str(folder),
        resources_per_trial=resources,
    )
    return [trial.last_result for trial in tune.run_experiments(experiment, verbose=0)]


def by_spec(trainable: Any, folder: Path, resources: Any) -> list[dict[str, Any]]:
    spec = {
        "run": trainable,
        "config": SPACE,
        "storage_path": str(folder),
        "resources_per_trial": resources,
    }
    return [trial.last_result for trial in tune.run_experiments({"search": spec}, verbose=0)]


PLACES: dict[str, Any] = {
    "with_resources of a function": lambda form, to: by_tuner(
        tune.with_resources(function, form), to
    ),
    "with_resources of a class": lambda form, to: by_tuner(tune.with_resources(Steps, form), to),
    "with_resources over default_resource_request": lambda form, to: by_tuner(
        tune.with_resources(requesting({"cpu": 1}), form), to
    ),
    "with_resources, then with_parameters": lambda form, to: by_tuner(
        tune.with_parameters(tune.with_resources(Steps, form)), to
    ),
    "with_parameters, then with_resources": lambda form, to: by_tuner(
        tune.with_resources(tune.with_parameters(lambda config, n: function(config), n=1), form),
        to,
    ),
    "with_resources of a method": lambda form, to: by_tuner(
        tune.with_resources(Named().method, form), to
    ),
    "with_resources of a registered one": lambda form, to: by_tuner(
        registered(tune.with_resources(function, form)), to
    ),
    "default_resource_request": lambda form, to: by_tuner(requesting(form), to),
    "resources_per_trial of a function": lambda form, to: by_run(function, to, form),
    "resources_per_trial of a class": lambda form, to: by_run(Steps, to, form),
    "Experiment of a function": lambda form, to: by_experiment(function, to, form),
    "Experiment of a class": lambda form, to: by_experiment(Steps, to, form),
    "a spec": lambda form, to: by_spec(function, to, form),
}


# Every form at a place of each kind, and the forms that a place could take for another at every place.
PAIRS = {
    *itertools.product(
        FORMS,
        (
            "with_resources of a function",
            "default_resource_request",
            "resources_per_trial of a class",
        ),
    ),
    *itertools.product(("factory", "function to a factory"), PLACES),
}


@pytest.mark.parametrize(("form", "place"), sorted(PAIRS))
def test_each_form_counts_at_each_place(
    cluster: Any, tmp_path: Path, form: str, place: str
) -> None:
    resources, expected = FORMS[form]
    results = PLACES[place](resources, tmp_path)
    assert [result["took"] for result in results] == [expected, expected]
    assert all(result["ran"] for result in results)


def test_a_restored_search_takes_what_it_took(cluster: Any, tmp_path: Path) -> None:
    """What ``resources_per_trial`` said holds for the trials that are still to come."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def fails_once(config: dict[str, Any]) -> None:
        mark = marks / str(config["x"])
        if not mark.exists():
            mark.touch()
            raise RuntimeError("the first time")
        function(config)

    tune.run(
        fails_once,
        name="search",
        config=SPACE,
        storage_path=str(tmp_path),
        resources_per_trial=PlacementGroupFactory([{"CPU": 2}]),
        raise_on_failed_trial=False,
        verbose=0,
    )
    tuner = tune.Tuner.restore(str(tmp_path / "search"), fails_once, resume_errored=True)
    assert [result.metrics["took"] for result in tuner.fit()] == [TWO, TWO]


@pytest.mark.parametrize("resources", [1, "two", [{"CPU": 1}], None])
def test_what_is_no_form_of_resources_is_refused(resources: Any) -> None:
    for trainable in (function, Steps):
        with pytest.raises(ValueError, match="resources"):
            tune.with_resources(trainable, resources)


@pytest.mark.parametrize("trainable", ["name", 1, int, object()])
def test_resources_are_of_functions_and_trainable_classes(trainable: Any) -> None:
    with pytest.raises(ValueError, match=r"with_resources\(\) only works"):
        tune.with_resources(trainable, {"cpu": 1})


def test_resources_are_said_once(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(tune.TuneError, match="resources_per_trial"):
        by_run(requesting({"cpu": 1}), tmp_path, {"cpu": 2})


def test_a_factory_takes_what_a_placement_group_takes() -> None:
    made = PlacementGroupFactory([{"CPU": 1}], "SPREAD", name="n", lifetime="detached")
    assert made.strategy == "SPREAD"
    for further in ({"strategi": "PACK"}, {"bundles": [{"CPU": 1}]}):
        with pytest.raises((RuntimeError, TypeError)):
            PlacementGroupFactory([{"CPU": 1}], **further)
    with pytest.raises(RuntimeError):
        PlacementGroupFactory([{"CPU": 1}], "PACK", "n", "detached", True, 1, 2, 3, 4)


def test_a_wrong_strategy_is_an_error_where_the_bundles_are_taken(cluster: Any) -> None:
    wrong = PlacementGroupFactory([{"CPU": 1}], strategy="SPRAED")
    with pytest.raises(ValueError, match="Invalid placement group strategy SPRAED"):
        wrong()


@pytest.mark.heliostat_only("Ray's fit() ends with a KeyError of its own")
@pytest.mark.parametrize("bundles", [1, 2])
def test_no_search_begins_with_a_wrong_strategy(cluster: Any, tmp_path: Path, bundles: int) -> None:
    wrong = PlacementGroupFactory([{"CPU": 1}] * bundles, strategy="SPRAED")
    words = "Invalid placement group strategy SPRAED.*PACK, SPREAD"
    with pytest.raises(ValueError, match=words):
        by_tuner(tune.with_resources(function, wrong), tmp_path)
    with pytest.raises(ValueError, match=words):
        by_run(function, tmp_path, wrong)
