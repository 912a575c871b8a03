"""The variables TUNE_* that say how a search runs (contract F15.12, F11.08)."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import ray
from heliostat.tune.environment import variables
from heliostat.tune.trainable.function_run import FunctionRun
from heliostat.tune.trainable.spec import Spec
from ray import tune

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F15.12", "F11.08")


def square(config: dict[str, Any]) -> None:
    tune.report({"score": config["x"] ** 2, "deep": {"er": 1}})


def all_cpus() -> dict[str, float]:
    return {"cpu": ray.cluster_resources()["CPU"]}


def said(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return any(text in record.getMessage() for record in caplog.records)


class Starts(tune.Callback):
    """Lets the trials end when so many have begun."""

    def __init__(self, go: Path, count: int) -> None:
        self.go, self.count = go, count
        self.begun = self.most = 0

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        self.begun += 1
        self.most = max(self.most, sum(one.status == "RUNNING" for one in trials))
        if self.begun == self.count:
            self.go.touch()


def waiting(go: Path) -> Callable[[dict[str, Any]], None]:
    """A trainable that reports once the file is there."""

    def waits(config: dict[str, Any]) -> None:
        deadline = time.monotonic() + 20
        while not go.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        tune.report({"score": 1})

    return waits


def test_trials_wait_for_resources_beside_those_that_run(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "2")
    go = tmp_path / "go"

    starts = Starts(go, 3)
    grid = fit(
        tune.with_resources(waiting(go), all_cpus()), {}, {"callbacks": [starts]}, num_samples=4
    )
    assert (grid.num_errors, starts.most) == (0, 3), "one runs, two wait"


@pytest.mark.parametrize(("searcher", "most"), [(False, 4), (True, 2)])
def test_auto_lets_all_trials_wait_or_one_that_a_searcher_made(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searcher: bool, most: int
) -> None:
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", "auto")
    go = tmp_path / "go"

    starts = Starts(go, most)
    grid = fit(
        tune.with_resources(waiting(go), all_cpus()),
        None if searcher else {},
        {"callbacks": [starts]},
        num_samples=4,
        search_alg=Saved() if searcher else None,
    )
    assert (grid.num_errors, starts.most) == (0, most)


@pytest.mark.parametrize("shown", ["1", "0"])
def test_an_error_is_logged_when_it_comes(
    fit: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setenv("TUNE_PRINT_ALL_TRIAL_ERRORS", shown)

    def fails(config: dict[str, Any]) -> None:
        raise ValueError("on purpose")

    with caplog.at_level(logging.ERROR):
        grid = fit(fails, {})
    assert grid.num_errors == 1
    assert said(caplog, "ValueError: on purpose") == (shown == "1")


@pytest.mark.parametrize("name", ["TUNE_RESULT_DIR", "RAY_AIR_LOCAL_CACHE_DIR"])
def test_what_no_longer_says_where_files_go_is_refused(
    fit: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/elsewhere")
    with pytest.raises(DeprecationWarning, match=f"{name}.*storage_path"):
        fit(square, {"x": 1})


def test_the_folder_has_no_date_where_none_is_wanted(
    fit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path(fit(square, {"x": 1}, {"name": None}).experiment_path).name != "square"
    monkeypatch.setenv("TUNE_DISABLE_DATED_SUBDIR", "1")
    assert Path(fit(square, {"x": 1}, {"name": None}).experiment_path).name == "square"


class NeverEnds(tune.Trainable):
    def step(self) -> dict[str, Any]:
        return {"score": 1, "done": True}

    def cleanup(self) -> None:
        threading.Event().wait()


def test_a_trial_whose_cleanup_hangs_is_killed(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second trial needs what the first one holds."""
    monkeypatch.setenv("TUNE_FORCE_TRIAL_CLEANUP_S", "0")
    grid = fit(tune.with_resources(NeverEnds, all_cpus()), {}, num_samples=2)
    assert [result.metrics["score"] for result in grid] == [1, 1]


def test_a_function_is_waited_for_as_long_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Thread:
        def join(self, timeout: float) -> None:
            self.timeout = timeout

        def is_alive(self) -> bool:
            return True

    monkeypatch.setenv("TUNE_FUNCTION_THREAD_TIMEOUT_S", "12.5")
    spec = Spec("1", "f_1", "search", {}, "", None, False, thread_s=variables().thread_s)
    run = FunctionRun(square, spec)
    thread = Thread()
    run._thread = thread  # type: ignore[assignment] # all that is asked of it
    assert not run.stop().is_clean
    assert thread.timeout == 12.5


