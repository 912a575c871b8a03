"""Population based training, driven by hand and as searches use it (contract F11.06)."""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from heliostat.tune.runner.search import CONTINUE, PAUSE, Search
from heliostat.tune.runner.store import Store, read_trials
from heliostat.tune.runner.trial import Trial
from heliostat.tune.schedulers.pbt import explored
from ray import tune
from ray.tune.schedulers import (
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    create_scheduler,
)

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.06")


@pytest.fixture
def population(search: Any) -> Any:
    """``population(scheduler, configs)``: a search whose trials all run, and the trials."""

    def population(pbt: Any, configs: list[dict[str, Any]], folder: str = "") -> list[Any]:
        machine = search(configs, pbt, folder=folder, metric=None)
        trials = []
        for _ in configs:
            trial = machine.choose()
            assert trial is not None
            machine.started(trial)
            trials.append(trial)
        return [machine, *trials]

    return population


def pbt_of(**options: Any) -> PopulationBasedTraining:
    given = {
        "time_attr": "training_iteration",
        "metric": "score",
        "mode": "max",
        "perturbation_interval": 2,
        "hyperparam_mutations": {"lr": [1, 2, 3]},
        **options,
    }
    return PopulationBasedTraining(**given)


def report(machine: Search, trial: Trial, time: int, score: float, saves: bool = True) -> str:
    """A report of a function, with a checkpoint of its own."""
    result = {"training_iteration": time, "score": score, "time_total_s": 0.5 * time}
    if saves:
        trial.checkpoint_path = f"/kept/{trial.trial_id}/{time}"
        trial.restore_iteration, trial.restore_total_s = time, 0.5 * time
    return machine.reported(trial, result)


def test_a_bad_trial_goes_on_from_a_good_one(population: Any) -> None:
    pbt = pbt_of(resample_probability=0.0)
    machine, bad, good = population(pbt, [{"lr": 1, "k": 0}, {"lr": 2, "k": 7}])
    assert report(machine, good, 1, 9) == CONTINUE, "the interval is not over"
    assert report(machine, good, 2, 10) == CONTINUE
    assert report(machine, bad, 2, 1) == PAUSE
    assert bad.config["k"] == 7, "the whole configuration is taken over"
    assert bad.config["lr"] in (1, 3), "a neighbour in the list"
    assert bad.handed == ("/kept/t1/2", 2, 1.0, {})
    assert bad.experiment_tag == f"tag0@perturbed[lr={bad.config['lr']}]"
    assert bad.is_changed
    assert good.config == {"lr": 2, "k": 7}
    machine.paused(bad)
    assert machine.choose() is bad
    assert "1 perturbs" in pbt.debug_string()


def test_nobody_is_copied_before_the_burn_in_or_without_a_checkpoint(population: Any) -> None:
    machine, bad, good = population(pbt_of(burn_in_period=5), [{"lr": 1}, {"lr": 2}])
    assert report(machine, good, 4, 10) == report(machine, bad, 4, 1) == CONTINUE
    machine, bad, good = population(pbt_of(), [{"lr": 1}, {"lr": 2}])
    assert report(machine, good, 2, 10, saves=False) == CONTINUE
    assert report(machine, bad, 2, 1, saves=False) == CONTINUE
    assert (bad.handed, bad.config) == (None, {"lr": 1})


def test_the_lower_the_better_where_that_is_so(population: Any) -> None:
    machine, first, second = population(pbt_of(mode="min"), [{"lr": 1}, {"lr": 2}])
    assert report(machine, first, 2, 0.1) == CONTINUE
    assert report(machine, second, 2, 5.0) == PAUSE
    assert second.handed.checkpoint_path == "/kept/t0/2"


def test_a_copy_waits_until_a_class_has_saved(population: Any) -> None:
    machine, bad, good = population(pbt_of(), [{"lr": 1}, {"lr": 2}])
    machine.saves_on_request = True
    assert report(machine, bad, 2, 1, saves=False) == CONTINUE, "there is nobody to compare with"
    assert report(machine, good, 2, 10, saves=False) == CONTINUE
    assert machine.is_saving(good)
    assert report(machine, bad, 4, 1, saves=False) == PAUSE
    bad.checkpoint_path = "/kept/own"
    machine.saved(bad)
    machine.paused(bad)
    assert bad.handed is None
    assert machine.choose() is None, "the other one still saves"
    good.checkpoint_path = "/kept/good"
    machine.saved(good)
    assert bad.handed.checkpoint_path == "/kept/good"
    assert machine.choose() is bad


