"""Names and answers that programs and libraries expect of trials, experiments and searchers (F11.08)."""

from __future__ import annotations

import functools
import pickle
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.train import DataParallelTrainer
from ray.tune.experiment.trial import Trial
from ray.tune.logger import pretty_print
from ray.tune.registry import get_trainable_cls, trainable_exists
from ray.tune.search import BasicVariantGenerator, Searcher, SearchGenerator
from ray.tune.stopper import (
    CombinedStopper,
    FunctionStopper,
    MaximumIterationStopper,
    TimeoutStopper,
)

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def function(config: dict[str, Any]) -> None:
    for i in range(3):
        tune.report(
            {"score": i * config.get("x", 1), "nested": {"a": i}, "text": "t", "flag": True}
        )
    if config.get("x") == 2:
        raise RuntimeError("bad luck")


class Called:
    def __call__(self, config: dict[str, Any]) -> None:
        tune.report({"score": 1})


@pytest.fixture
def done(fit: Any, tmp_path: Path) -> tune.ExperimentAnalysis:
    """A search of two trials, of which the second failed."""
    fit(function, {"x": tune.grid_search([1, 2])})
    return tune.ExperimentAnalysis(str(tmp_path / "search"))


def test_trials_say_what_became_of_them(done: tune.ExperimentAnalysis) -> None:
    good, bad = sorted(done.trials, key=lambda trial: trial.config["x"])
    states = (Trial.PENDING, Trial.RUNNING, Trial.PAUSED, Trial.TERMINATED, Trial.ERROR)
    assert states == ("PENDING", "RUNNING", "PAUSED", "TERMINATED", "ERROR")
    assert (good.status, bad.status) == (good.TERMINATED, bad.ERROR)
    assert (good.get_error(), good.error_file, good.pickled_error_file) == (None, None, None)
    assert "bad luck" in str(bad.get_error())
    assert "bad luck" in Path(str(bad.error_file)).read_text()
    assert Path(str(bad.pickled_error_file)).exists()
    assert not good.has_checkpoint()
    assert good.experiment_dir_name == "search"
    assert good.custom_trial_name is None
    assert good.local_dir == done.experiment_path
    with pytest.raises(DeprecationWarning, match="local_path"):
        _ = good.logdir


def test_a_trial_without_a_search() -> None:
    trial = Trial("f", config={"x": 1}, stopping_criterion={"score": 3})
    assert (trial.status, len(trial.trial_id)) == (Trial.PENDING, 8)
    assert trial.placement_group_factory.required_resources == {"CPU": 1}
    for score in range(4):
        trial.update_last_result({"score": score})
    assert trial.metric_analysis["score"]["avg"] == 1.5
    assert not trial.should_stop({"score": 2})
    assert trial.should_stop({"score": 3})
    assert trial.should_stop({"score": 0, "done": True})
    trial.update_resources({"cpu": 4})
    assert trial.placement_group_factory.required_resources == {"CPU": 4}
    trial.set_status(Trial.RUNNING)
    with pytest.raises(ValueError, match="runs"):
        trial.update_resources({"cpu": 1})
    trial.set_experiment_tag("one")
    again = trial.reset()
    assert (again.config, again.experiment_tag, again.status) == ({"x": 1}, "one", Trial.PENDING)
    assert again.trial_id != trial.trial_id


def test_metrics_are_summed_up(done: tune.ExperimentAnalysis) -> None:
    good, _ = sorted(done.trials, key=lambda trial: trial.config["x"])
    expected = {"max": 2, "min": 0, "avg": 1, "last": 2, "last-5-avg": 1, "last-10-avg": 1}
    assert good.metric_analysis["score"] == good.metric_analysis["nested/a"] == expected
    assert good.metric_n_steps["score"] == {"5": [0, 1, 2], "10": [0, 1, 2]}
    assert "text" not in good.metric_analysis
    assert good.metric_analysis["flag"]["last"] in (True, False), "a truth value is a number"
    fresh = Trial("f", trial_id="new")
    assert fresh.metric_analysis == {}


def test_a_result_grid_of_an_analysis(done: tune.ExperimentAnalysis) -> None:
    grid = tune.ResultGrid(done)
    assert (len(grid), grid.num_errors) == (2, 1)
    assert grid.get_best_result("score", "max").metrics["score"] == 4


# --- experiments ---


