"""Handwritten digits from Parquet files, prepared as a stream, into the training of two workers.

python examples/data_for_training.py
python examples/data_for_training.py --workers 4 --epochs 20

The data are the 1,797 images that come with scikit-learn, 8 x 8 points each. They are written as
files, read again, normalized and shuffled while they flow; each worker sees its own half of them in
every epoch. A second dataset, which every worker reads in full, measures the accuracy: 0.90 and more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Any

import heliostat as ray
import heliostat.data
import heliostat.train
import heliostat.train.torch
import numpy as np
from heliostat.train import DataConfig, RunConfig, ScalingConfig
from heliostat.train.torch import TorchTrainer

WANTED_ACCURACY = 0.90


def write_digits(folder: str) -> None:
    """Write the images as Parquet files, one image a row."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = [
        {"image": image.astype(np.uint8), "label": int(label)}
        for image, label in zip(digits.images, digits.target, strict=True)
    ]
    ray.data.from_items(rows, override_num_blocks=8).write_parquet(folder)


def normalize(batch: dict[str, Any]) -> dict[str, Any]:
    """Bring the points, 0 to 16, between -1 and 1."""
    return {"image": batch["image"].astype(np.float32) / 8 - 1, "label": batch["label"]}


def train_loop(config: dict[str, Any]) -> None:
    """What each worker does."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    lessons = ray.train.get_dataset_shard("train")
    test = ray.train.get_dataset_shard("test")
    for epoch in range(config["epochs"]):
        rows = 0
        for batch in lessons.iter_torch_batches(batch_size=64, local_shuffle_buffer_size=256):
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rows += len(batch["label"])
        right = count = 0
        with torch.no_grad():
            for batch in test.iter_torch_batches(batch_size=None):
                right += int((model(batch["image"]).argmax(1) == batch["label"]).sum())
                count += len(batch["label"])
        ray.train.report({"epoch": epoch, "rows": rows, "accuracy": right / count})


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()

    ray.init()
    with tempfile.TemporaryDirectory() as folder:
        write_digits(f"{folder}/digits")
        digits = ray.data.read_parquet(f"{folder}/digits").map_batches(normalize)
        lessons, test = digits.train_test_split(0.2, shuffle=True, seed=0)
        result = TorchTrainer(
            train_loop,
            train_loop_config={"epochs": arguments.epochs},
            scaling_config=ScalingConfig(num_workers=arguments.workers),
            run_config=RunConfig(storage_path=f"{folder}/runs"),
            datasets={"train": lessons, "test": test},
            dataset_config=DataConfig(datasets_to_split=["train"]),
        ).fit()
    ray.shutdown()
    accuracy = result.metrics["accuracy"]
    print(f"rows={result.metrics['rows']} of {lessons_of(arguments.workers)} a worker and epoch")
    print(f"accuracy={accuracy:.3f}")
    return 0 if accuracy >= WANTED_ACCURACY else 1


def lessons_of(workers: int) -> int:
    """Rows that each worker sees in an epoch."""
    return int(1797 * (1 - 0.2)) // workers


if __name__ == "__main__":
    sys.exit(main())