def test_a_copy_goes_on_by_itself_when_the_other_fails_to_save(population: Any) -> None:
    machine, bad, good = population(pbt_of(), [{"lr": 1}, {"lr": 2}])
    machine.saves_on_request = True
    report(machine, bad, 2, 1, saves=False)
    report(machine, good, 2, 10, saves=False)
    assert report(machine, bad, 4, 1, saves=False) == PAUSE
    machine.paused(bad)
    machine.failed(good, OSError(), "the disk is full")
    assert machine.choose() is bad
    assert bad.handed is None


def test_all_are_judged_at_once_when_they_have_come_as_far(population: Any) -> None:
    pbt = pbt_of(synch=True, quantile_fraction=0.34)
    machine, *trials = population(pbt, [{"lr": n} for n in (1, 2, 3)])
    for trial, score in zip(trials[:2], (1, 2), strict=True):
        assert report(machine, trial, 2, score) == PAUSE
        machine.paused(trial)
    assert machine.choose() is None, "they wait for the third"
    assert report(machine, trials[2], 3, 9) == PAUSE
    machine.paused(trials[2])
    assert trials[0].handed.checkpoint_path == "/kept/t2/3", "its checkpoint of this very report"
    assert trials[1].handed is None
    started = []
    while (trial := machine.choose()) is not None:
        machine.started(trial)
        started.append(trial)
    # The next time is 4: all are before it.
    assert sorted(trial.trial_id for trial in started) == ["t0", "t1", "t2"]


def test_those_who_wait_go_on_when_the_last_one_ends_or_fails(population: Any) -> None:
    for ends in (True, False):
        machine, *trials = population(pbt_of(synch=True), [{"lr": n} for n in (1, 2, 3)])
        for trial, score in zip(trials[:2], (1, 2), strict=True):
            report(machine, trial, 2, score)
            machine.paused(trial)
        if ends:
            machine.completed(trials[2])
        else:
            machine.failed(trials[2], ValueError(), "bad")
        assert machine.choose() in trials[:2]
        assert trials[0].handed.checkpoint_path == "/kept/t1/2"


def test_a_restored_population_that_has_come_far_goes_on(population: Any) -> None:
    """A new scheduler counts from 0, the trials do not: all pause at the same time, and one is to go on."""
    machine, *trials = population(pbt_of(synch=True), [{"lr": n} for n in (1, 2, 3)])
    for score, trial in enumerate(trials):
        assert report(machine, trial, 10, score) == PAUSE
        machine.paused(trial)
    assert machine.choose() is not None


def test_a_copy_of_a_restored_search_counts_from_what_it_goes_on_from(tmp_path: Path) -> None:
    other, copy = (
        Trial("f", trial_id=name, config={"lr": 1}, folder=name) for name in ("other", "copy")
    )
    store = Store(str(tmp_path))
    store.begin({}, goes_on=False)
    for trial, iteration in ((other, 3), (copy, 6)):
        store.added(trial)
        result = {"training_iteration": iteration, "time_total_s": float(iteration)}
        trial.checkpoint_path, trial.checkpoints = trial.folder, [(trial.folder, result)]
        trial.restore_iteration, trial.restore_total_s = iteration, float(iteration)
        store.checkpointed(trial)
    copy.checkpoint_path, copy.restore_iteration, copy.restore_total_s = "other", 3, 3.0
    store.checkpointed(copy)
    store.close()
    found = {trial.trial_id: trial for trial in read_trials(str(tmp_path))}
    assert (found["copy"].checkpoint_path, found["copy"].restore_iteration) == ("other", 3)
    assert (found["copy"].restore_total_s, found["other"].restore_iteration) == (3.0, 3)


def test_trials_share_the_places_where_there_are_too_few(search: Any) -> None:
    pbt = pbt_of()
    machine = search([{"lr": 1}, {"lr": 2}], pbt)
    first = machine.choose()
    machine.started(first)
    assert report(machine, first, 2, 1) == PAUSE, "another one has not begun"
    machine.paused(first)
    second = machine.choose()
    assert second is not None
    assert second is not first


