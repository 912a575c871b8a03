"""Smaller things that Ray's own tests ask of searches: spaces, trials, experiments, results and errors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune import CheckpointConfig, RunConfig, TuneConfig, Tuner
from ray.tune.experiment import Experiment, Trial
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    TrialScheduler,
)
from ray.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Searcher, SearchGenerator
from ray.tune.search.variant_generator import RecursiveDependencyError, generate_variants
from ray.tune.stopper import ExperimentPlateauStopper

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.01", "F11.04")


def configs(space: dict[str, Any]) -> list[dict[str, Any]]:
    return [config for _, config in generate_variants(space)]


def nothing(config: dict[str, Any]) -> None:
    pass


# --- spaces ---


def test_grids_go_by_name_and_not_by_their_place_in_the_space() -> None:
    space = {"z": tune.grid_search([1, 2]), "a": tune.grid_search([3, 4])}
    found = [(config["z"], config["a"]) for config in configs(space)]
    assert found == [(1, 3), (1, 4), (2, 3), (2, 4)]
    nested = {"b": [tune.grid_search([1, 2])], "a": {"c": tune.grid_search([3, 4])}}
    assert [config["b"][0] for config in configs(nested)] == [1, 1, 2, 2]


def test_functions_of_a_whole_spec_and_expressions() -> None:
    whole = {"config": {"x": tune.grid_search([1, 2]), "y": tune.sample_from(lambda s: s.config.x)}}
    assert [config["config"]["y"] for config in configs(whole)] == [1, 2]
    assert configs({"a": 2, "b": {"eval": "spec.a * 3"}}) == [{"a": 2, "b": 6}]
    # Two keys, or no text, are no expression.
    assert configs({"b": {"eval": "1", "c": 2}, "d": {"eval": 1}})[0]["b"] == {"eval": "1", "c": 2}


def test_what_is_not_there_is_no_recursion() -> None:
    with pytest.raises(ValueError, match="not there"):
        configs({"a": tune.sample_from(lambda spec: spec.nothing)})
    both = {"a": tune.sample_from(lambda s: s.b), "b": tune.sample_from(lambda s: s.a)}
    with pytest.raises(RecursiveDependencyError):
        configs(both)


def test_points_are_tried_however_few_samples_there_are() -> None:
    tune.register_trainable("points", nothing)
    algorithm = BasicVariantGenerator(points_to_evaluate=[{"a": 5}, {"b": 2}])
    space = {"a": tune.grid_search([5, 6]), "b": tune.choice([7])}
    algorithm.add_configurations(Experiment("e", run="points", config=space))
    assert algorithm.total_samples == 3
    found = [trial.config for trial in iter(algorithm.next_trial, None)]
    assert found == [{"a": 5, "b": 7}, {"a": 5, "b": 2}, {"a": 6, "b": 2}]
    assert algorithm.is_finished()


def test_a_generator_holds_back_what_may_not_run() -> None:
    algorithm = BasicVariantGenerator(max_concurrent=2)
    algorithm.add_configurations(Experiment("e", run=nothing, num_samples=4))
    first, second, third = (algorithm.next_trial() for _ in range(3))
    assert first
    assert second
    assert third is None
    algorithm.on_trial_complete(first.trial_id)
    assert algorithm.next_trial() is not None
    algorithm.on_trial_complete(second.trial_id)
    algorithm.set_finished()
    assert algorithm.next_trial() is None


class Counting(Searcher):
    def __init__(self) -> None:
        super().__init__("m", "max")
        self.count = 0
        self.properties: dict[str, Any] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        self.properties = spec
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        self.count += 1
        return {"x": self.count}


def test_a_limiter_tells_which_suggestions_are_open() -> None:
    limited = ConcurrencyLimiter(Counting(), max_concurrent=2)
    assert [limited.suggest(name) is None for name in "abc"] == [False, False, True]
    assert limited.live_trials == {"a", "b"}
    limited.on_trial_complete("a", {"m": 1})
    assert limited.live_trials == {"b"}


def test_tags_of_suggestions_name_the_constants() -> None:
    generator = SearchGenerator(Counting())
    generator.add_configurations(Experiment("e", run=nothing, config={"k": 1}, num_samples=1))
    trial = generator.next_trial()
    assert trial is not None
    assert (trial.experiment_tag, trial.evaluated_params) == ("1_k=1,x=1", {"x": 1})


# --- what is refused ---


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (AsyncHyperBandScheduler, {"max_t": 0}),
        (AsyncHyperBandScheduler, {"max_t": 1, "grace_period": 2}),
        (AsyncHyperBandScheduler, {"mode": "most"}),
        (HyperBandScheduler, {"max_t": 0}),
        (MedianStoppingRule, {"mode": "most"}),
        (PopulationBasedTraining, {"hyperparam_mutations": {"a": [1]}, "mode": "most"}),
        (Searcher, {"metric": "a", "mode": "most"}),
        (Searcher, {"metric": 3, "mode": "min"}),
        (tune.randn, {"sd": 0}),
        (ConcurrencyLimiter, {"searcher": Counting(), "max_concurrent": 0}),
        (SearchGenerator, {"searcher": 3}),
    ],
)
def test_programs_for_either_catch_the_errors_of_arguments(make: Any, given: Any) -> None:
    for kind in (ValueError, AssertionError):
        with pytest.raises(kind):
            make(**given)


def test_a_plateau_needs_numbers_and_as_many_results_as_patience() -> None:
    with pytest.raises(ValueError, match="std"):
        ExperimentPlateauStopper("m", std="0")  # type: ignore[arg-type] # that is refused
    stopper = ExperimentPlateauStopper("m", top=3, patience=2)
    found = [stopper(str(n), {"m": 0.0}) for n in range(5)]
    assert found == [False, False, False, True, True]
    assert stopper.has_plateaued()


class ByHand:
    """What drives a scheduler without a search."""

    def __init__(self, scheduler: TrialScheduler, count: int) -> None:
        self.scheduler = scheduler
        self.trials = [Trial("f", trial_id=f"t{n}") for n in range(count)]
        for trial in self.trials:
            scheduler.on_trial_add(self, trial)  # type: ignore[arg-type] # as Ray's tests do
            trial.set_status(Trial.RUNNING)

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def report(self, number: int, time: float, value: float) -> str:
        result = {"time_total_s": time, "training_iteration": time, "m": value}
        return self.scheduler.on_trial_result(self, self.trials[number], result)  # type: ignore[arg-type]

    def complete(self, number: int, time: float, value: float) -> None:
        result = {"time_total_s": time, "m": value}
        self.scheduler.on_trial_complete(self, self.trials[number], result)  # type: ignore[arg-type]


def test_the_median_counts_last_results_and_no_infinite_ones() -> None:
    rule = MedianStoppingRule(metric="m", mode="max", grace_period=0, min_samples_required=2)
    hand = ByHand(rule, 4)
    hand.report(0, 1, 100)
    hand.complete(0, 9, 100)  # reaches as far as what is judged by this alone
    hand.report(1, 1, float("inf"))
    hand.report(1, 9, float("inf"))
    assert hand.report(3, 5, 1) == TrialScheduler.CONTINUE, "one finite mean is too few"
    hand.report(2, 1, 300)
    hand.report(2, 9, 300)
    assert hand.report(3, 6, 1) == TrialScheduler.STOP
    soft = ByHand(MedianStoppingRule(metric="m", mode="max", grace_period=0, hard_stop=False), 4)
    for number in range(3):
        soft.report(number, 1, 5)
        soft.report(number, 9, 5)
    assert [soft.report(3, time, 1) for time in (1, 2)] == ["PAUSE", "CONTINUE"]


def test_hyperband_is_driven_by_hand() -> None:
    hand = ByHand(HyperBandScheduler(metric="m", mode="max", max_t=9), 3)
    assert [hand.report(n, 1, n) for n in range(3)] == ["CONTINUE"] * 3


# --- trials and experiments ---


def test_trials_are_made_with_what_experiments_say() -> None:
    trial = Trial(
        "f",
        trial_id="t",
        config={"env": "Cart/Pole"},
        checkpoint_config=CheckpointConfig(checkpoint_frequency=3),
        max_failures=2,
        trial_dirname_creator=lambda made: f"of_{made.trial_id}",
    )
    assert (str(trial), trial.default_folder()) == ("f_Cart_Pole_t", "of_t")
    assert (trial.checkpoint_freq, trial.checkpoint_at_end) == (3, False)
    trial.update_last_result({"training_iteration": 3})
    assert trial.should_checkpoint()
    assert trial.has_reported_at_least_once
    trial.num_failures = 3
    assert not trial.should_recover()
    trial.set_config({"a": 1})
    assert trial.config == {"a": 1}
    assert str(Trial("f", trial_name_creator=lambda made: f"{made.trainable_name}!")) == "f!"
    with pytest.raises(ValueError, match="no '/'"):
        Trial("f", trial_dirname_creator=lambda made: "a/b")
    with pytest.raises(ValueError, match="searcher"):
        SearchGenerator(None)  # type: ignore[arg-type] # that is refused


def test_experiments_tell_what_they_were_made_of() -> None:
    tune.register_trainable("told", nothing)
    stop = {"m": 3}
    one = Experiment("n", run="told", stop=stop, config={"x": 1}, num_samples=3, log_to_file=True)
    assert (one.spec["run"], one.spec["stop"], one.spec["config"]) == ("told", stop, {"x": 1})
    assert one.spec["log_to_file"] == ("stdout", "stderr")
    assert one.stopper is None
    assert Experiment("n", run="told").stopper is None
    timed = Experiment("n", run="told", stop=stop, time_budget_s=3)
    assert type(timed.stopper).__name__ == "TimeoutStopper"
    assert one.remote_path == one.path
    for name in ("local_dir", "checkpoint_dir"):
        with pytest.raises(DeprecationWarning, match="local_path"):
            getattr(one, name)
    assert Experiment.register_if_needed(nothing) == "nothing"
    assert Experiment("n", run="nothing").run_identifier == "nothing"
    with pytest.raises(tune.TuneError, match="neither"):
        Experiment.get_trainable_name(3)
    with pytest.raises(TypeError, match="inherit"):
        Experiment("n", run=type("A", (), {}))
    with pytest.raises(ValueError, match="config must be a dict"):
        Experiment("n", run="told", config=3)  # type: ignore[arg-type] # that is refused
    with_env = Experiment.from_json("n", {"run": "told", "env": "E", "config": {"a": 1}})
    assert with_env.spec["config"] == {"a": 1, "env": "E"}
    assert Experiment("", run="told").name.startswith("told_")


# --- searches ---


def run(trainable: Any, folder: Path, space: Any = None, **asked: Any) -> tune.ResultGrid:
    config = RunConfig(name=asked.pop("name", "it"), storage_path=str(folder), verbose=0)
    return Tuner(
        trainable, param_space=space, tune_config=TuneConfig(**asked), run_config=config
    ).fit()


def reports(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in range(3):
        yield {"m": config.get("a", 1) * (step + 1)}


class Steps(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.fails = config.get("fails")

    def step(self) -> dict[str, Any]:
        if self.iteration == 2 and self.fails and not Path(self.fails).exists():
            Path(self.fails).touch()
            raise RuntimeError("once")
        return {"timesteps_this_iter": 3, "episodes_this_iter": 2, "done": self.iteration >= 3}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        pass


def test_steps_and_episodes_are_summed_up_across_failures(ray_start: Any, tmp_path: Path) -> None:
    (row,) = tune.run(
        Steps,
        config={"fails": str(tmp_path / "failed")},
        storage_path=str(tmp_path),
        max_failures=1,
        checkpoint_freq=1,
        verbose=0,
    ).results.values()
    assert (tmp_path / "failed").exists()
    assert (row["timesteps_total"], row["episodes_total"]) == (12, 8)
    assert row["timesteps_since_restore"] == 6
    by_hand = Steps()
    assert [by_hand.train()["timesteps_total"] for _ in range(2)] == [3, 6]
    again = Steps()
    again.restore(by_hand.save())
    assert again.train()["timesteps_total"] == 9


def test_results_by_slices_halves_of_filters_and_folders(ray_start: Any, tmp_path: Path) -> None:
    grid = run(reports, tmp_path, {"a": tune.grid_search([1, 2, 3])}, metric="m", mode="max")
    assert [one.config["a"] for one in grid[1:]] == [2, 3]
    assert [one.config["a"] for one in grid[::-1]] == [3, 2, 1]
    assert list(grid.get_dataframe(filter_metric="m")["m"]) == [3, 6, 9]
    with pytest.raises(ValueError, match="mode='most'"):
        grid.get_dataframe(filter_metric="m", filter_mode="most")
    assert "experiment_tag" not in grid[0].metrics_dataframe
    with pytest.raises(RuntimeError, match="no checkpoint"):
        grid[0].get_best_checkpoint("m", "max")
    read = tune.Result.from_path(grid[2].path)
    assert read.metrics is not None
    assert read.metrics["m"] == 9
    assert (read.config, read.error, read.checkpoint) == ({"a": 3}, None, None)
    assert list(read.metrics_dataframe["m"]) == [3, 6, 9]
    for kind in (ValueError, FileNotFoundError):
        with pytest.raises(kind, match="no search"):
            Tuner.restore(str(tmp_path / "nothing"), trainable=reports)


def test_trials_whose_folders_have_one_name_do_not_share_it(ray_start: Any, tmp_path: Path) -> None:
    space = {"a": tune.grid_search([1, 2])}
    grid = run(reports, tmp_path, space, trial_dirname_creator=lambda trial: "same")
    assert len({one.path for one in grid}) == 2
    assert [one.metrics_dataframe["m"].max() for one in grid] == [3, 6]


def test_resources_and_parameters_are_bound_in_either_order(ray_start: Any, tmp_path: Path) -> None:
    def takes(config: dict[str, Any], extra: int = 0) -> dict[str, Any]:
        resources = tune.get_context().get_trial_resources()
        return {"cpus": resources.required_resources["CPU"], "extra": extra}

    inner = tune.with_resources(takes, {"cpu": 2})
    outer = tune.with_resources(tune.with_parameters(takes, extra=3), {"cpu": 2})
    for number, trainable in enumerate((tune.with_parameters(inner, extra=3), outer)):
        (result,) = run(trainable, tmp_path, name=str(number))
        assert result.metrics is not None
        assert (result.metrics["cpus"], result.metrics["extra"]) == (2, 3)


def test_several_experiments_in_one_call(ray_start: Any, tmp_path: Path) -> None:
    made = [
        Experiment(name, run=reports, config={"a": a}, storage_path=str(tmp_path))
        for name, a in (("one", 1), ("two", 2))
    ]
    analysis = tune.run(made, metric="m", mode="max", verbose=0)
    assert [trial.last_result["m"] for trial in analysis.trials] == [3, 6]
    assert analysis.best_config == {"a": 2}
    with pytest.raises(tune.TuneError, match="nothing to run"):
        tune.run([])


def test_searchers_hear_of_the_search_and_limits_below_one_are_none(
    ray_start: Any, tmp_path: Path
) -> None:
    searcher = Counting()
    run(reports, tmp_path, search_alg=searcher, num_samples=2, max_concurrent_trials=-1)
    assert searcher.properties == {"stop": {}, "num_samples": 2, "time_budget_s": None}


def test_what_cannot_be_pickled_is_a_type_error(ray_start: Any, tmp_path: Path) -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"param_space\['lock'\], a lock"):
        run(reports, tmp_path, {"lock": lock})

    def holds(config: dict[str, Any]) -> None:
        print(lock)

    with pytest.raises(TypeError):
        run(holds, tmp_path, name="closure")


class Counts(tune.Trainable):
    def step(self) -> dict[str, Any]:
        return {"score": self.iteration, "done": self.iteration >= 4, "timesteps_this_iter": 5}


def test_steps_in_batches_and_what_a_trainable_says_of_itself() -> None:
    steps = Counts()
    assert len(steps.train_buffered(60.0, max_buffer_length=2)) == 2
    assert len(steps.train_buffered(0.0)) == 1
    assert [row["score"] for row in steps.train_buffered(60.0)] == [3, 4]  # it is done
    state = steps.get_state()
    assert (state["iteration"], state["timesteps_total"]) == (5, 25)
    assert state["last_result"]["score"] == 4
    assert steps.get_current_ip_pid()[1] == os.getpid()
    assert not steps.is_actor()


def test_schedulers_say_how_they_stand() -> None:
    assert FIFOScheduler().supports_buffered_results
    bands = HyperBandScheduler(metric="score", mode="max")
    assert not bands.supports_buffered_results
    assert bands.state() == {"num_brackets": 0, "num_stopped": 0}
    population = PopulationBasedTraining(
        metric="score", mode="min", hyperparam_mutations={"x": [1, 2]}
    )
    trials = [Trial("f", trial_id=f"t{n}", config={"x": 1}) for n in range(3)]
    for trial in trials:
        population.on_trial_add(None, trial)
    assert population.last_scores(trials) == []
    population._states["t0"].score, population._states["t1"].score = 2.0, 1.0
    trials[1].status = Trial.TERMINATED
    assert population.last_scores(trials) == [2.0]
    population.reset_stats()


def test_a_reporter_takes_what_it_was_not_given() -> None:
    reporter = tune.CLIReporter(metric="score")
    assert not reporter.set_search_properties("loss", "min")
    assert reporter.set_search_properties(None, "max")
    reporter.set_total_samples(7)
    reporter.set_start_time(0.0)
