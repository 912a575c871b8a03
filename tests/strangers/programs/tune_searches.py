"""Tune: searches, schedulers, results, checkpoints, failures."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, TuneConfig

from tests.strangers.kit import main, raised, stranger

CLUSTER = {"num_cpus": 4}


def storage() -> str:
    """A new folder for a search."""
    return tempfile.mkdtemp(dir=os.getcwd())


def score(config: dict[str, Any]) -> None:
    tune.report({"score": config["x"] ** 2})


@stranger("docs: Tune getting started", [9, {"x": 3}, 4])
def a_grid() -> object:
    """grid_search over four values, the best one by its metric."""
    grid = tune.Tuner(
        score,
        param_space={"x": tune.grid_search([0, 1, 2, 3])},
        tune_config=TuneConfig(metric="score", mode="max"),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    best = grid.get_best_result()
    return [best.metrics["score"], best.config, len(grid)]


@stranger("docs: Search spaces", [12, True, True])
def a_grid_and_samples() -> object:
    """grid_search with num_samples multiplies; sampled values lie where they should."""
    seen = tune.Tuner(
        lambda config: tune.report({"score": 0}),
        param_space={
            "a": tune.grid_search([1, 2]),
            "b": tune.grid_search(["x", "y"]),
            "c": tune.uniform(0, 1),
            "d": tune.choice([5]),
            "e": tune.sample_from(lambda spec: spec.config.a * 10),
        },
        tune_config=TuneConfig(num_samples=3),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    configs = [r.config for r in seen]
    return [
        len(configs),
        all(0 <= c["c"] <= 1 and c["d"] == 5 for c in configs),
        all(c["e"] == c["a"] * 10 for c in configs),
    ]


@stranger("ray#23812", [2.0, False])
def nan_is_not_the_best() -> object:
    """A trial that reports NaN is not the best one."""

    def train(config: dict[str, Any]) -> None:
        tune.report({"reward": config["r"]})

    grid = tune.Tuner(
        train,
        param_space={"r": tune.grid_search([float("nan"), 1.0, 2.0])},
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    best = grid.get_best_result("reward", "max").metrics["reward"]
    return [best, math.isnan(best)]


@stranger("docs: Tune, results without a metric", ["raises", "raises"])
def a_best_result_of_no_metric() -> object:
    """get_best_result without a metric, or with one that nobody reported, is an error in words."""
    grid = tune.Tuner(
        score,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    raised(lambda: grid.get_best_result())
    raised(lambda: grid.get_best_result("loss", "min"))
    return ["raises", "raises"]


@stranger("docs: Tune, failures", [1, 1, "ValueError", True])
def a_trial_that_fails() -> object:
    """One trial raises: the other's result is there, and the error is kept with the result."""

    def train(config: dict[str, Any]) -> None:
        if config["x"] == 1:
            raise ValueError("one is bad")
        tune.report({"score": config["x"]})

    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    [error] = grid.errors
    return [
        grid.num_errors,
        grid.num_terminated,
        "ValueError" if "ValueError" in repr(error) + str(error) else repr(error),
        grid.get_best_result("score", "max").metrics["score"] == 2,
    ]


@stranger("docs: Tune, fault tolerance", [3, 0])
def a_trial_that_is_tried_again() -> object:
    """max_failures=2: the trial goes on from its checkpoint and ends well."""
    marks = Path(storage())

    def train(config: dict[str, Any]) -> None:
        start = 0
        checkpoint = tune.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                start = json.loads(Path(folder, "state.json").read_text())["i"] + 1
        for i in range(start, 3):
            if i == 1 and not (marks / "failed").exists():
                (marks / "failed").write_text("")
                raise RuntimeError("once")
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "state.json").write_text(json.dumps({"i": i}))
                tune.report(
                    {"i": i, "done_here": i + 1}, checkpoint=Checkpoint.from_directory(folder)
                )

    grid = tune.Tuner(
        train,
        run_config=RunConfig(storage_path=storage(), failure_config=FailureConfig(max_failures=2)),
    ).fit()
    return [grid[0].metrics["done_here"], grid.num_errors]


@stranger("docs: Tune, trial checkpoints", [2, [0.9, 0.8], 0.9])
def the_best_checkpoints_are_kept() -> object:
    """num_to_keep=2 by a score: the two best are kept, the best is found."""

    def train(config: dict[str, Any]) -> None:
        for value in (0.9, 0.1, 0.8, 0.3):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "v").write_text(str(value))
                tune.report({"acc": value}, checkpoint=Checkpoint.from_directory(folder))

    keep = CheckpointConfig(
        num_to_keep=2, checkpoint_score_attribute="acc", checkpoint_score_order="max"
    )
    result = tune.Tuner(
        train, run_config=RunConfig(storage_path=storage(), checkpoint_config=keep)
    ).fit()[0]
    kept = sorted((m["acc"] for _, m in result.best_checkpoints), reverse=True)
    best = result.get_best_checkpoint("acc", "max")
    with best.as_directory() as folder:
        return [len(kept), kept, float(Path(folder, "v").read_text())]