def test_missing_hyperparameters_are_drawn(population: Any) -> None:
    mutations = {"lr": tune.uniform(5, 6), "net": {"width": [8], "f": lambda: 3}}
    _, trial = population(pbt_of(hyperparam_mutations=mutations), [{"k": 1}])
    assert 5 <= trial.config["lr"] <= 6
    assert trial.config["net"] == {"width": 8, "f": 3}
    assert trial.evaluated_params["lr"] == trial.config["lr"]


def test_exploring_changes_values_by_their_kind() -> None:
    random.seed(1)
    config = {"f": 10.0, "n": 10, "yes": True, "list": "b", "in": {"x": 1.0}, "left": [1]}
    mutations = {
        "f": tune.uniform(0, 1),
        "n": lambda: 99,
        "yes": [True, False],
        "list": ("a", "b", "c"),
        "in": {"x": tune.uniform(2, 3)},
    }
    for _ in range(50):
        moved = explored(config, mutations, 0.0, (1.2, 0.8))
        assert moved["f"] in (12.0, 8.0)
        assert (moved["n"], type(moved["n"])) in ((12, int), (8, int))
        assert moved["list"] in ("a", "c")
        assert moved["in"]["x"] in (1.2, 0.8)
        drawn = explored(config, mutations, 1.0, (1.2, 0.8))
        assert 0 <= drawn["f"] <= 1
        assert drawn["n"] == 99
        assert 2 <= drawn["in"]["x"] <= 3
        assert drawn["left"] == [1]
    assert config["f"] == 10.0, "the original stays"
    ends = {explored({"a": 1}, {"a": [1, 2]}, 0.0, (1.2, 0.8))["a"] for _ in range(50)}
    assert ends == {1, 2}, "there is nothing left of the first value"
    own = explored(config, {}, 0.5, (2, 2), lambda changed: {**changed, "f": -1})
    assert own["f"] == -1
    with pytest.raises(tune.TuneError, match="custom_explore_fn"):
        explored(config, {}, 0.5, (2, 2), lambda changed: None)  # type: ignore[arg-type, return-value]


def test_the_policy_is_written_and_replayed(population: Any, tmp_path: Path) -> None:
    pbt = pbt_of(resample_probability=0.0, hyperparam_mutations={"lr": [1, 2]})
    machine, bad, good = population(pbt, [{"lr": 1}, {"lr": 2}], str(tmp_path))
    report(machine, good, 2, 10)
    report(machine, bad, 2, 1)
    line = ["tag0", "tag1", 2, 2, {"lr": 2}, bad.config]
    path = tmp_path / "pbt_policy_t0.txt"
    assert json.loads(path.read_text()) == line
    assert json.loads((tmp_path / "pbt_global.txt").read_text()) == line
    replay = PopulationBasedTrainingReplay(str(path))
    again, trial = population(replay, [{}])
    assert trial.config == {"lr": 2}
    assert report(again, trial, 1, 0) == CONTINUE
    assert report(again, trial, 2, 0) == PAUSE
    assert trial.config == bad.config
    assert report(again, trial, 3, 0) == CONTINUE
    assert "perturb 1" in replay.debug_string()


def test_a_replay_follows_the_copies_and_refuses_what_is_no_policy(
    population: Any, tmp_path: Path
) -> None:
    rows: list[Any] = [
        ["x", "y", 1, 1, {"a": 0}, {"a": 9}],  # the copy of another trial came after it
        ["c", "d", 2, 4, {"a": 1}, {"a": 2}],
        ["b", "c", 5, 6, {"a": 2}, {"a": 3}],
    ]
    path = tmp_path / "policy.txt"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    replay = create_scheduler("pbt_replay", policy_file=str(path))
    machine, trial = population(replay, [{}])
    assert trial.config == {"a": 1}
    decisions = [report(machine, trial, step, 0) for step in (3, 4, 5, 6, 7)]
    assert decisions == [CONTINUE, PAUSE, CONTINUE, PAUSE, CONTINUE]
    assert trial.config == {"a": 3}
    with pytest.raises(ValueError, match="one trial"):
        population(PopulationBasedTrainingReplay(str(path)), [{}, {}])
    path.write_text("no policy\n")
    with pytest.raises(ValueError, match="policy"):
        PopulationBasedTrainingReplay(str(path))
    with pytest.raises(ValueError, match="not found"):
        PopulationBasedTrainingReplay(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"quantile_fraction": 0.6}, ValueError),
        ({"perturbation_interval": 0}, ValueError),
        ({"hyperparam_mutations": {"a": 3}}, TypeError),
        ({"hyperparam_mutations": {"a": tune.sample_from(lambda spec: 1)}}, ValueError),
        ({"hyperparam_mutations": {"a": {"b": tune.sample_from(lambda spec: 1)}}}, ValueError),
        ({"hyperparam_mutations": None}, tune.TuneError),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        pbt_of(**options)


