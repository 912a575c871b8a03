"""Validation tasks: metrics that come to a checkpoint after it was reported."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointConsistencyMode,
    FailureConfig,
    ReportedCheckpointStatus,
    Result,
    ValidationConfig,
    ValidationTaskConfig,
    WorkerGroupError,
    get_all_reported_checkpoints,
)

pytestmark = pytest.mark.usefixtures("quiet")


def squared(checkpoint: Checkpoint, plus: int = 0) -> dict[str, float]:
    """The validation function of these tests."""
    with checkpoint.as_directory() as folder:
        value = int(Path(folder, "value").read_text())
    if value == 13:
        raise ValueError("thirteen")
    if value == 99:
        threading.Event().wait(60)
    return {"squared": value * value + plus}


def report(value: int, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "value").write_text(str(value))
        train.report({"value": value}, checkpoint=Checkpoint.from_directory(folder), **options)


def config(**options: Any) -> dict[str, Any]:
    return {"validation_config": ValidationConfig(squared, **options)}


@pytest.mark.contract("F9.19", "F9.22")
def test_metrics_of_a_validation_are_added(fit: Any) -> None:
    def loop() -> list[Any]:
        report(3, validation=True)
        report(4, validation=ValidationTaskConfig(fn_kwargs={"plus": 100}))
        report(5)
        found = get_all_reported_checkpoints(CheckpointConsistencyMode.VALIDATED)
        return [(c.metrics, c.status) for c in found]

    default = ValidationTaskConfig(fn_kwargs={"plus": 1})
    result = fit(loop, 2, trainer=config(task_config=default, ray_remote_kwargs={"num_cpus": 0}))
    validated, committed = ReportedCheckpointStatus.VALIDATED, ReportedCheckpointStatus.COMMITTED
    assert result.return_value == [
        ({"value": 3, "squared": 10}, validated),
        ({"value": 4, "squared": 116}, validated),
        ({"value": 5}, committed),
    ]
    assert [m.get("squared") for _, m in result.best_checkpoints] == [10, 116, None]
    assert result.get_best_checkpoint("squared", "max").path == result.best_checkpoints[1][0].path


@pytest.mark.contract("F9.22")
def test_the_best_by_validation_are_kept(fit: Any) -> None:
    """What waits for its validation is not removed before it is known how good it is."""

    def loop() -> None:
        for value in (9, 2, 3):
            report(value, validation=True)

    keep = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="squared")
    result = fit(loop, 1, trainer=config(), checkpoint_config=keep)
    # The best, and the latest.
    assert sorted(m["value"] for _, m in result.best_checkpoints) == [3, 9]
    assert len(list(Path(result.path).glob("checkpoint_2*"))) == 2


@pytest.mark.contract("F9.22")
def test_validations_that_fail_or_take_too_long(fit: Any) -> None:
    """The training goes on; the status says what happened, also to a later run."""

    def loop() -> list[str]:
        report(13, validation=True)
        report(99, validation=ValidationTaskConfig(timeout_s=0.5))
        report(1, validation=True)
        return [c.status.value for c in get_all_reported_checkpoints()]

    statuses = ["VALIDATION_FAILED", "VALIDATION_TIMEOUT", "VALIDATED"]
    result = fit(loop, 1, trainer=config())
    assert result.return_value == statuses
    snapshot = json.loads(Path(result.path, "checkpoint_manager_snapshot.json").read_text())
    assert [
        len(snapshot[f"{kind}validat{rest}"])
        for kind, rest in (
            ("failed_", "ion_checkpoint_dir_names"),
            ("timed_out_", "ion_checkpoint_dir_names"),
            ("", "ed_checkpoint_dir_names"),
        )
    ] == [1, 1, 1]

    def look() -> list[str]:
        return [c.status.value for c in get_all_reported_checkpoints()]

    assert fit(look, 1, trainer=config()).return_value == statuses
    assert Result.from_path(result.path).metrics["squared"] == 1


@pytest.mark.contract("F9.22")
def test_validations_outlive_a_failure_of_the_group(fit: Any, tmp_path: Path) -> None:
    died = tmp_path / "died"

    def loop() -> None:
        if not died.exists():
            report(3, validation=True)
            died.write_text("")
            os._exit(1)

    result = fit(loop, 1, trainer=config(), failure_config=FailureConfig(max_failures=1))
    assert result.metrics == {"value": 3, "squared": 9}


@pytest.mark.contract("F9.22")
def test_what_validation_needs(fit: Any) -> None:
    def without_checkpoint() -> None:
        train.report({"a": 1}, validation=True)

    with pytest.raises(WorkerGroupError) as caught:
        fit(without_checkpoint, 1, trainer=config())
    assert isinstance(caught.value.worker_failures[0], ValueError)

    def without_config() -> None:
        report(1, validation=True)

    with pytest.raises(WorkerGroupError, match="validation_config=ValidationConfig"):
        fit(without_config, 1, name="other")


@pytest.mark.contract("F9.22", "F9.25")
@pytest.mark.heliostat_only("Ray starts a task")
def test_in_this_process(fit: Any) -> None:
    result = fit(lambda: report(3, validation=True), 0, trainer=config())
    assert result.metrics == {"value": 3, "squared": 9}