def test_an_experiment_says_what_it_is(tmp_path: Path) -> None:
    made = tune.Experiment(
        "a", function, stop={"score": 1}, num_samples=3, storage_path=str(tmp_path)
    )
    assert made.public_spec == {"stop": {"score": 1}, "num_samples": 3, "time_budget_s": None}
    assert made.local_path == str(tmp_path / "a")
    assert made.run_identifier == "function"
    assert made.checkpoint_config == tune.CheckpointConfig()
    assert isinstance(
        tune.Experiment("a", function, stop=lambda trial_id, result: True).stopper, FunctionStopper
    )
    several = [MaximumIterationStopper(2), MaximumIterationStopper(3)]
    assert isinstance(tune.Experiment("a", function, stop=several).stopper, CombinedStopper)
    assert tune.Experiment("a", function, stop=several).public_spec["stop"] == {}


@pytest.mark.parametrize("stop", [3, [3], [MaximumIterationStopper(1), {"a": 1}]])
def test_a_stop_that_makes_no_sense_is_told_at_once(stop: Any) -> None:
    with pytest.raises(ValueError, match="stop"):
        tune.Experiment("a", function, stop=stop)


def test_unknown_keywords_of_a_spec() -> None:
    with pytest.raises(tune.TuneError, match="nope"):
        tune.Experiment.from_json("a", {"run": function, "nope": 1})
    with pytest.raises(TypeError, match="nope"):
        tune.Experiment("a", function, nope=1)  # type: ignore[call-arg] # that is what is tested


@pytest.mark.parametrize("options", [{"checkpoint_frequency": 1}, {"checkpoint_at_end": True}])
def test_functions_make_their_checkpoints_themselves(
    ray_start: Any, tmp_path: Path, options: dict[str, Any]
) -> None:
    config = tune.CheckpointConfig(**options)
    run = tune.RunConfig(storage_path=str(tmp_path), checkpoint_config=config, verbose=0)
    for call in (
        lambda: tune.Experiment("a", function, checkpoint_config=config),
        lambda: tune.run(function, checkpoint_config=config, storage_path=str(tmp_path)),
        lambda: tune.Tuner(function, run_config=run).fit(),
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            call()


def test_whatever_is_callable_is_registered(ray_start: Any, tmp_path: Path) -> None:
    for trainable in (Called(), functools.partial(function), function, lambda config: None):
        tune.register_trainable("any", trainable)
    for trainable in (3, Called, "text"):
        with pytest.raises(TypeError):
            tune.register_trainable("any", trainable)
    tune.register_trainable("called", Called())
    found = tune.run("called", storage_path=str(tmp_path), verbose=0)
    assert found.trials[0].last_result["score"] == 1


@pytest.mark.heliostat_only("Ray's Train of the second generation has another text")
def test_a_trainer_as_a_trainable_says_what_to_write() -> None:
    with pytest.raises(tune.TuneError, match=r"def train_driver\(config\): DataParallelTrainer\("):
        tune.Tuner(DataParallelTrainer(lambda: None))


def test_a_number_of_samples_that_makes_no_sense_is_told_at_once() -> None:
    with pytest.raises(ValueError, match="num_samples='3' must be a whole number"):
        tune.TuneConfig(num_samples="3")  # type: ignore[arg-type] # that is what is tested


def test_names_of_trainables() -> None:
    partial = functools.partial(functools.partial(function))
    assert tune.Experiment("a", partial).run_identifier == "function"
    assert tune.Experiment("a", lambda config: None).run_identifier == "lambda"
    tune.register_trainable("known", function)
    assert trainable_exists("known")
    assert not trainable_exists("unknown")
    assert issubclass(get_trainable_cls("known"), tune.Trainable)
    with pytest.raises(tune.TuneError, match="unknown"):
        get_trainable_cls("unknown")


def test_log_files_that_make_no_sense_are_told_at_once() -> None:
    with pytest.raises(ValueError, match="log_to_file"):
        tune.Experiment("a", function, log_to_file=("a", "b", "c"))  # type: ignore[arg-type] # tested


def test_a_list_of_one_experiment_runs(ray_start: Any, tmp_path: Path) -> None:
    experiment = tune.Experiment("a", function, storage_path=str(tmp_path))
    found = tune.run([experiment], verbose=0)
    assert found.trials[0].last_result["score"] == 2


def test_names_of_folders(fit: Any) -> None:
    (result,) = fit(function, trial_name_creator=lambda trial: "a/b")
    assert Path(result.path).name.startswith("a_b_")
    with pytest.raises(tune.TuneError, match="has no '/'"):
        fit(function, trial_dirname_creator=lambda trial: "a/b")


def test_resources_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="empty head"):
        tune.PlacementGroupFactory([{}])
    with pytest.raises(ValueError, match="empty head"):
        tune.PlacementGroupFactory([{"CPU": 0}])


