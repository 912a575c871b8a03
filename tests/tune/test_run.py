"""``tune.run``, ``run_experiments`` and ``ExperimentAnalysis`` (contract F11.08)."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune import Checkpoint, Experiment, ExperimentAnalysis, TuneError

from tests.helpers.harness import IS_HELIOSTAT

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")
Run = Callable[..., ExperimentAnalysis]


@pytest.fixture
def run(ray_start: Any, tmp_path: Path) -> Run:
    def run(trainable: Any, **options: Any) -> ExperimentAnalysis:
        options = {"name": "search", "storage_path": str(tmp_path), "verbose": 0, **options}
        return tune.run(trainable, **options)

    return run


def saves(config: dict[str, Any]) -> None:
    """Three reports with checkpoints; the score rises and falls."""
    for step in (1, 3, 2):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            kept = Checkpoint.from_directory(folder)
            tune.report({"score": config["x"] * step, "in": {"step": step}}, checkpoint=kept)


def fails(config: dict[str, Any]) -> None:
    tune.report({"score": config["x"]})
    if config["x"] == 1:
        raise ValueError("one is bad")


def test_an_analysis_tells_the_best_and_has_tables(run: Run, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="tables are pandas's")
    space = {"x": tune.grid_search([1, 2])}
    analysis = run(saves, config=space, metric="score", mode="max")
    first, second = analysis.trials
    assert analysis.experiment_path == str(tmp_path / "search")
    assert analysis.best_trial is second
    assert analysis.best_config == {"x": 2}
    assert analysis.best_result["score"] == 4
    assert analysis.results[first.trial_id]["score"] == 2
    assert list(analysis.results) == [first.trial_id, second.trial_id]
    assert analysis.get_all_configs() == {first.trial_id: {"x": 1}, second.trial_id: {"x": 2}}
    assert analysis.get_all_configs(prefix=True)[first.trial_id] == {"config/x": 1}
    table = analysis.dataframe()
    assert list(table["score"]) == [2, 4]
    assert list(table["config/x"]) == [1, 2]
    assert list(table["in/step"]) == [2, 2]
    assert list(table["logdir"]) == [first.path, second.path]
    assert list(analysis.dataframe("score", "max")["score"]) == [3, 6]
    assert analysis.results_df.index.name == "trial_id"
    assert list(analysis.results_df["config/x"]) == [1, 2]
    assert list(analysis.best_result_df.index) == [second.trial_id]
    frames = analysis.trial_dataframes
    assert list(frames[first.trial_id]["score"]) == [1, 3, 2]
    assert list(analysis.best_dataframe["in/step"]) == [1, 3, 2]
    assert isinstance(analysis.best_dataframe, pandas.DataFrame)


def test_an_analysis_finds_checkpoints(run: Run) -> None:
    analysis = run(saves, config={"x": tune.grid_search([1, 2])}, metric="score", mode="max")

    def step(checkpoint: Checkpoint | None) -> str:
        assert checkpoint is not None
        return Path(checkpoint.path, "step").read_text()

    assert step(analysis.best_checkpoint) == "3", "the best of the best trial"
    assert step(analysis.get_best_checkpoint(analysis.trials[0], "score", "min")) == "1"
    assert step(analysis.get_last_checkpoint(analysis.trials[0])) == "2"
    assert step(analysis.trials[1].checkpoint) == "2"
    assert analysis.get_best_checkpoint(analysis.trials[0], "nothing", "max") is None


def test_the_best_by_other_metrics_and_scopes(run: Run) -> None:
    def falls(config: dict[str, Any]) -> None:
        for score in config["scores"]:
            tune.report({"score": score})

    space = {"scores": tune.grid_search([[9, 1], [4, 4], [0, 5]])}
    analysis = run(falls, config=space)

    def best(**how: Any) -> Any:
        return analysis.get_best_config("score", "max", **how)

    assert best() == {"scores": [0, 5]}
    assert best(scope="all") == best(scope="avg") == {"scores": [9, 1]}
    assert best(scope="last-5-avg") == {"scores": [9, 1]}
    assert analysis.get_best_trial("nothing", "max") is None
    with pytest.raises(ValueError, match="metric"):
        _ = analysis.best_trial
    with pytest.raises(ValueError, match="metric"):
        analysis.get_best_trial(mode="max")
    with pytest.raises(ValueError, match="mode"):
        analysis.get_best_trial("score", "best")
    with pytest.raises(ValueError, match="scope"):
        analysis.get_best_trial("score", "max", scope="first")


def test_an_analysis_is_read_from_a_folder(run: Run, tmp_path: Path) -> None:
    run(saves, config={"x": tune.grid_search([1, 2])})
    again = ExperimentAnalysis(str(tmp_path / "search"), default_metric="score", default_mode="max")
    assert again.best_config == {"x": 2}
    assert len(again.trials) == 2
    assert again.get_last_checkpoint() is not None
    with pytest.raises(ValueError):
        ExperimentAnalysis(str(tmp_path / "nowhere"))


def test_failed_trials_are_raised_unless_told_otherwise(run: Run) -> None:
    space = {"x": tune.grid_search([1, 2])}
    with pytest.raises(TuneError, match="did not complete") as caught:
        run(fails, config=space)
    (failed,) = caught.value.args[1]
    assert failed.config == {"x": 1}
    analysis = run(fails, config=space, raise_on_failed_trial=False, name="again")
    assert [trial.status for trial in analysis.trials] == ["ERROR", "TERMINATED"]


def test_a_search_is_resumed_by_its_name(run: Run, tmp_path: Path) -> None:
    def fails_once(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"]})
        flag = Path(config["flags"], str(config["x"]))
        if not flag.exists():
            flag.touch()
            raise ValueError("once")

    space = {"x": tune.grid_search([1, 2]), "flags": str(tmp_path)}
    first = run(fails_once, config=space, raise_on_failed_trial=False)
    assert {trial.status for trial in first.trials} == {"ERROR"}
    resumed = run(fails_once, config=space, resume="AUTO+ERRORED")
    assert {trial.status for trial in resumed.trials} == {"TERMINATED"}
    assert [t.trial_id for t in resumed.trials] == [t.trial_id for t in first.trials]
    # Where there is none, it begins.
    assert len(run(fails_once, config=space, resume=True, name="new").trials) == 2


def test_every_trial_begins_from_a_given_checkpoint(run: Run, tmp_path: Path) -> None:
    def looks(config: dict[str, Any]) -> None:
        checkpoint = tune.get_checkpoint()
        tune.report({"score": int(Path(checkpoint.path, "step").read_text()) if checkpoint else 0})

    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "step").write_text("7")
    analysis = run(looks, num_samples=2, restore=str(tmp_path / "kept"))
    assert [trial.last_result["score"] for trial in analysis.trials] == [7, 7]


def test_trainables_are_named(run: Run) -> None:
    tune.register_trainable("named", saves)
    analysis = run("named", config={"x": 1}, resources_per_trial={"cpu": 2}, stop={"score": 3})
    (trial,) = analysis.trials
    assert str(trial) == f"named_{trial.trial_id}"
    assert trial.last_result["training_iteration"] == 2
    with pytest.raises(TuneError, match="Unknown trainable: nobody"):
        tune.run("nobody")
    tune.register_env("world", lambda config: None)
    with pytest.raises(TypeError):
        tune.register_env("world", "no function")


def test_experiments_run_and_their_trials_come_back(ray_start: Any, tmp_path: Path) -> None:
    first = Experiment(
        "one",
        saves,
        config={"x": tune.grid_search([1, 2])},
        stop={"training_iteration": 2},
        storage_path=str(tmp_path),
    )
    second = {"two": {"run": saves, "config": {"x": 5}, "storage_path": str(tmp_path)}}
    trials = tune.run_experiments([first, *_each(second)], verbose=0)
    assert [trial.last_result["score"] for trial in trials] == [3, 6, 10]
    assert (tmp_path / "one").is_dir()
    assert (tmp_path / "two").is_dir()
    (trial,) = tune.run_experiments(second, verbose=0)
    assert trial.last_result["score"] == 10
    with pytest.raises(TuneError):
        tune.run_experiments({"three": {"config": {}}}, verbose=0)
    with pytest.raises(TuneError, match="did not complete"):
        tune.run_experiments(
            {"bad": {"run": fails, "config": {"x": 1}, "storage_path": str(tmp_path)}}, verbose=0
        )


def _each(specs: dict[str, Any]) -> list[Any]:
    return [Experiment.from_json(name, spec) for name, spec in specs.items()]


@pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray has some of these, and refuses others later")
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"progress_reporter": object()}, ValueError, "progress_reporter"),
        ({"export_formats": ["onnx"]}, NotImplementedError, "save_checkpoint"),
        ({"local_dir": "/tmp"}, DeprecationWarning, "storage_path"),
        ({"resume": "LATER"}, ValueError, "AUTO"),
        ({"resume": True}, ValueError, "name"),
        ({"restore": "/nowhere/at/all"}, ValueError, "not the folder"),
        ({"mode": "best"}, ValueError, "min"),
        ({"keep_checkpoints_num": 0}, ValueError, "num_to_keep"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        tune.run(saves, config={"x": 1}, **options)
