"""Searches as users write them (contract F11.01 to F11.05)."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import ray
from ray import tune
from ray.tune import Checkpoint

from tests.helpers.harness import IS_HELIOSTAT, Driver, start_driver, wait_until

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def square(config: dict[str, Any]) -> None:
    tune.report({"score": config["x"] ** 2})


def climb(config: dict[str, Any]) -> None:
    for step in range(config.get("steps", 10)):
        tune.report({"score": step * config.get("x", 1), "step": step})


def resumed(config: dict[str, Any]) -> None:
    """Five steps with checkpoints; fails once behind the third."""
    begun = 0
    if (checkpoint := tune.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            begun = int(Path(folder, "step").read_text()) + 1
    for step in range(begun, 5):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            kept = Checkpoint.from_directory(folder)
            tune.report({"score": step, "begun": begun}, checkpoint=kept)
        if step == 2 and begun == 0:
            raise ValueError("once")


@pytest.mark.contract("F11.01", "F11.05")
def test_each_configuration_has_its_result(fit: Any) -> None:
    grid = fit(square, {"x": tune.grid_search([3, 1, 2]), "fixed": "kept"})
    assert [result.metrics["score"] for result in grid] == [9, 1, 4]
    assert len(grid) == grid.num_terminated == 3
    assert grid.num_errors == 0
    assert grid.errors == []
    best = grid.get_best_result()
    assert (best.config, best.metrics["score"]) == ({"x": 3, "fixed": "kept"}, 9)
    assert grid.get_best_result(metric="score", mode="min").config["x"] == 1
    assert grid[0].metrics["config"]["x"] == 3
    assert grid[0].metrics["done"] is True
    assert grid[0].metrics["training_iteration"] == 1
    frame = grid.get_dataframe()
    assert sorted(frame["config/x"]) == [1, 2, 3]
    written = json.loads(Path(grid[1].path, "params.json").read_text())
    assert written == {"x": 1, "fixed": "kept"}


@pytest.mark.contract("F11.02")
def test_what_a_function_returns_or_yields_is_reported(fit: Any) -> None:
    def returns(config: Any) -> dict[str, int]:
        return {"score": 5}

    def number(config: Any) -> int:
        return 7

    def yields(config: Any) -> Any:
        yield {"score": 1}
        yield {"score": 2}

    assert fit(returns)[0].metrics["score"] == 5
    assert fit(number, metric=None, mode=None)[0].metrics["_metric"] == 7
    result = fit(yields)[0]
    assert (result.metrics["score"], result.metrics["training_iteration"]) == (2, 2)


@pytest.mark.contract("F11.02")
def test_a_trial_knows_where_it_is(fit: Any) -> None:
    def looks(config: Any) -> None:
        context = tune.get_context()
        names = {"id": context.get_trial_id(), "name": context.get_trial_name()}
        places = {"folder": context.get_trial_dir(), "search": context.get_experiment_name()}
        assert tune.get_checkpoint() is None
        tune.report({"score": 1, **names, **places, "here": os.getcwd()})

    (result,) = fit(looks)
    found = result.metrics
    assert found["name"] == f"looks_{found['id']}"
    assert found["folder"] == result.path
    assert found["search"] == "search"
    assert found["trial_id"] == found["id"]
    assert tune.get_context().get_trial_id() is None, "the driver is no trial"


@pytest.mark.contract("F11.02")
def test_large_values_and_resources_are_bound_to_a_trainable(fit: Any) -> None:
    def uses(config: dict[str, Any], data: Any = None) -> None:
        cpus = ray.get_runtime_context().get_assigned_resources()["CPU"]
        tune.report({"score": config["x"] + len(data), "cpus": cpus})

    trainable = tune.with_resources(tune.with_parameters(uses, data=bytes(1 << 20)), {"cpu": 2})
    grid = fit(trainable, {"x": tune.grid_search([0, 1])})
    assert [r.metrics["score"] - (1 << 20) for r in grid] == [0, 1]
    assert {r.metrics["cpus"] for r in grid} == {2.0}
    later = tune.with_resources(
        square, lambda config: tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 2}])
    )
    assert fit(later, {"x": 2})[0].metrics["score"] == 4


class Counter(tune.Trainable):
    """Counts, and saves how far it came."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count, self.begun = 0, 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.config.get("fails_at") == self.count and self.begun == 0:
            raise RuntimeError("at the wrong step")
        return {"score": self.count, "begun": self.begun, "pid": os.getpid()}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, int]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, int]) -> None:
        self.count = self.begun = checkpoint["count"]


