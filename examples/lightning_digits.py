"""PyTorch Lightning on the workers of a run: DDP, FSDP and DeepSpeed by its own strategies.

python examples/lightning_digits.py                        # DDP, then FSDP, on CPUs
python examples/lightning_digits.py --only fsdp
python examples/lightning_digits.py --workers 4 --gpu      # DeepSpeed, too

Lightning keeps its Trainer, its module and its loops; the run gives it processes, ranks, devices,
and takes its metrics and checkpoints.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import heliostat as ray
from heliostat.train import CheckpointConfig, RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer

STRATEGIES = ("ddp", "fsdp", "deepspeed")


def make_strategy(name: str) -> Any:
    """Lightning's strategy on this worker's rank and device."""
    from heliostat.train import lightning

    if name == "fsdp":
        return lightning.RayFSDPStrategy()
    if name == "deepspeed":
        return lightning.RayDeepSpeedStrategy(stage=3)
    return lightning.RayDDPStrategy()


def make_module() -> Any:
    """A small network for the 8 x 8 points of handwritten digits."""
    import lightning.pytorch as pl
    import torch
    from torch import nn

    class Digits(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            images, labels = batch
            answers = self.net(images)
            loss = nn.functional.cross_entropy(answers, labels)
            right = (answers.argmax(1) == labels).float().mean()
            self.log_dict({"loss": loss, "accuracy": right}, on_epoch=True, on_step=False)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    return Digits()


def train_func(config: dict[str, Any]) -> dict[str, Any]:
    """What every worker runs."""
    import warnings

    import lightning.pytorch as pl
    import torch
    from heliostat.train import lightning
    from sklearn.datasets import load_digits
    from torch.utils.data import DataLoader, TensorDataset

    warnings.simplefilter("ignore")  # hints of Lightning on loaders and loggers
    torch.set_num_threads(1)
    pl.seed_everything(0, verbose=False)
    data = load_digits()
    rows = TensorDataset(
        torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    )
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="auto" if config["gpu"] else "cpu",
        devices="auto" if config["gpu"] else 1,
        strategy=make_strategy(config["strategy"]),
        plugins=[lightning.RayLightningEnvironment()],
        callbacks=[lightning.RayTrainReportCallback()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
    )
    trainer = lightning.prepare_trainer(trainer)
    # Lightning splits the rows over the workers by itself.
    trainer.fit(make_module(), DataLoader(rows, batch_size=64, shuffle=True))
    return {"workers": trainer.world_size, "batches": trainer.num_training_batches}


def main() -> None:
    """Train once with each strategy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=STRATEGIES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1))
    for strategy in [options.only] if options.only else STRATEGIES:
        if strategy == "deepspeed" and not options.gpu:
            print("deepspeed: left out, since Lightning runs DeepSpeed on GPUs only (--gpu)")
            continue
        result = TorchTrainer(
            train_func,
            train_loop_config={"strategy": strategy, "epochs": options.epochs, "gpu": options.gpu},
            scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
            run_config=RunConfig(
                storage_path=options.storage, checkpoint_config=CheckpointConfig(num_to_keep=1)
            ),
        ).fit()
        print(f"{strategy}: {result.return_value}")
        print(f"{strategy}: {result.metrics}")
        assert result.checkpoint is not None
        print(f"{strategy}: {sorted(os.listdir(result.checkpoint.path))}")
    ray.shutdown()


if __name__ == "__main__":
    main()