@stranger("ray#44256", [True, 10])
def asha_stops_the_bad_ones() -> object:
    """ASHA stops some trials early; the best one runs to its end."""
    from ray.tune.schedulers import ASHAScheduler

    def train(config: dict[str, Any]) -> None:
        for i in range(10):
            tune.report({"acc": config["x"] * (i + 1)})

    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([8, 7, 6, 5, 4, 3, 2, 1])},
        tune_config=TuneConfig(
            metric="acc",
            mode="max",
            scheduler=ASHAScheduler(max_t=10, grace_period=1, reduction_factor=2),
            max_concurrent_trials=1,
        ),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    lengths = [r.metrics["training_iteration"] for r in grid]
    return [min(lengths) < 10, grid.get_best_result().metrics["training_iteration"]]


@stranger("ray#7011", [0, True])
def hyperband_with_functions() -> object:
    """HyperBand over a function that saves checkpoints: no trial fails."""
    from ray.tune.schedulers import HyperBandScheduler

    def train(config: dict[str, Any]) -> None:
        start = 0
        checkpoint = tune.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                start = int(Path(folder, "i").read_text()) + 1
        for i in range(start, 9):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "i").write_text(str(i))
                tune.report({"acc": config["x"] * i}, checkpoint=Checkpoint.from_directory(folder))

    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 2, 3, 4])},
        tune_config=TuneConfig(
            metric="acc", mode="max", scheduler=HyperBandScheduler(max_t=9, reduction_factor=3)
        ),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    return [grid.num_errors, grid.get_best_result().config["x"] >= 3]