class Reused(Counter):
    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.count = 0
        return True


@pytest.mark.contract("F11.02")
def test_a_class_makes_steps_and_checkpoints(fit: Any) -> None:
    kept = tune.CheckpointConfig(checkpoint_frequency=2, num_to_keep=1, checkpoint_at_end=True)
    run = {"stop": {"training_iteration": 5}, "checkpoint_config": kept}
    (result,) = fit(Counter, {}, run)
    assert (result.metrics["score"], result.metrics["training_iteration"]) == (5, 5)
    assert len(result.best_checkpoints) == 1
    again = Counter({})
    again.restore(result.checkpoint.path)
    assert again.count == 5
    # One that fails goes on from its last checkpoint.
    run["failure_config"] = tune.FailureConfig(max_failures=1)
    (result,) = fit(Counter, {"fails_at": 4}, {**run, "name": "failing"})
    assert (result.metrics["score"], result.metrics["begun"]) == (5, 2)
    assert result.metrics["training_iteration"] == 5


@pytest.mark.contract("F11.03")
def test_classes_share_a_process_where_they_say_that_they_can(fit: Any) -> None:
    space = {"x": tune.grid_search([1, 2, 3])}
    run = {"stop": {"training_iteration": 2}}

    def processes(trainable: Any, **config: Any) -> int:
        grid = fit(trainable, space, run, max_concurrent_trials=1, **config)
        assert [r.metrics["score"] for r in grid] == [2, 2, 2]
        return len({r.metrics["pid"] for r in grid})

    assert processes(Reused, reuse_actors=True) == 1
    assert processes(Reused) == 3


LEFT: list[int] = []


def leaves_things(config: dict[str, Any]) -> dict[str, Any]:
    """Reports what an earlier trial has left in its process, and leaves the same."""
    seen = [
        *LEFT,
        *(int(text) for name, text in os.environ.items() if name == "LEFT_BY_A_TRIAL"),
        *(int(one.name) for one in threading.enumerate() if one.name.isdigit()),
    ]
    LEFT.append(config["x"])
    os.environ["LEFT_BY_A_TRIAL"] = str(config["x"])
    name = str(config["x"])
    threading.Thread(target=threading.Event().wait, name=name, daemon=True).start()
    return {"score": len(seen)}


@pytest.mark.contract("F11.03")
def test_functions_leave_nothing_to_the_next_trial_unless_they_share_a_process(fit: Any) -> None:
    # Enough of them that processes are forked from one that has loaded what trials need.
    space = {"x": tune.grid_search(list(range(8)))}
    grid = fit(leaves_things, space, max_concurrent_trials=1)
    assert [result.metrics["score"] for result in grid] == [0] * 8
    assert len({result.metrics["pid"] for result in grid}) == 8
    grid = fit(leaves_things, space, max_concurrent_trials=1, reuse_actors=True)
    assert len({result.metrics["pid"] for result in grid}) == 1
    assert [result.metrics["score"] for result in grid] == [2 * n + (n > 0) for n in range(8)]


@pytest.mark.contract("F11.02", "F11.03")
@pytest.mark.parametrize("keep", [None, 2])
def test_a_function_that_fails_goes_on_from_its_checkpoint(fit: Any, keep: int | None) -> None:
    run = {
        "failure_config": tune.FailureConfig(max_failures=1),
        "checkpoint_config": tune.CheckpointConfig(num_to_keep=keep),
    }
    grid = fit(resumed, {}, run)
    result = grid[0]
    found = [result.metrics[name] for name in ("score", "begun", "training_iteration")]
    assert found == [4, 3, 5]
    assert result.metrics["iterations_since_restore"] == 2
    assert len(result.best_checkpoints) == (keep or 5)
    assert result.checkpoint.path.endswith("checkpoint_000004")
    assert len(result.metrics_dataframe) == 5
    folders = [name for name in os.listdir(result.path) if name.startswith("checkpoint_")]
    assert len(folders) == (keep or 5), "what is not kept is removed"


