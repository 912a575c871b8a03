"""A function as a class with steps, which a program drives itself (F11.08)."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import tune
from ray.tune.trainable import wrap_function

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def counts(config: dict[str, Any]) -> None:
    begin = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        begin = int(Path(checkpoint.path, "at").read_text())
    for i in range(begin, config.get("steps", 3)):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "at").write_text(str(i + 1))
            kept = tune.Checkpoint.from_directory(folder)
            tune.report({"i": i, "pid": os.getpid()}, checkpoint=kept)


def test_each_step_is_a_report() -> None:
    trial = wrap_function(counts)(config={"steps": 2})
    results = [trial.train() for _ in range(3)]
    assert [(one["i"], one["training_iteration"], one["done"]) for one in results] == [
        (0, 1, False),
        (1, 2, False),
        (1, 3, True),
    ]
    assert results[0]["pid"] == os.getpid()
    trial.stop()


def test_a_step_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    kind = wrap_function(counts, name="counting")
    assert kind.__name__ == "counting"
    first = kind(config={})
    first.train()
    saved = first.save(str(tmp_path))
    first.stop()
    second = kind(config={})
    second.restore(saved.path)
    assert second.train()["i"] == 1
    assert second.reset({"steps": 1})
    assert second.train()["i"] == 0
    assert second.train()["done"]
    second.stop()
    # Whoever asks now is in no trial any more.
    assert tune.get_context().get_trial_id() is None


def test_what_the_function_raises_is_raised() -> None:
    def fails(config: dict[str, Any]) -> None:
        tune.report({"i": 1})
        raise KeyError("lost")

    trial = wrap_function(fails)()
    assert trial.train()["i"] == 1
    with pytest.raises(KeyError, match="lost"):
        trial.train()
    trial.stop()
    with pytest.raises(ValueError, match="config"):
        wrap_function(lambda a, b: None)


def test_a_tuner_runs_the_function_itself(fit: Any) -> None:
    (result,) = fit(wrap_function(counts), {"steps": 2}, metric="i")
    assert [row["i"] for row in result.metrics_dataframe.to_dict("records")] == [0, 1]
