"""Small Vision Transformers on handwritten digits, most of which ASHA ends early.

python examples/tune_asha.py
python examples/tune_asha.py --samples 40 --epochs 20 --gpu

Twelve configurations are tried; after each epoch a trial says its test accuracy, and the worse half of
those that came as far ends. Of the epochs that all of them would take, less than two thirds are trained.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Any

from heliostat import tune
from heliostat.tune.schedulers import ASHAScheduler

TEST_IMAGES = 360


def digits(np: Any, torch: Any) -> Any:
    """Images and labels for training and for testing."""
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = torch.tensor(data.images[order] / 8 - 1, dtype=torch.float32)
    labels = torch.tensor(data.target[order])
    return images[TEST_IMAGES:], labels[TEST_IMAGES:], images[:TEST_IMAGES], labels[:TEST_IMAGES]


def train(config: dict[str, Any]) -> None:
    """What each trial runs: a transformer over the 16 patches of 2 x 2 points of an image."""
    import numpy as np
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images, labels, test_images, test_labels = (part.to(device) for part in digits(np, torch))
    width = config["width"]

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Linear(4, width)
            self.places = nn.Parameter(torch.zeros(16, width))
            layer = nn.TransformerEncoderLayer(
                width, 4, 2 * width, config["dropout"], batch_first=True
            )
            self.layers = nn.TransformerEncoder(layer, config["layers"])
            self.head = nn.Linear(width, 10)

        def forward(self, images: Any) -> Any:
            parts = images.unfold(1, 2, 2).unfold(2, 2, 2).reshape(len(images), 16, 4)
            return self.head(self.layers(self.patches(parts) + self.places).mean(1))

    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    for _ in range(config["epochs"]):
        model.train()
        for rows in torch.randperm(len(images), device=device).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(test_images).argmax(1) == test_labels).float().mean()
        tune.report({"accuracy": right.item()})


def main() -> None:
    """Search, and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=12, help="configurations that are tried")
    parser.add_argument("--epochs", type=int, default=8, help="of a trial that comes to its end")
    parser.add_argument("--gpu", action="store_true", help="a GPU for each trial")
    parser.add_argument("--storage", default=None, help="folder of the search (default: a new one)")
    asked = parser.parse_args()
    results = tune.Tuner(
        tune.with_resources(train, {"cpu": 1, "gpu": int(asked.gpu)}),
        param_space={
            "lr": tune.loguniform(1e-4, 3e-2),
            "width": tune.choice([16, 32]),
            "layers": tune.choice([1, 2]),
            "dropout": tune.uniform(0, 0.2),
            "epochs": asked.epochs,
        },
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=asked.samples,
            search_alg=tune.search.BasicVariantGenerator(random_state=1),
            scheduler=ASHAScheduler(max_t=asked.epochs, grace_period=1, reduction_factor=2),
        ),
        run_config=tune.RunConfig(
            name="asha", storage_path=asked.storage or tempfile.mkdtemp(prefix="searches_")
        ),
    ).fit()
    if results.num_errors:
        sys.exit(f"{results.num_errors} trials failed: {results.errors[0]}")
    best = results.get_best_result(scope="all")
    epochs = sum(result.metrics["training_iteration"] for result in results)
    print(f"best configuration: {best.config}")
    print(f"accuracy: {best.metrics_dataframe['accuracy'].max():.3f}")
    print(f"epochs: {epochs} of {asked.samples * asked.epochs}")


if __name__ == "__main__":
    main()
