"""Trials whose resources differ, or change while they run (contract F11.08)."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle
import pytest
import ray
from heliostat.tune.runner.search import CONTINUE, PAUSE
from ray import tune
from ray.tune.schedulers import ResourceChangingScheduler, create_scheduler
from ray.tune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
)

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


@pytest.fixture
def running(search: Any) -> Any:
    """``running(scheduler, count, cpus)``: a search on so many CPUs, and its trials, which all run."""

    def running(
        scheduler: Any, count: int, cpus: float, base: Any = None, **options: Any
    ) -> list[Any]:
        machine = search(count, scheduler, **options)
        machine.total_resources = lambda: {"CPU": cpus, "GPU": 4.0}
        machine.resources_of = lambda trial: tune.PlacementGroupFactory(base or [{"CPU": 1}])
        trials = []
        for _ in range(count):
            trial = machine.choose()
            machine.started(trial)
            trials.append(trial)
        return [machine, *trials]

    return running


def report(machine: Any, trial: Any, score: float = 1.0) -> str:
    """A report; who is paused starts again."""
    result = {"training_iteration": 1, "score": score}
    decision: str = machine.reported(trial, result)
    if decision == PAUSE:
        machine.paused(trial)
        assert machine.choose() is trial
        machine.started(trial)
    return decision


def cpus(trial: Any) -> list[float]:
    return [bundle.get("CPU", 0) for bundle in trial.placement_group_factory.bundles]


def test_free_cpus_are_shared(running: Any) -> None:
    machine, *trials = running(create_scheduler("resource_changing"), 3, 8)
    assert [report(machine, trial) for trial in trials] == [PAUSE, PAUSE, PAUSE]
    assert [cpus(trial) for trial in trials] == [[3], [3], [2]]
    assert [report(machine, trial) for trial in trials] == [CONTINUE] * 3
    machine.completed(trials[0])
    assert report(machine, trials[1]) == PAUSE
    assert cpus(trials[1]) == [4]


def test_bundles_are_added_up_to_a_bound(running: Any) -> None:
    share = DistributeResources(
        add_bundles=True,
        increase_by={"CPU": 2},
        increase_by_times=2,
        reserve_resources={"CPU": 1},
    )
    machine, trial = running(ResourceChangingScheduler(None, share), 1, 10)
    assert report(machine, trial) == PAUSE
    assert cpus(trial) == [1, 2, 2]
    assert report(machine, trial) == CONTINUE


def test_the_bound_counts_where_the_step_is_the_usual_one(running: Any) -> None:
    for share, expected in (
        (DistributeResources(increase_by_times=3), [4]),
        (DistributeResources(add_bundles=True, increase_by_times=2), [1, 1, 1]),
    ):
        machine, trial = running(ResourceChangingScheduler(None, share), 1, 10)
        assert report(machine, trial) == PAUSE
        assert cpus(trial) == expected
        assert report(machine, trial) == CONTINUE


def test_what_is_too_much_is_given_back(running: Any) -> None:
    machine, trial = running(ResourceChangingScheduler(), 1, 6)
    assert report(machine, trial) == PAUSE
    assert cpus(trial) == [6]
    machine.total_resources = lambda: {"CPU": 4.0}
    assert report(machine, trial) == PAUSE
    assert cpus(trial) == [4]


def test_gpus_are_shared_where_trials_use_them(running: Any) -> None:
    machine, trial = running(ResourceChangingScheduler(), 1, 8, base=[{"CPU": 1, "GPU": 1}])
    assert report(machine, trial) == PAUSE
    assert trial.placement_group_factory.bundles == [{"CPU": 1.0, "GPU": 4.0}]


@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_best_gets_what_is_free(running: Any, mode: str) -> None:
    share = DistributeResourcesToTopJob(metric="score", mode=mode)
    machine, first, second = running(ResourceChangingScheduler(None, share), 2, 6)
    good, bad = (2.0, 1.0) if mode == "max" else (1.0, 2.0)
    second.last_result = {"score": good}
    assert report(machine, first, bad) == CONTINUE
    assert report(machine, second, good) == PAUSE
    assert (cpus(first), cpus(second)) == ([1], [5])


def test_the_other_scheduler_decides_first(running: Any) -> None:
    base = tune.schedulers.ASHAScheduler(max_t=1)
    machine, trial = running(ResourceChangingScheduler(base), 1, 6)
    assert report(machine, trial) == "STOP"
    assert "AsyncHyperBand" in machine.scheduler.debug_string()
    assert machine.scheduler.metric == "score"


def test_what_cannot_be_shared_is_said(running: Any, search: Any) -> None:
    two = [{"CPU": 1}, {"CPU": 1}]
    machine, trial = running(ResourceChangingScheduler(), 1, 6, base=two)
    with pytest.raises(ValueError, match="add_bundles"):
        report(machine, trial)
    with pytest.raises(ValueError, match="increase_by"):
        DistributeResources(increase_by={"memory": 1})
    with pytest.warns(UserWarning, match="resources_allocation_function"):
        ResourceChangingScheduler(None, None)
    top = ResourceChangingScheduler(None, DistributeResourcesToTopJob())
    machine, trial = running(top, 1, 6, metric=None)
    with pytest.raises(ValueError, match="metric"):
        report(machine, trial)
    machine, trial = running(ResourceChangingScheduler(), 1, 6)
    machine.reuses_actors = True
    with pytest.raises(ValueError, match="reuse_actors"):
        report(machine, trial)
    machine = search(2, ResourceChangingScheduler())
    machine.resources_of = lambda trial: tune.PlacementGroupFactory(
        [{"CPU": trial.config["n"] + 1}]
    )
    machine.started(machine.choose())
    with pytest.raises(RuntimeError, match="same resources"):
        machine.choose()


class Counts(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        cpus = self.trial_resources.required_resources["CPU"]
        lent = ray.get_runtime_context().get_assigned_resources()["CPU"]
        return {"score": self.count, "cpus": cpus, "lent": lent, "done": self.count == 4}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]


def test_a_trial_goes_on_with_more(fit: Any) -> None:
    total = ray.cluster_resources()["CPU"]
    (result,) = fit(Counts, {}, scheduler=ResourceChangingScheduler())
    assert result.metrics["score"] == 4, "it lost nothing when it was paused"
    assert result.metrics["cpus"] == result.metrics["lent"] == total


def test_trials_of_different_sizes_follow_each_other(fit: Any) -> None:
    """A process that waits for another trial of its size gives way to a larger one."""
    total = int(ray.cluster_resources()["CPU"])

    def trainable(config: dict[str, Any]) -> None:
        tune.report({"score": config["cpus"]})

    sized = tune.with_resources(trainable, lambda config: {"cpu": config["cpus"]})
    grid = fit(sized, {"cpus": tune.grid_search([1, total, 1, total])})
    assert [result.metrics["score"] for result in grid] == [1, total, 1, total]


@ray.remote
class Other:
    """Uses a part of the cluster for as long as it lives."""

    def begun(self) -> bool:
        return True


def test_an_idle_process_gives_way_to_a_trial_that_cannot_begin(fit: Any) -> None:
    """The cluster would have room for both, were it not for somebody else."""
    total = int(ray.cluster_resources()["CPU"])
    other = Other.options(num_cpus=total - 1).remote()
    ray.get(other.begun.remote())

    def trainable(config: dict[str, Any]) -> None:
        tune.report({"score": config["n"]})

    grid = fit(trainable, {"n": tune.grid_search([1, 2])})
    assert [result.metrics["score"] for result in grid] == [1, 2]
    ray.kill(other)