def test_a_time_goes_on_where_it_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    stopper = TimeoutStopper(10)
    assert not stopper.stop_all()
    now = 9.0
    saved = pickle.dumps(stopper)
    now = 1000.0
    again = pickle.loads(saved)
    assert not again.stop_all()
    now = 1001.0
    assert again.stop_all()
    with pytest.raises(ValueError, match="timeout"):
        TimeoutStopper("1 h")  # type: ignore[arg-type] # that is what is tested


# --- searchers ---


class Counts(Searcher):
    """Suggests numbers from 0 up."""

    def __init__(self) -> None:
        super().__init__("score", "max")
        self.asked, self.heard = 0, []  # type: list[str]

    def suggest(self, trial_id: str) -> dict[str, Any]:
        self.asked += 1
        return {"x": self.asked - 1}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        self.heard.append(trial_id)


def test_a_searchers_trials_without_a_tuner(tmp_path: Path) -> None:
    generator = SearchGenerator(Counts())
    experiment = {"e": {"run": function, "num_samples": 3, "config": {"y": 5}}}
    generator.add_configurations(experiment)
    assert (generator.total_samples, generator.metric) == (3, "score")
    first = generator.next_trial()
    assert (first.config, first.evaluated_params) == ({"y": 5, "x": 0}, {"x": 0})
    generator.on_trial_complete(first.trial_id, {"score": 1})
    assert generator.searcher.heard == [first.trial_id]
    generator.save_to_dir(str(tmp_path))

    again = SearchGenerator(Counts())
    assert again.has_checkpoint(str(tmp_path))
    again.add_configurations(experiment)
    again.restore_from_dir(str(tmp_path))
    assert [again.next_trial().config["x"] for _ in range(2)] == [1, 2]
    assert again.is_finished()
    assert again.next_trial() is None


def test_a_search_takes_a_generator(fit: Any) -> None:
    grid = fit(
        function, search_alg=SearchGenerator(Counts()), num_samples=2, metric=None, mode=None
    )
    assert sorted(result.config["x"] for result in grid) == [0, 1]


def test_a_grid_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    spec = {"e": {"run": function, "config": {"x": tune.grid_search([1, 2, 3])}}}
    generator = BasicVariantGenerator()
    with pytest.raises(RuntimeError, match="no state"):
        generator.restore_from_dir(str(tmp_path))
    generator.add_configurations(spec)
    generator.next_trial()
    generator.save_to_dir(str(tmp_path))
    again = BasicVariantGenerator()
    again.add_configurations(spec)
    again.restore_from_dir(str(tmp_path))
    assert [again.next_trial().config["x"] for _ in range(2)] == [2, 3]
    assert again.is_finished()


def test_as_many_modes_as_metrics() -> None:
    assert Searcher(["a", "b"], ["min", "max"]).metric == ["a", "b"]
    for metric, mode in ((["a", "b"], ["min"]), ("a", ["min"])):
        with pytest.raises(ValueError, match="mode"):
            Searcher(metric, mode)


def test_optunas_words_for_a_space() -> None:
    pytest.importorskip("optuna", reason="they are Optuna's")
    from ray.tune.search.optuna import OptunaSearch

    space = {"a": tune.choice([1, 2]), "b": {"c": tune.randint(0, 5)}, "d": 7}
    found = OptunaSearch.convert_search_space(space)
    assert sorted(found) == ["a", "b/c"]
    assert (found["a"].choices, found["b/c"].high) == ((1, 2), 4)
    with pytest.raises(ValueError, match="grid"):
        OptunaSearch.convert_search_space({"a": tune.grid_search([1])})
    with pytest.raises(ValueError, match="evaluated_rewards"):
        OptunaSearch(space, "m", "max", points_to_evaluate=[{"a": 1}], evaluated_rewards=[1, 2])
    with pytest.raises(RuntimeError, match="no search space"):
        OptunaSearch({}, "m", "max").suggest("t")


