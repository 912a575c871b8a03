"""A Vision Transformer on handwritten digits, with four workers, one of which is lost on the way.

python examples/vit_digits.py
python examples/vit_digits.py --workers 2 --epochs 30 --no-loss

The data are the 1,797 images that come with scikit-learn, 8 x 8 points each. In the middle of the
training one worker is killed; the others keep their processes, a new one takes its place, and the
run goes on from the last checkpoint. The test accuracy reaches 0.90.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import heliostat as ray
import heliostat.train
import heliostat.train.torch
from heliostat.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer

TEST_IMAGES = 360


def get_dataloaders(batch_size: int) -> tuple[Any, Any]:
    """The images as loaders for training and for testing."""
    import torch
    from sklearn.datasets import load_digits
    from torch.utils.data import DataLoader, TensorDataset

    digits = load_digits()
    images = torch.tensor(digits.images / 8 - 1, dtype=torch.float32).unsqueeze(1)
    images = images.expand(-1, 3, -1, -1).contiguous()
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch_size, shuffle=True),
        DataLoader(TensorDataset(images[test], labels[test]), batch_size),
    )


def train_func_per_worker(config: dict[str, Any]) -> None:
    """What every worker runs."""
    import torch
    from torch import nn
    from torchvision.models import VisionTransformer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    train_dataloader, valid_dataloader = get_dataloaders(config["batch_size_per_worker"])
    # Each worker gets its own rows.
    train_dataloader = heliostat.train.torch.prepare_data_loader(train_dataloader)
    valid_dataloader = heliostat.train.torch.prepare_data_loader(valid_dataloader)
    model = VisionTransformer(
        image_size=8,
        patch_size=2,
        num_layers=4,
        num_heads=4,
        hidden_dim=64,
        mlp_dim=128,
        num_classes=10,
    )
    # Gradients are averaged over the workers.
    model = heliostat.train.torch.prepare_model(model)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"], weight_decay=1e-2)
    context = heliostat.train.get_context()

    # After a loss: go on behind the last checkpoint.
    first_epoch = 0
    checkpoint = heliostat.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "model.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch = state["epoch"] + 1
        if context.get_world_rank() == 0:
            print(f"going on with epoch {first_epoch}")

    for epoch in range(first_epoch, config["epochs"]):
        if context.get_world_size() > 1:
            train_dataloader.sampler.set_epoch(epoch)
        model.train()
        total_loss = 0.0
        for number, (images, labels) in enumerate(train_dataloader):
            if number == 2:
                lose_a_worker(config, epoch, context.get_world_rank())
            loss = loss_fn(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
        metrics = {
            "epoch": epoch,
            "loss": total_loss / len(train_dataloader),
            "accuracy": accuracy(model, valid_dataloader),
        }
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if context.get_world_rank() == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                }
                torch.save(state, os.path.join(folder, "model.pt"))
                checkpoint = heliostat.train.Checkpoint.from_directory(folder)
            heliostat.train.report(metrics=metrics, checkpoint=checkpoint)


def accuracy(model: Any, loader: Any) -> float:
    """The share of right answers over the test images of all workers."""
    import torch
    import torch.distributed as dist

    model.eval()
    counts = torch.zeros(2)
    with torch.no_grad():
        for images, labels in loader:
            right = (model(images).argmax(1) == labels).sum().item()
            counts += torch.tensor([right, len(labels)])
    dist.all_reduce(counts)
    return float(counts[0] / counts[1])


def lose_a_worker(config: dict[str, Any], epoch: int, rank: int) -> None:
    """Once, in the middle: the last worker dies as by the hand of an operator."""
    marker = Path(config["marker"])
    if epoch == config["lose_in_epoch"] and rank == config["lose_rank"] and not marker.exists():
        marker.write_text("")
        print(f"rank {rank} is killed now, in epoch {epoch}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Train, and say where everything is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--no-loss", action="store_true", help="do not kill a worker")
    parser.add_argument("--accuracy", type=float, default=0.90, help="below it the exit code is 1")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1), ignore_reinit_error=True)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = TorchTrainer(
            train_loop_per_worker=train_func_per_worker,
            train_loop_config={
                "lr": 1e-3,
                "epochs": options.epochs,
                "batch_size_per_worker": 128 // options.workers,
                "lose_in_epoch": -1 if options.no_loss else options.epochs // 2,
                "lose_rank": options.workers - 1,
                "marker": os.path.join(scratch, "killed"),
            },
            scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=False),
            run_config=RunConfig(
                name=f"vit_digits-{uuid.uuid4().hex[:8]}",
                storage_path=options.storage,
                failure_config=FailureConfig(max_failures=1),
                checkpoint_config=CheckpointConfig(
                    num_to_keep=2, checkpoint_score_attribute="accuracy"
                ),
            ),
        )
        result = trainer.fit()
    ray.shutdown()

    best, metrics = max(result.best_checkpoints, key=lambda pair: pair[1]["accuracy"])
    print(result)
    print(f"test accuracy    {metrics['accuracy']:.3f}, after epoch {metrics['epoch']}")
    print(f"best checkpoint  {best.path}")
    print(f"page of the run  {result.page}")
    return 0 if metrics["accuracy"] >= options.accuracy else 1


if __name__ == "__main__":
    sys.exit(main())
