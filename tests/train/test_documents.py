"""The training scripts of the reference documents, as written, on CPUs and small real data."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest
import ray
import ray.train
import ray.train.torch
from ray import train
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.usefixtures("quiet", "ray_start"),
    pytest.mark.timeout(150),
]


@pytest.mark.contract("F9.01", "F9.05", "F9.15", "F9.29", "F9.30")
def test_001_data_parallel_vision_transformer(tmp_path: Path) -> None:
    """Digits instead of CIFAR-10, one epoch, four workers."""
    pytest.importorskip("torchvision")

    def get_dataloaders(batch_size: int) -> Any:
        from sklearn.datasets import load_digits
        from torch.utils.data import DataLoader, TensorDataset

        digits = load_digits()
        images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
        images = images.expand(-1, 3, -1, -1)[:512].contiguous()
        labels = torch.tensor(digits.target)[:512]
        data = TensorDataset(images, labels)
        return (
            DataLoader(data, batch_size=batch_size, shuffle=True),
            DataLoader(data, batch_size=batch_size),
        )

    def train_func_per_worker(config: dict[str, Any]) -> None:
        from torch import nn
        from torchvision.models import VisionTransformer

        lr = config["lr"]
        epochs = config["epochs"]
        batch_size = config["batch_size_per_worker"]
        train_dataloader, valid_dataloader = get_dataloaders(batch_size=batch_size)
        train_dataloader = ray.train.torch.prepare_data_loader(train_dataloader)
        valid_dataloader = ray.train.torch.prepare_data_loader(valid_dataloader)
        model = VisionTransformer(
            image_size=8,
            patch_size=4,
            num_layers=2,
            num_heads=2,
            hidden_dim=32,
            mlp_dim=64,
            num_classes=10,
        )
        model = ray.train.torch.prepare_model(model)
        loss_fn = nn.CrossEntropyLoss()
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
        for epoch in range(epochs):
            if ray.train.get_context().get_world_size() > 1:
                train_dataloader.sampler.set_epoch(epoch)
            model.train()
            for X, y in train_dataloader:
                pred = model(X)
                loss = loss_fn(pred, y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            model.eval()
            valid_loss, num_correct, num_total = 0, 0, 0
            with torch.no_grad():
                for X, y in valid_dataloader:
                    pred = model(X)
                    loss = loss_fn(pred, y)
                    valid_loss += loss.item()
                    num_total += y.shape[0]
                    num_correct += (pred.argmax(1) == y).sum().item()
            valid_loss /= len(train_dataloader)
            accuracy = num_correct / num_total
            with tempfile.TemporaryDirectory() as temp_checkpoint_dir:
                torch.save(model.module.state_dict(), os.path.join(temp_checkpoint_dir, "model.pt"))
                ray.train.report(
                    metrics={"loss": valid_loss, "accuracy": accuracy},
                    checkpoint=ray.train.Checkpoint.from_directory(temp_checkpoint_dir),
                )
                if ray.train.get_context().get_world_rank() == 0:
                    print({"epoch_num": epoch, "loss": valid_loss, "accuracy": accuracy})

    num_workers = 4
    trainer = TorchTrainer(
        train_loop_per_worker=train_func_per_worker,
        train_loop_config={"lr": 1e-3, "epochs": 1, "batch_size_per_worker": 128 // num_workers},
        scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=False),
        run_config=RunConfig(name=f"train_run-{uuid.uuid4().hex}", storage_path=str(tmp_path)),
    )
    result = trainer.fit()
    assert set(result.metrics) == {"loss", "accuracy"}
    assert result.checkpoint is not None
    with result.checkpoint.as_directory() as folder:
        assert "class_token" in torch.load(os.path.join(folder, "model.pt"))
    assert "accuracy" in f"Training result: {result}"


@pytest.mark.contract("F9.01", "F9.15")
@pytest.mark.heliostat_only("result.metrics is None on Ray")
def test_003_metrics_without_checkpoints(tmp_path: Path) -> None:
    def train_loop_per_worker(config: dict[str, Any]) -> None:
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        model = nn.Linear(config["input_size"], config["output_size"])
        model = train.torch.prepare_model(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
        loss_fn = nn.MSELoss()
        X = torch.randn(1000, config["input_size"])
        y = torch.randn(1000, config["output_size"])
        dataset = TensorDataset(X, y)
        loader = DataLoader(dataset, batch_size=config["batch_size"])
        loader = train.torch.prepare_data_loader(loader)
        for epoch in range(config["epochs"]):
            total_loss = 0
            for batch_X, batch_y in loader:
                optimizer.zero_grad()
                pred = model(batch_X)
                loss = loss_fn(pred, batch_y)
                loss.backward()
                optimizer.step()
                total_loss += loss.item()
            train.report({"loss": total_loss / len(loader), "epoch": epoch})

    trainer = TorchTrainer(
        train_loop_per_worker=train_loop_per_worker,
        train_loop_config={
            "input_size": 128,
            "output_size": 10,
            "lr": 1e-3,
            "batch_size": 64,
            "epochs": 10,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(tmp_path)),
    )
    result = trainer.fit()
    assert f"Final loss: {result.metrics['loss']:.4f}"
    table = result.metrics_dataframe[["epoch", "loss"]].tail()
    assert list(table["epoch"]) == [5, 6, 7, 8, 9]
    assert result.metrics_dataframe["loss"].iloc[-1] < result.metrics_dataframe["loss"].iloc[0]


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


@pytest.mark.contract("F9.26", "F9.27", "F9.31")
def test_004_the_process_group_and_fsdp(tmp_path: Path) -> None:
    def train_loop_per_worker() -> int:
        import torch.distributed as dist
        from torch import nn
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

        model = FSDP(nn.Linear(64, 64), device_id=torch.device("cpu"))
        model(torch.ones(2, 64)).sum().backward()
        if dist.get_rank() == 0:
            print("I am the rank-0 worker")
        return dist.get_world_size()

    trainer = TorchTrainer(
        train_loop_per_worker,
        torch_config=TorchConfig(backend="gloo", timeout_s=1800),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(tmp_path)),
    )
    assert trainer.fit().return_value == 2
