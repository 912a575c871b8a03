"""Training libraries and trainers whose reports go to the trial that runs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from ray import train, tune
from ray.train.torch import TorchTrainer

from tests.helpers.harness import wait_until

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def saved(result: Any) -> list[str]:
    """The names of the files in the last checkpoint."""
    with result.checkpoint.as_directory() as folder:
        return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.contract("F11.08")
@pytest.mark.parametrize(
    ("library", "name", "rounds"), [("xgboost", "model.ubj", 3), ("lightgbm", "m.txt", 4)]
)
def test_boosting(fit: Any, library: str, name: str, rounds: int) -> None:
    pytest.importorskip(library, reason=f"needs {library}")

    def trial(config: dict[str, Any]) -> None:
        import importlib

        import numpy as np

        module = importlib.import_module(f"ray.tune.integration.{config['library']}")
        library = importlib.import_module(config["library"])
        x, y = np.arange(40.0).reshape(-1, 1), (np.arange(40) > 19).astype(int)
        if config["library"] == "xgboost":
            rows = library.DMatrix(x, label=y)
            library.train(
                {"objective": "binary:logistic", "nthread": 1},
                rows,
                config["rounds"],
                evals=[(rows, "eval")],
                verbose_eval=False,
                callbacks=[module.TuneReportCheckpointCallback({"score": "eval-logloss"})],
            )
        else:
            library.train(
                {"objective": "binary", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 1},
                library.Dataset(x, y),
                config["rounds"],
                valid_sets=[library.Dataset(x, y)],
                valid_names=["eval"],
                callbacks=[
                    module.TuneReportCheckpointCallback(
                        {"score": "eval-binary_logloss"}, filename="m.txt", frequency=2
                    )
                ],
            )

    (result,) = fit(trial, {"library": library, "rounds": rounds}, mode="min")
    assert result.error is None
    assert len(result.metrics_dataframe) >= rounds
    assert 0 < result.metrics["score"] < 0.7
    assert saved(result) == [name]


@pytest.mark.contract("F11.08")
def test_lightning(fit: Any) -> None:
    pytest.importorskip("lightning", reason="needs Lightning")

    def trial(config: dict[str, Any]) -> None:
        import lightning.pytorch as pl
        import torch
        from ray.tune.integration.pytorch_lightning import TuneReportCheckpointCallback

        class Line(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)

            def training_step(self, batch: Any, index: int) -> Any:
                return self.layer(batch).sum()

            def validation_step(self, batch: Any, index: int) -> None:
                self.log("val", float(self.current_epoch))

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), config["lr"])

        rows = torch.utils.data.DataLoader(torch.ones(4, 1), batch_size=2)
        pl.Trainer(
            max_epochs=3,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[TuneReportCheckpointCallback({"score": "val"}, filename="model.ckpt")],
        ).fit(Line(), rows, rows)

    (result,) = fit(trial, {"lr": 0.1})
    assert result.error is None
    # The sanity check before the first epoch is not reported.
    assert list(result.metrics_dataframe["score"]) == [0, 1, 2]
    assert saved(result) == ["model.ckpt"]


@pytest.mark.contract("F11.08")
def test_a_hook_that_lightning_does_not_have() -> None:
    pytest.importorskip("lightning", reason="needs Lightning")
    from ray.tune.integration.pytorch_lightning import TuneReportCheckpointCallback

    with pytest.raises(ValueError, match="validation_start"):
        TuneReportCheckpointCallback(on="validation_begin")


def counted(config: dict[str, Any]) -> None:
    import os
    import tempfile

    rank = train.get_context().get_world_rank()
    for step in range(config["steps"]):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            kept = train.Checkpoint.from_directory(folder) if rank == 0 else None
            train.report({"score": config["x"] * step, "pid": os.getpid()}, checkpoint=kept)


@pytest.mark.contract("F11.01", "F9.17")
def test_reports_of_a_trainer_reach_the_search(fit: Any, tmp_path: Path) -> None:
    def trial(config: dict[str, Any]) -> None:
        from ray.tune.integration.ray_train import TuneReportCallback

        TorchTrainer(
            counted,
            train_loop_config=config,
            scaling_config=train.ScalingConfig(num_workers=1),
            run_config=train.RunConfig(
                storage_path=config["storage"],
                name=f"run-{config['x']}",
                callbacks=[TuneReportCallback()],
            ),
        ).fit()

    space = {"x": tune.grid_search([1, 2]), "steps": 3, "storage": str(tmp_path)}
    grid = fit(trial, space)
    assert grid.errors == []
    assert [list(result.metrics_dataframe["score"]) for result in grid] == [[0, 1, 2], [0, 2, 4]]
    best = grid.get_best_result()
    assert Path(best.metrics["checkpoint_path"], "step").read_text() == "2"


@pytest.mark.contract("F11.06")
def test_a_trial_that_is_stopped_ends_its_trainer(fit: Any, tmp_path: Path) -> None:
    def trial(config: dict[str, Any]) -> None:
        from ray.tune.integration.ray_train import TuneReportCallback

        TorchTrainer(
            counted,
            train_loop_config=config,
            scaling_config=train.ScalingConfig(num_workers=1),
            run_config=train.RunConfig(
                storage_path=config["storage"], name="run", callbacks=[TuneReportCallback()]
            ),
        ).fit()

    space = {"x": 1, "steps": 1_000_000, "storage": str(tmp_path)}
    (result,) = fit(trial, space, run={"stop": {"training_iteration": 3}})
    assert result.error is None
    assert list(result.metrics_dataframe["score"]) == [0, 1, 2]
    for pid in set(result.metrics_dataframe["pid"]):
        wait_until(lambda: not Path(f"/proc/{pid}").exists())  # noqa: B023 # called at once


def test_outside_of_a_trial() -> None:
    from ray.tune.integration.ray_train import TuneReportCallback

    with pytest.raises(RuntimeError, match="in a Tune session"):
        TuneReportCallback()