@pytest.mark.contract("F11.03")
@pytest.mark.heliostat_only("the text")
@pytest.mark.parametrize("attribute", ["accuracy", "score"])
def test_a_score_that_no_checkpoint_has_is_told_once(
    fit: Any, caplog: pytest.LogCaptureFixture, attribute: str
) -> None:
    kept = tune.CheckpointConfig(num_to_keep=2, checkpoint_score_attribute=attribute)
    run = {
        "failure_config": tune.FailureConfig(max_failures=1),
        "checkpoint_config": kept,
    }
    with caplog.at_level("WARNING", logger="heliostat"):
        fit(resumed, {}, run)
    told = [one for one in caplog.messages if "checkpoint_score_attribute" in one]
    assert len(told) == (attribute == "accuracy")
    assert all(
        one.startswith("checkpoint_score_attribute='accuracy' was not reported") for one in told
    )


@pytest.mark.contract("F11.05")
def test_one_that_fails_leaves_the_others_alone(fit: Any) -> None:
    def fails(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"]})
        if config["x"] == 2:
            raise ValueError("x is 2")
        if config["x"] == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if config["x"] == 4:
            sys.exit(3)

    grid = fit(fails, {"x": tune.grid_search([1, 2, 3, 4, 5])})
    assert (grid.num_errors, grid.num_terminated) == (3, 2)
    assert [result.error is None for result in grid] == [True, False, False, False, True]
    assert isinstance(grid[1].error, ValueError)
    assert "x is 2" in Path(grid[1].path, "error.txt").read_text()
    assert grid[1].metrics["score"] == 2, "what it had reported counts"
    assert grid.get_best_result().config["x"] == 5


@pytest.mark.contract("F11.03")
def test_fail_fast_ends_the_search(fit: Any) -> None:
    def fails(config: dict[str, Any]) -> None:
        raise ValueError("first")

    run = {"failure_config": tune.FailureConfig(fail_fast=True)}
    grid = fit(fails, {"x": tune.grid_search(list(range(20)))}, run, max_concurrent_trials=1)
    assert (len(grid), grid.num_errors) == (1, 1)
    run = {"failure_config": tune.FailureConfig(fail_fast="raise")}
    with pytest.raises(ValueError, match="first"):
        fit(fails, {"x": 1}, {**run, "name": "raising"})


@pytest.mark.contract("F11.03")
@pytest.mark.parametrize(
    ("stop", "score"),
    [
        ({"score": 5, "training_iteration": 50}, 5),
        (lambda trial_id, result: result["score"] >= 7, 7),
        (tune.stopper.MaximumIterationStopper(3), 2),
    ],
)
def test_a_trial_stops_where_it_is_told_to(fit: Any, stop: Any, score: int) -> None:
    grid = fit(climb, {"steps": 1000}, {"stop": stop})
    assert (grid[0].metrics["score"], grid.num_errors) == (score, 0)
    rows = Path(grid[0].path, "result.json").read_text().splitlines()
    assert len(rows) == score + 1, "it made no step in vain"


@pytest.mark.contract("F11.03")
def test_time_is_up_for_all(fit: Any) -> None:
    def endless(config: Any) -> None:
        while True:
            tune.report({"score": 1})
            time.sleep(0.01)

    grid = fit(endless, {}, num_samples=-1, time_budget_s=2, max_concurrent_trials=2)
    assert len(grid) == 2
    assert grid.num_errors == 0
    assert all(result.metrics["score"] == 1 for result in grid)


@pytest.mark.contract("F11.03")
def test_so_many_run_at_a_time(fit: Any, tmp_path: Path) -> None:
    def counts(config: Any) -> None:
        mark = Path(config["folder"], str(os.getpid()))
        mark.touch()
        running = len(os.listdir(config["folder"]))
        time.sleep(0.05)
        mark.unlink()
        tune.report({"score": running})

    marks = tmp_path / "marks"
    marks.mkdir()
    space = {"folder": str(marks)}
    grid = fit(counts, space, num_samples=8, max_concurrent_trials=2)
    assert max(result.metrics["score"] for result in grid) <= 2
    assert len(grid) == 8


@pytest.mark.contract("F11.05")
def test_the_best_by_several_ways_to_count(fit: Any) -> None:
    def falls(config: dict[str, Any]) -> None:
        for value in config["values"]:
            tune.report({"score": value})

    values = [[9, 1, 2], [3, 3, 3], [0, 0, 4]]
    grid = fit(falls, {"values": tune.grid_search(values)})

    def best(scope: str) -> list[int]:
        found: list[int] = grid.get_best_result(scope=scope).config["values"]
        return found

    assert best("last") == values[2]
    assert best("all") == values[0]
    assert best("avg") == values[0]
    assert grid.get_dataframe("score", "max")["score"].tolist() == [9, 3, 4]
    with pytest.raises(ValueError, match="scope"):
        best("first")


@pytest.mark.contract("F11.05")
def test_nan_is_never_best(fit: Any) -> None:
    def maybe(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"]})

    grid = fit(maybe, {"x": tune.grid_search([float("nan"), 1.0, float("inf")])})
    assert grid.get_best_result().config["x"] == 1.0
    assert grid.get_best_result(filter_nan_and_inf=False).config["x"] == float("inf")


def test_a_metric_that_is_not_reported_is_named(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def typo(config: Any) -> None:
        tune.report({"scor": 1})

    with pytest.raises(tune.TuneError, match="'score'") as caught:
        fit(typo)
    if IS_HELIOSTAT:
        assert "It reported: scor." in str(caught.value)
    monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "1")
    assert fit(typo, {}, {"name": "lax"})[0].metrics["scor"] == 1


def test_a_metric_of_the_scheduler_that_is_not_reported_is_named(fit: Any) -> None:
    scheduler = tune.schedulers.ASHAScheduler(metric="scor", mode="max")
    with pytest.raises(tune.TuneError, match="scor"):
        fit(climb, {}, metric=None, mode=None, scheduler=scheduler)


def test_a_scheduler_that_lacks_its_metric_is_a_value_error(fit: Any) -> None:
    with pytest.raises(ValueError, match="metric"):
        fit(climb, {}, metric=None, mode=None, scheduler=tune.schedulers.ASHAScheduler())


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: tune.Tuner(lambda: 1), ValueError, "config"),
        (lambda: tune.Tuner(3), tune.TuneError, "."),
        (lambda: tune.Tuner(square, param_space=[1]), ValueError, "param_space"),
        (lambda: tune.FailureConfig(max_failures=1, fail_fast=True), ValueError, "max_failures"),
        (lambda: tune.PlacementGroupFactory([]), ValueError, "zero bundles"),
        (lambda: tune.Tuner.restore("/nowhere/at/all", trainable=square), ValueError, "nowhere"),
        (lambda: tune.create_searcher("nonsense"), ValueError, "nonsense"),
        (lambda: tune.create_scheduler("nonsense"), ValueError, "nonsense"),
    ],
)
def test_what_makes_no_sense_is_refused(
    ray_start: Any, make: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        make().fit()


def test_callbacks_hear_what_happens(fit: Any) -> None:
    heard: list[tuple[str, Any]] = []

    class Listener(tune.Callback):
        def setup(self, *args: Any, **info: Any) -> None:
            heard.append(("setup", None))

        def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            heard.append(("start", trial.config["x"]))

        def on_trial_result(
            self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any
        ) -> None:
            heard.append(("result", result["score"]))

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            heard.append(("complete", trial.status))

        def on_experiment_end(self, trials: Any, **info: Any) -> None:
            heard.append(("end", len(trials)))

    fit(square, {"x": 2}, {"callbacks": [Listener()]})
    expected = [("start", 2), ("result", 4), ("complete", "TERMINATED"), ("end", 1)]
    assert heard == [("setup", None), *expected]


SEARCH = """
import os, sys, time
from pathlib import Path
import ray
from ray import tune

def work(config):
    marks = Path(config["marks"])
    begun = 0
    if (checkpoint := tune.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            begun = int(Path(folder, "n").read_text()) + 1
    for n in range(begun, 4):
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "n").write_text(str(n))
            tune.report({"score": n + config["x"], "begun": begun},
                        checkpoint=tune.Checkpoint.from_directory(folder))
        if config["x"] >= 20 and n == 1 and not (marks / "go").exists():
            (marks / f"waits-{config['x']}").touch()
            time.sleep(600)

def main(folder, restores):
    ray.init(num_cpus=2, include_dashboard=False)
    if restores:
        Path(folder, "go").touch()
        tuner = tune.Tuner.restore(os.path.join(folder, "search"), trainable=work)
    else:
        tuner = tune.Tuner(
            work,
            param_space={"x": tune.grid_search([0, 10, 20, 30, 40]), "marks": folder},
            tune_config=tune.TuneConfig(metric="score", mode="max"),
            run_config=tune.RunConfig(name="search", storage_path=folder, verbose=1),
        )
    grid = tuner.fit()
    print("trials=" + str([(r.config["x"], *map(r.metrics.get, ("score", "begun"))) for r in grid]))
    print("errors=" + str(grid.num_errors))

if __name__ == "__main__":
    main(sys.argv[1], len(sys.argv) > 2)
"""


def wait_for_two(folder: Path, driver: Driver) -> None:
    """Until two trials wait and what they reported before is on disk."""

    def two_wait() -> bool:
        assert driver.process.poll() is None, driver.stderr()
        reports = [
            len(path.read_text().splitlines()) for path in folder.glob("search/*/result.json")
        ]
        return len(list(folder.glob("waits-*"))) == 2 and reports.count(2) == 2

    wait_until(two_wait, what="two trials that wait")


def reports_in(folder: Path) -> dict[int, list[int]]:
    """The scores in each trial's result.json, by its x; its table has the same."""
    found = {}
    for path in folder.glob("search/*/result.json"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        with open(path.with_name("progress.csv"), newline="") as file:
            assert [int(row["score"]) for row in csv.DictReader(file)] == [
                row["score"] for row in rows
            ]
        found[rows[0]["config"]["x"]] = [row["score"] for row in rows]
    return found


@pytest.mark.slow
@pytest.mark.contract("F11.01")
def test_a_search_whose_driver_is_killed_goes_on(tmp_path: Path) -> None:
    first = start_driver(tmp_path, SEARCH, args=[str(tmp_path)], name="first")
    wait_for_two(tmp_path, first)
    first.kill()
    assert tune.Tuner.can_restore(str(tmp_path / "search"))
    second = start_driver(tmp_path, SEARCH, args=[str(tmp_path), "restore"], name="second")
    done = second.finish().check()
    trials = done.value("trials")
    # The first two had ended, two go on behind their second report, the last had not begun.
    assert trials == "[(0, 3, 0), (10, 13, 0), (20, 23, 2), (30, 33, 2), (40, 43, 0)]"
    assert done.value("errors") == "0"
    assert reports_in(tmp_path) == {x: [x, x + 1, x + 2, x + 3] for x in (0, 10, 20, 30, 40)}


@pytest.mark.slow
@pytest.mark.contract("F11.01")
def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    driver = start_driver(tmp_path, SEARCH, args=[str(tmp_path)])
    wait_for_two(tmp_path, driver)
    driver.process.send_signal(signal.SIGINT)
    done = driver.finish().check()
    assert "(0, 3, 0), (10, 13, 0), (20, 21, 0), (30, 31, 0)" in done.value("trials")
    assert {x: len(scores) for x, scores in reports_in(tmp_path).items()} == {
        0: 4,
        10: 4,
        20: 2,
        30: 2,
    }
    assert "interrupted" in (tmp_path / "search" / "search.html").read_text()
    told = [
        line for line in done.stdout.splitlines() if not line.startswith(("trials=", "errors="))
    ]
    assert f"tune.Tuner.restore({str(tmp_path / 'search')!r}" in told[-1]


@pytest.mark.contract("F11.01")
def test_restoring_failed_trials(fit: Any, tmp_path: Path) -> None:
    def fails(config: dict[str, Any]) -> None:
        checkpoint = tune.get_checkpoint()
        if checkpoint is None:
            with tempfile.TemporaryDirectory() as folder:
                tune.report({"score": 1}, checkpoint=Checkpoint.from_directory(folder))
        if config["x"] == 2 and not os.path.exists(config["mended"]):
            raise ValueError("not yet")
        tune.report({"score": 5, "went_on": checkpoint is not None})

    mended = tmp_path / "mended"
    grid = fit(fails, {"x": tune.grid_search([1, 2]), "mended": str(mended)})
    assert grid.num_errors == 1
    path = grid.experiment_path
    same = tune.Tuner.restore(path, trainable=fails)
    assert same.get_results().num_errors == 1
    assert same.get_results()[0].metrics["done"]
    assert same.fit().num_errors == 1, "failed ones stay as they are"
    mended.touch()
    grid = tune.Tuner.restore(path, trainable=fails, resume_errored=True).fit()
    assert (grid.num_errors, [r.metrics["score"] for r in grid]) == (0, [5, 5])
    assert grid[1].metrics["went_on"]
    shown = repr(grid[1])  # without what the search adds
    assert "went_on=True" in shown
    assert not any(f"{name}=" in shown for name in ("pid", "hostname", "time_total_s", "config"))
    with pytest.raises(ValueError, match="restart_errored"):
        tune.Tuner.restore(path, trainable=fails, resume_errored=True, restart_errored=True)


@pytest.mark.contract("F15.12", "F11.08")
def test_variables_say_what_a_search_writes(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    monkeypatch.setenv("TUNE_MAX_LEN_IDENTIFIER", "10")
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", " ray.tune.logger.JsonLoggerCallback ,")
    (result,) = fit(square, {"x": tune.grid_search([2])})
    assert Path(result.path).name.startswith("square_")
    assert len(Path(result.path).name) == len("square_0000_2026-01-01_00-00-00") - 1
    written = {path.name for path in Path(result.path).iterdir()}
    assert "result.json" in written
    assert not any(name.startswith(("progress.csv", "events.out")) for name in written)


@pytest.mark.contract("F15.12")
@pytest.mark.parametrize("named", ["nowhere.Callback", "ray.tune.Nothing", "ray.tune.Tuner"])
def test_callbacks_of_the_environment_that_are_none(
    fit: Any, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", named)
    with pytest.raises(ValueError, match=named.replace(".", r"\.")):
        fit(square, {"x": 1})


@pytest.mark.contract("F11.03")
@pytest.mark.parametrize("is_class", [False, True])
@pytest.mark.parametrize(
    ("asked", "out", "err"),
    [(True, "stdout", "stderr"), ("all", "all", "all"), (("o", "e"), "o", "e")],
)
def test_what_a_trial_prints_is_in_its_folder(
    fit: Any, asked: Any, out: str, err: str, is_class: bool
) -> None:
    def say(config: dict[str, Any]) -> None:
        print("out", config["x"])
        print("err", config["x"], file=sys.stderr)

    class Says(tune.Trainable):
        def step(self) -> dict[str, Any]:
            say(self.config)
            return {"score": 1, "done": True}

    def says(config: dict[str, Any]) -> dict[str, int]:
        say(config)
        return {"score": 1}

    space = {"x": tune.grid_search([1, 2])}
    grid = fit(Says if is_class else says, space, run={"log_to_file": asked}, reuse_actors=True)
    for result in grid:
        x = result.config["x"]
        assert f"out {x}\n" in Path(result.path, out).read_text()
        assert f"err {x}\n" in Path(result.path, err).read_text()
        assert f"out {3 - x}" not in Path(result.path, out).read_text()


@pytest.mark.contract("F11.03")
def test_a_log_file_that_is_no_name() -> None:
    with pytest.raises(ValueError, match="log_to_file"):
        tune.RunConfig(log_to_file=("a", "b", "c"))
