"""Hugging Face accelerate on the workers of a run: it finds the process group by itself.

python examples/accelerate_digits.py
python examples/accelerate_digits.py --workers 4 --gpu
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


def train_func(config: dict[str, Any]) -> dict[str, Any]:
    """What every worker runs: a loop for accelerate, and one line that reports."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import set_seed
    from sklearn.datasets import load_digits
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    set_seed(0)
    accelerator = Accelerator(cpu=not config["gpu"])
    data = load_digits()
    rows = TensorDataset(
        torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(rows, batch_size=64, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(config["epochs"]):
        right, total = 0, 0
        for images, labels in loader:
            answers = model(images)
            loss = torch.nn.functional.cross_entropy(answers, labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            found, wanted = accelerator.gather_for_metrics((answers.argmax(1), labels))
            right, total = right + int((found == wanted).sum()), total + len(wanted)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if accelerator.is_main_process:
                state = accelerator.unwrap_model(model).state_dict()
                accelerator.save(state, os.path.join(folder, "model.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            train.report({"epoch": epoch, "accuracy": right / total}, checkpoint=checkpoint)
    return {
        "workers": accelerator.num_processes,
        "device": str(accelerator.device),
        "model": type(model).__name__,
    }


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1))
    result = TorchTrainer(
        train_func,
        train_loop_config={"epochs": options.epochs, "gpu": options.gpu},
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
        run_config=RunConfig(storage_path=options.storage),
    ).fit()
    print(f"ran as: {result.return_value}")
    print(f"metrics: {result.metrics}")
    ray.shutdown()


if __name__ == "__main__":
    main()