@stranger("docs: Population based training", [0, True])
def population_based_training() -> object:
    """PBT exploits: weak trials take over a strong one's checkpoint, and the metric rises."""
    from ray.tune.schedulers import PopulationBasedTraining

    def train(config: dict[str, Any]) -> None:
        total, step = 0.0, 0
        checkpoint = tune.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                state = json.loads(Path(folder, "s").read_text())
                total, step = state["total"], state["step"]
        while step < 8:
            total += config["lr"]
            step += 1
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "s").write_text(json.dumps({"total": total, "step": step}))
                tune.report({"total": total}, checkpoint=Checkpoint.from_directory(folder))

    grid = tune.Tuner(
        train,
        param_space={"lr": tune.grid_search([0.1, 1.0])},
        tune_config=TuneConfig(
            metric="total",
            mode="max",
            scheduler=PopulationBasedTraining(
                perturbation_interval=2, hyperparam_mutations={"lr": [0.1, 1.0]}
            ),
        ),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    return [grid.num_errors, grid.get_best_result().metrics["total"] >= 4]


@stranger("docs: Tune, stopping", [[3, 3], [5, 5]])
def stopping_a_search() -> object:
    """stop by a number of iterations, and by a function."""

    def train(config: dict[str, Any]) -> None:
        for i in range(100):
            tune.report({"v": i + 1})

    def run(stop: Any) -> list[int]:
        grid = tune.Tuner(
            train,
            param_space={"x": tune.grid_search([1, 2])},
            run_config=RunConfig(storage_path=storage(), stop=stop),
        ).fit()
        return [r.metrics["v"] for r in grid]

    return [run({"training_iteration": 3}), run(lambda trial_id, result: result["v"] >= 5)]


@stranger("docs: Tune, class trainables", [10, 5])
def a_class_trainable() -> object:
    """setup, step, save_checkpoint, load_checkpoint of a class."""

    class Counter(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.value = config["start"]

        def step(self) -> dict[str, Any]:
            self.value += 1
            return {"value": self.value, "done": self.value >= 10}

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            Path(checkpoint_dir, "v").write_text(str(self.value))

        def load_checkpoint(self, checkpoint_dir: str) -> None:
            self.value = int(Path(checkpoint_dir, "v").read_text())

    result = tune.Tuner(
        Counter,
        param_space={"start": 5},
        run_config=RunConfig(
            storage_path=storage(), checkpoint_config=CheckpointConfig(checkpoint_at_end=True)
        ),
    ).fit()[0]
    return [result.metrics["value"], result.metrics["training_iteration"]]


@stranger("ray#40647", [[1, 4], 2])
def results_can_be_read_again() -> object:
    """Tuner.restore of a finished search gives its results."""
    folder = storage()
    tune.Tuner(
        score,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=folder, name="search"),
    ).fit()
    path = os.path.join(folder, "search")
    assert tune.Tuner.can_restore(path)
    grid = tune.Tuner.restore(path, trainable=score).get_results()
    return [sorted(r.metrics["score"] for r in grid), len(grid.get_dataframe())]


@stranger("docs: Tune, with_parameters and with_resources", [1_000_000, 0.5])
def large_parameters_and_resources() -> object:
    """with_parameters hands a large object to all trials; with_resources says what a trial takes."""
    import numpy as np

    def train(config: dict[str, Any], data: Any) -> None:
        cpus = ray.get_runtime_context().get_assigned_resources().get("CPU")
        tune.report({"n": int(data.sum()), "cpus": cpus})

    trainable = tune.with_resources(
        tune.with_parameters(train, data=np.ones(1_000_000)), {"cpu": 0.5}
    )
    result = tune.Tuner(trainable, run_config=RunConfig(storage_path=storage())).fit()[0]
    return [result.metrics["n"], result.metrics["cpus"]]


@stranger("docs: tune.run, the older way", [4, {"x": 2}, 2])
def the_older_way() -> object:
    """tune.run with config, metric and mode; ExperimentAnalysis."""
    analysis = tune.run(
        score,
        config={"x": tune.grid_search([1, 2])},
        metric="score",
        mode="max",
        storage_path=storage(),
        verbose=0,
    )
    return [analysis.best_result["score"], analysis.best_config, len(analysis.trials)]


@stranger("forum: a search that returns instead of reporting", [25])
def a_function_that_returns_its_result() -> object:
    """A trainable may return its metrics."""

    def train(config: dict[str, Any]) -> dict[str, Any]:
        return {"score": config["x"] ** 2}

    grid = tune.Tuner(
        train, param_space={"x": 5}, run_config=RunConfig(storage_path=storage())
    ).fit()
    return [grid[0].metrics["score"]]


@stranger("forum: ray.air.session in a trial", [[1, 4], True])
def the_older_session() -> object:
    """Older programs report by ``ray.air.session``, and ask it for the trial's id."""

    def train(config: dict[str, Any]) -> None:
        from ray.air import session

        assert session.get_checkpoint() is None
        session.report({"score": config["x"] ** 2, "named": bool(session.get_trial_id())})

    grid = tune.Tuner(
        train,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    return [[r.metrics["score"] for r in grid], all(r.metrics["named"] for r in grid)]


@stranger("docs: Tune, callbacks", [["trial", "trial"], 2])
def a_callback() -> object:
    """Callbacks hear of each result and of each trial's end."""

    class Told(tune.Callback):
        def __init__(self) -> None:
            self.results: list[str] = []
            self.ends = 0

        def on_trial_result(
            self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
        ) -> None:
            self.results.append("trial")

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            self.ends += 1

    told = Told()
    tune.Tuner(
        score,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=storage(), callbacks=[told]),
    ).fit()
    return [told.results[:2], told.ends]


@stranger("docs: Tune, Optuna", [True, 8], needs=("optuna",))
def a_search_by_optuna() -> object:
    """OptunaSearch suggests within the space, as many as asked for."""
    from ray.tune.search import ConcurrencyLimiter
    from ray.tune.search.optuna import OptunaSearch

    grid = tune.Tuner(
        score,
        param_space={"x": tune.uniform(-1, 1)},
        tune_config=TuneConfig(
            metric="score",
            mode="min",
            num_samples=8,
            search_alg=ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=2),
        ),
        run_config=RunConfig(storage_path=storage()),
    ).fit()
    return [all(-1 <= r.config["x"] <= 1 for r in grid), len(grid)]


@stranger("ray#40491", [True, [1, 4]], cluster=CLUSTER)
def a_search_can_be_restored_from_its_storage() -> object:
    """The folder in storage has all that Tuner.restore wants, and get_results() needs no fit()."""
    folder = storage()
    tune.Tuner(
        score,
        param_space={"x": tune.grid_search([1, 2])},
        run_config=RunConfig(storage_path=folder, name="kept", verbose=0),
    ).fit()
    path = os.path.join(folder, "kept")
    restored = tune.Tuner.restore(path, trainable=score)
    scores = sorted(result.metrics["score"] for result in restored.get_results())
    return [tune.Tuner.can_restore(path), scores]


if __name__ == "__main__":
    main()
