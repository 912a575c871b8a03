"""The files of a trial for other programs, and loggers of users (contract F11.08)."""

from __future__ import annotations

import csv
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune.logger import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    TBXLoggerCallback,
)

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def counts(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"score": step, "in": {"deep": step * 2}, "text": "a,b", "many": [1.0, 2.0]})


def rows_of(folder: str) -> list[dict[str, str]]:
    with open(Path(folder, "progress.csv"), newline="") as file:
        return list(csv.DictReader(file))


def test_a_trial_has_a_table_of_its_reports(fit: Any) -> None:
    (result,) = fit(counts)
    rows = rows_of(result.path)
    assert [row["score"] for row in rows] == ["0", "1", "2"]
    assert [row["in/deep"] for row in rows] == ["0", "2", "4"]
    assert {row["text"] for row in rows} == {"a,b"}
    assert [row["training_iteration"] for row in rows] == ["1", "2", "3"]
    assert "config" not in rows[0]


def test_files_that_are_asked_for_are_written_once(fit: Any) -> None:
    (result,) = fit(counts, run={"callbacks": [CSVLoggerCallback(), JsonLoggerCallback()]})
    assert len(rows_of(result.path)) == 3
    assert len(Path(result.path, "result.json").read_text().splitlines()) == 3


def test_the_columns_stay_when_a_trial_is_tried_again(fit: Any) -> None:
    def fails_once(config: dict[str, Any]) -> None:
        again = Path("begun").exists()
        tune.report({"score": 1, "late": 2} if again else {"score": 0})
        if not again:
            Path("begun").touch()
            raise ValueError("once")

    (result,) = fit(fails_once, run={"failure_config": tune.FailureConfig(max_failures=1)})
    rows = rows_of(result.path)
    assert [row["score"] for row in rows] == ["0", "1"]
    assert "late" not in rows[0]


def test_a_logger_of_the_user_hears_of_each_trial(fit: Any) -> None:
    class Listens(LoggerCallback):
        def __init__(self) -> None:
            self.heard: dict[Any, list[str]] = {}

        def log_trial_start(self, trial: Any) -> None:
            self.heard[trial] = [f"start {trial.config['x']}"]

        def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
            self.heard[trial].append(f"result {result['score']}")

        def log_trial_end(self, trial: Any, failed: bool = False) -> None:
            self.heard[trial].append(f"end {failed}")

    def fails(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"]})
        if config["x"] == 2:
            raise ValueError("two is bad")

    logger = Listens()
    fit(fails, {"x": tune.grid_search([1, 2])}, run={"callbacks": [logger]})
    assert sorted(logger.heard.values()) == [
        ["start 1", "result 1", "end False"],
        ["start 2", "result 2", "end True"],
    ]


def test_tensorboard_has_the_numbers(fit: Any) -> None:
    pytest.importorskip("tensorboardX", reason="event files are written by tensorboardX")
    chosen = {"rate": tune.grid_search([0.5])}
    (result,) = fit(counts, chosen, run={"callbacks": [TBXLoggerCallback()]})
    (events,) = Path(result.path).glob("events.out.tfevents.*")
    data = events.read_bytes()
    assert b"ray/tune/score" in data
    assert b"ray/tune/in/deep" in data
    assert b"ray/tune/many" in data
    assert b"ray/tune/text" not in data
    assert b"_hparams_/session_start_info" in data
    assert b"rate" in data


def test_loggers_write_without_a_search(tmp_path: Path) -> None:
    trial: Any = type(
        "Trial", (), {"local_path": str(tmp_path), "config": {"x": 2}, "trial_id": "t"}
    )()
    for logger in (JsonLoggerCallback(), CSVLoggerCallback()):
        logger.on_trial_start(0, [], trial)
        for score in (4, 5, 6):
            logger.on_trial_result(score, [], trial, {"score": score, "config": {"x": 2}})
        logger.on_trial_complete(0, [], trial)
    assert json.loads((tmp_path / "params.json").read_text()) == {"x": 2}
    assert pickle.loads((tmp_path / "params.pkl").read_bytes()) == {"x": 2}
    lines = (tmp_path / "result.json").read_text().splitlines()
    assert [json.loads(line)["score"] for line in lines] == [4, 5, 6]
    with open(tmp_path / "progress.csv", newline="") as file:
        assert [row["score"] for row in csv.DictReader(file)] == ["4", "5", "6"]
