"""The training scripts of the reference documents, as written, on CPUs and small real data."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("quiet", "ray_start"),
]


@pytest.mark.contract("F9.15", "F9.17")
@pytest.mark.heliostat_only("Ray hangs")
@pytest.mark.parametrize("with_steps", [False, True])
def test_003_checkpoints_on_rank_0_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_steps: bool
) -> None:
    """As written, and with the training loop that the document leaves out."""
    monkeypatch.setenv("HELIOSTAT_TRAIN_SOLO_REPORT_S", "1")

    def train_loop_per_worker(config: dict[str, Any]) -> None:
        from torch import nn

        model = nn.Linear(config["input_size"], config["output_size"])
        model = train.torch.prepare_model(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
        checkpoint = train.get_checkpoint()
        start_epoch = 0
        if checkpoint:
            with checkpoint.as_directory() as ckpt_dir:
                state = torch.load(os.path.join(ckpt_dir, "checkpoint.pt"))
                model.load_state_dict(state["model"])
                optimizer.load_state_dict(state["optimizer"])
                start_epoch = state["epoch"] + 1
        for epoch in range(start_epoch, config["epochs"]):
            if with_steps:
                for _ in range(3):
                    optimizer.zero_grad()
                    model(torch.ones(4, config["input_size"])).sum().backward()
                    optimizer.step()
            if train.get_context().get_world_rank() == 0:
                with tempfile.TemporaryDirectory() as tmpdir:
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "epoch": epoch,
                        },
                        os.path.join(tmpdir, "checkpoint.pt"),
                    )
                    train.report({"loss": 0.0}, checkpoint=Checkpoint.from_directory(tmpdir))

    def fit(epochs: int) -> Any:
        return TorchTrainer(
            train_loop_per_worker=train_loop_per_worker,
            train_loop_config={"input_size": 8, "output_size": 2, "lr": 1e-3, "epochs": epochs},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="again", storage_path=str(tmp_path)),
        ).fit()

    result = fit(3)
    best_checkpoint = result.best_checkpoints[0][0]
    assert os.path.exists(os.path.join(best_checkpoint.path, "checkpoint.pt"))
    assert len(result.best_checkpoints) == 3
    # The same name resumes behind epoch 2.
    assert len(fit(4).best_checkpoints) == 4