def test_tags_have_numbers_as_those_of_new_trials(population: Any) -> None:
    """A tag is part of the names of folders: Ray writes four places, and no letters but plain ones."""
    mutations = {"net": {"act": ["relu"]}, "lr": tune.uniform(0, 1)}
    pbt = pbt_of(hyperparam_mutations=mutations, resample_probability=0.0)
    config = {"lr": 0.1, "net": {"act": "relu"}}
    machine, bad, good = population(pbt, [config, config])
    report(machine, good, 2, 10)
    report(machine, bad, 2, 1)
    lr = bad.config["lr"]
    assert lr in (0.1 * 0.8, 0.1 * 1.2)
    assert bad.experiment_tag == f"tag0@perturbed[lr={lr:.4f},net=act_relu]"


def test_a_mode_alone_is_about_what_functions_return(population: Any) -> None:
    pbt = pbt_of(metric=None, mode=None)
    assert pbt.set_search_properties(None, "min")
    machine, bad, good = population(pbt, [{"lr": 1}, {"lr": 2}])
    for trial, value in ((good, 1.0), (bad, 2.0)):
        trial.checkpoint_path = "/kept"
        decision = machine.reported(trial, {"training_iteration": 2, "_metric": value})
    assert decision == PAUSE
    assert bad.is_changed


def test_a_mode_that_differs_is_refused() -> None:
    assert not pbt_of(metric=None, mode="max").set_search_properties("score", "min")
    assert pbt_of(metric=None, mode="max").set_search_properties("score", "max")


def test_a_result_needs_metric_and_time(population: Any) -> None:
    machine, trial = population(pbt_of(), [{"lr": 1}])
    with pytest.raises(RuntimeError, match="training_iteration"):
        machine.reported(trial, {"score": 1})
    machine, trial = population(pbt_of(require_attrs=False), [{"lr": 1}])
    assert machine.reported(trial, {"score": 1}) == CONTINUE
    with pytest.raises(ValueError, match="metric"):
        population(pbt_of(metric=None), [{"lr": 1}])


def grows(config: dict[str, Any]) -> None:
    """A value that grows by the rate at each step, kept in checkpoints."""
    value, begun = 0.0, 0
    if (checkpoint := tune.get_checkpoint()) is not None:
        value, begun = json.loads(Path(checkpoint.path, "state").read_text())
    for step in range(begun + 1, 9):
        value += config["rate"]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "state").write_text(json.dumps([value, step]))
            kept = tune.Checkpoint.from_directory(folder)
            tune.report({"score": value, "step": step}, checkpoint=kept)


class Grows(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.value = 0.0

    def step(self) -> dict[str, Any]:
        self.value += self.config["rate"]
        return {"score": self.value, "step": self.iteration + 1, "done": self.iteration == 7}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"value": self.value}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.value = checkpoint["value"]


@pytest.mark.parametrize("trainable", [grows, Grows])
def test_a_population_grows_as_fast_as_its_best(fit: Any, trainable: Any) -> None:
    """All wait for each other, so that each judgement sees the whole population."""
    pbt = PopulationBasedTraining(
        time_attr="training_iteration",
        perturbation_interval=2,
        quantile_fraction=0.5,
        resample_probability=0.0,
        perturbation_factors=(1.0, 1.0),
        hyperparam_mutations={"rate": tune.uniform(0, 10)},
        synch=True,
    )
    grid = fit(trainable, {"rate": tune.grid_search([0.0, 10.0])}, scheduler=pbt)
    assert grid.num_errors == 0, grid.errors
    # The bad one has the value of the good one from the second step on.
    assert [result.metrics["score"] for result in grid] == [80.0, 80.0]
    assert [result.config for result in grid] == [{"rate": 10.0}] * 2
    assert [result.metrics["training_iteration"] for result in grid] == [8, 8]
    (policy,) = Path(grid.experiment_path).glob("pbt_policy_*.txt")
    first = json.loads(policy.read_text().splitlines()[0])
    assert first[2:] == [2, 2, {"rate": 10.0}, {"rate": 10.0}]
    written = json.loads(Path(grid[0].path, "params.json").read_text())
    assert written == {"rate": 10.0}