def test_configurations_without_a_tuner() -> None:
    generator = BasicVariantGenerator()
    space = {"x": tune.grid_search([1, 2]), "y": 5}
    generator.add_configurations({"e": {"run": function, "num_samples": 2, "config": space}})
    assert generator.total_samples == 4
    trials = []
    while not generator.is_finished():
        trials.append(generator.next_trial())
    assert generator.next_trial() is None
    found = [(trial.config["x"], trial.experiment_tag, trial.evaluated_params) for trial in trials]
    assert found == [
        (1, "0_x=1", {"x": 1}),
        (2, "1_x=2", {"x": 2}),
        (1, "2_x=1", {"x": 1}),
        (2, "3_x=2", {"x": 2}),
    ]
    assert len({trial.trial_id for trial in trials}) == 4
    generator.add_configurations(tune.Experiment("f", function, num_samples=3))
    assert generator.total_samples == 7
    assert generator.next_trial().trainable_name == "function"


class Learns(Searcher):
    def __init__(self) -> None:
        super().__init__("score", "max")
        self.learnt: list[Any] = []

    def add_evaluated_point(self, **point: Any) -> None:  # type: ignore[override] # as keywords
        self.learnt.append(point)


def test_a_searcher_learns_from_trials_of_another_search(done: tune.ExperimentAnalysis) -> None:
    trials = sorted(done.trials, key=lambda trial: trial.config["x"])
    for given in (done, trials):
        searcher = Learns()
        searcher.add_evaluated_trials(given, "score")
        points = sorted(searcher.learnt, key=lambda point: point["value"])
        assert [point["value"] for point in points] == [2, 4]
        assert [point["error"] for point in points] == [False, True]
        assert points[0]["intermediate_values"] == [0, 1, 2]
        assert not points[0]["pruned"]
    one = Learns()
    one.add_evaluated_trials(trials[0], "nested/a")
    assert [point["value"] for point in one.learnt] == [2]
    with pytest.raises(NotImplementedError):
        one.add_evaluated_trials(3, "score")
    with pytest.raises(NotImplementedError):
        Searcher("score", "max").add_evaluated_trials(done, "score")


def test_a_searcher_in_a_folder(tmp_path: Path) -> None:
    searcher = Learns()
    searcher.learnt = [1]
    with pytest.raises(RuntimeError, match="no searcher's state"):
        searcher.restore_from_dir(str(tmp_path))
    searcher.save_to_dir(str(tmp_path), session_str="one")
    again = Learns()
    again.restore_from_dir(str(tmp_path))
    assert again.learnt == [1]


# --- restoring ---


def other(config: dict[str, Any]) -> None: ...


def test_a_search_goes_on_with_the_same(done: tune.ExperimentAnalysis) -> None:
    path = done.experiment_path
    for trainable in (other, Called(), "other"):
        with pytest.raises(ValueError, match="'function'"):
            tune.Tuner.restore(path, trainable=trainable)
    for space in ({"y": 1}, {}, {"x": 1, "y": 2}):
        with pytest.raises(ValueError, match="param_space"):
            tune.Tuner.restore(path, trainable=function, param_space=space)
    same = tune.Tuner.restore(path, function, param_space={"x": tune.grid_search([1, 2])})
    assert same.get_results().num_errors == 1


def saves(config: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "x").write_text("1")
        tune.report({"score": 1}, checkpoint=tune.Checkpoint.from_directory(folder))


def test_a_search_that_was_moved_has_its_checkpoints(fit: Any, tmp_path: Path) -> None:
    fit(saves)
    moved = tmp_path / "elsewhere"
    shutil.move(tmp_path / "search", moved)
    (result,) = tune.Tuner.restore(str(moved), saves).get_results()
    assert Path(result.checkpoint.path, "x").read_text() == "1"
    assert [Path(one.path).is_relative_to(moved) for one, _ in result.best_checkpoints] == [True]
    (trial,) = tune.ExperimentAnalysis(str(moved)).trials
    assert Path(trial.checkpoint.path).is_relative_to(moved)


def test_results_as_text() -> None:
    result = {
        "b": {"c": 1.5, "d": [1, 2]},
        "a": "plain",
        "empty": None,
        "number": "12",
        "config": {"x": 1},
        "left": 1,
    }
    assert pretty_print(result, exclude={"left"}) == (
        'a: plain\nb:\n  c: 1.5\n  d:\n  - 1\n  - 2\nnumber: "12"\n'
    )
    yaml = pytest.importorskip("yaml", reason="reads what was printed")
    texts = [
        "",
        " a",
        "a: b",
        "- a",
        "true",
        "1e3",
        "a\nb",
        "#",
        "ünïcode",
        "it's",
        'say "x"',
        "%a",
    ]
    told = {f"k{n}": text for n, text in enumerate(texts)}
    assert yaml.safe_load(pretty_print(told)) == told