def test_names_of_nested_metrics_are_joined_as_is_said(
    ray_start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas", reason="tables are pandas'")
    analysis = tune.run(
        square,
        config={"x": 1},
        storage_path=str(tmp_path),
        verbose=0,
        metric="score",
        mode="max",
    )
    assert "deep/er" in analysis.results_df
    monkeypatch.setenv("TUNE_RESULT_DELIM", ".")
    assert {"deep.er", "config.x"} <= set(analysis.results_df)
    assert "deep.er" in analysis.best_result_df


class Hears(tune.Callback):
    def on_trial_result(self, **info: Any) -> None:
        pass


def test_what_holds_up_the_search_is_named(
    fit: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_WARN_THRESHOLD_S", "0")
    with caplog.at_level(logging.WARNING):
        fit(square, {"x": 1}, {"callbacks": [Hears()]})
    assert said(caplog, "Hears.on_trial_result took")
    assert said(caplog, "What scheduler and searcher do with a result took")


class Until(tune.Stopper):
    """Ends the search when something is so."""

    def __init__(self, is_so: Callable[[], bool]) -> None:
        self.is_so = is_so

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.is_so()


def test_a_search_that_cannot_begin_says_what_it_lacks(
    fit: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S", "0")
    is_said = Until(lambda: said(caplog, "asks for {'CPU': 1000.0}"))
    with caplog.at_level(logging.WARNING):
        fit(tune.with_resources(square, {"cpu": 1000}), {"x": 1}, {"stop": is_said})
    assert said(caplog, "No trial has begun or reported")


class LosesItsFile(tune.Trainable):
    """Fails behind its first checkpoint; the first load of that fails, too."""

    def setup(self, config: dict[str, Any]) -> None:
        self.mark = Path(config["folder"])

    def step(self) -> dict[str, Any]:
        if self.iteration == 1 and not (self.mark / "failed").exists():
            (self.mark / "failed").touch()
            raise ValueError("once")
        return {"score": self.iteration, "done": self.iteration == 2}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"kept": True}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if not (self.mark / "lost").exists():
            (self.mark / "lost").touch()
            raise OSError("the file is not there yet")


@pytest.mark.parametrize("retries", ["0", "1"])
def test_a_checkpoint_that_cannot_be_loaded_is_tried_again(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: str
) -> None:
    monkeypatch.setenv("TUNE_RESTORE_RETRY_NUM", retries)
    run = {
        "failure_config": tune.FailureConfig(max_failures=1),
        "checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=1),
    }
    marks = tmp_path / "marks"
    marks.mkdir()
    grid = fit(LosesItsFile, {"folder": str(marks)}, run)
    assert grid.num_errors == (1 if retries == "0" else 0)
    if grid.errors:
        assert "OSError: the file is not there yet" in str(grid.errors[0])


def test_a_checkpoint_keeps_only_its_score(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNE_ONLY_STORE_CHECKPOINT_SCORE_ATTRIBUTE", "1")
    kept = tune.CheckpointConfig(
        checkpoint_frequency=1, num_to_keep=2, checkpoint_score_attribute="score"
    )

    class Steps(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"score": self.iteration, "large": "x" * 100, "done": self.iteration == 3}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {}

    (result,) = fit(Steps, {}, {"checkpoint_config": kept})
    assert [metrics["score"] for _, metrics in result.best_checkpoints] == [2, 3]
    assert not any("large" in metrics for _, metrics in result.best_checkpoints)
    assert result.metrics["large"]


class Saved(tune.search.Searcher):
    """Counts how often its state was kept."""

    saves = 0

    def suggest(self, trial_id: str) -> dict[str, Any]:
        return {"x": 1}

    def on_trial_complete(self, trial_id: str, *args: Any, **kwargs: Any) -> None:
        pass

    def save(self, checkpoint_path: str) -> None:
        self.saves += 1


@pytest.mark.parametrize("every", ["0", "3600"])
def test_the_searcher_is_kept_as_often_as_is_said(
    fit: Any, monkeypatch: pytest.MonkeyPatch, every: str
) -> None:
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", every)
    searcher = Saved()
    fit(square, None, search_alg=searcher, num_samples=4, max_concurrent_trials=None)
    assert searcher.saves > 1 if every == "0" else searcher.saves == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TUNE_MAX_PENDING_TRIALS_PG", "many"),
        ("TUNE_MAX_PENDING_TRIALS_PG", "1.5"),
        ("TUNE_MAX_PENDING_TRIALS_PG", "Auto"),
        ("TUNE_PRINT_ALL_TRIAL_ERRORS", "2"),
        ("TUNE_STATE_REFRESH_PERIOD", "-1"),
        ("TUNE_GLOBAL_CHECKPOINT_S", "nan"),
    ],
)
def test_a_value_that_makes_no_sense_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name}='{value}' must be"):
        variables()


def test_auto_is_what_is_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = variables()
    monkeypatch.setenv("TUNE_GLOBAL_CHECKPOINT_S", "auto")
    assert variables() == usual
