"""Training on a cluster: metrics, checkpoints, and going on after a failure.

python examples/cluster_training.py
python examples/cluster_training.py --address auto --workers 4
python examples/cluster_training.py --address auto --workers 4 --gpu

Without an address a cluster of this machine is started for the time of the run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from typing import Any

import heliostat as ray
from heliostat import train
from heliostat.train import Checkpoint, RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer


def train_loop_per_worker(config: dict[str, Any]) -> None:
    """A linear model on random numbers: the loop is what matters here."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    # The process group is there: no dist.init_process_group().
    model = nn.Linear(config["input_size"], config["output_size"])
    model = train.torch.prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    loss_fn = nn.MSELoss()

    rows = torch.randn(1000, config["input_size"])
    dataset = TensorDataset(rows, rows @ torch.randn(config["input_size"], config["output_size"]))
    loader = DataLoader(dataset, batch_size=config["batch_size"])
    loader = train.torch.prepare_data_loader(loader)  # each worker has its own rows

    # Go on where an earlier run of this name, or an earlier attempt, has stopped.
    checkpoint = train.get_checkpoint()
    start_epoch = 0
    if checkpoint:
        with checkpoint.as_directory() as ckpt_dir:
            state = torch.load(os.path.join(ckpt_dir, "checkpoint.pt"))
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            start_epoch = state["epoch"] + 1

    for epoch in range(start_epoch, config["epochs"]):
        total_loss = 0.0
        for batch_x, batch_y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(batch_x), batch_y)
            loss.backward()
            optimizer.step()
            total_loss += loss.item()
        metrics = {"loss": total_loss / len(loader), "epoch": epoch}

        # Rank 0 saves, every rank reports: the ranks stay in step.
        with tempfile.TemporaryDirectory() as tmpdir:
            checkpoint = None
            if train.get_context().get_world_rank() == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                }
                torch.save(state, os.path.join(tmpdir, "checkpoint.pt"))
                checkpoint = Checkpoint.from_directory(tmpdir)
            train.report(metrics, checkpoint=checkpoint)


def main() -> None:
    """Train, then look at the checkpoints and the course of the loss."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--address", help="'auto' for the running cluster, or HOST:PORT")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--storage", help="folder for the runs, seen by all nodes")
    options = parser.parse_args()

    if options.address:
        ray.init(address=options.address)
    else:
        ray.init(num_cpus=max(options.workers, os.cpu_count() or 1))
    trainer = TorchTrainer(
        train_loop_per_worker=train_loop_per_worker,
        train_loop_config={
            "input_size": 128,
            "output_size": 10,
            "lr": 1e-2,
            "batch_size": 64,
            "epochs": options.epochs,
        },
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
        run_config=RunConfig(storage_path=options.storage),
    )
    result = trainer.fit()
    assert result.metrics is not None
    print(f"Final loss: {result.metrics['loss']:.4f}")
    print(f"First checkpoint: {result.best_checkpoints[0][0]}")
    print(f"Latest checkpoint: {result.checkpoint}")
    frame = result.metrics_dataframe
    assert frame is not None
    print(f"Metrics:\n{frame[['epoch', 'loss']].tail()}")
    ray.shutdown()


if __name__ == "__main__":
    main()
