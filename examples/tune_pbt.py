"""Population based training: a classifier of handwritten digits whose learning rate changes on the way.

python examples/tune_pbt.py

Four classifiers begin with learning rates that are too small. Every three epochs the worse two take over
the weights of the better ones, with their learning rate times 0.8 or 1.2. At the end the learning rates
that the best one had are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from typing import Any

from heliostat import tune
from heliostat.tune.schedulers import PopulationBasedTraining


class Classifier(tune.Trainable):
    """A linear classifier, an epoch of gradient descent for each step."""

    def setup(self, config: dict[str, Any]) -> None:
        """Read the images, and begin with weights of zero."""
        import numpy as np
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))
        images, self.labels = images[order] / 16, labels[order]
        self.images = np.hstack([images, np.ones((len(images), 1))])
        self.weights = np.zeros((65, 10))

    def step(self) -> dict[str, Any]:
        """Go through 1,437 of the images, and count how many of the others are told right."""
        import numpy as np

        for first in range(0, 1437, 32):
            rows = slice(first, first + 32)
            scores = self.images[rows] @ self.weights
            chances = np.exp(scores - scores.max(1, keepdims=True))
            chances /= chances.sum(1, keepdims=True)
            chances[np.arange(len(chances)), self.labels[rows]] -= 1
            self.weights -= self.config["lr"] * self.images[rows].T @ chances / len(chances)
        told = (self.images[1437:] @ self.weights).argmax(1)
        return {"accuracy": float((told == self.labels[1437:]).mean()), "lr": self.config["lr"]}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """What another classifier goes on from."""
        return {"weights": self.weights}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from another one's weights, with a learning rate of one's own."""
        self.weights = checkpoint["weights"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another learning rate in the same process."""
        self.config = new_config
        return True


def main() -> None:
    """Search, and say what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=15, help="of each member of the population")
    parser.add_argument("--storage", default=None, help="folder of the search (default: a new one)")
    asked = parser.parse_args()
    results = tune.Tuner(
        Classifier,
        param_space={"lr": tune.grid_search([1e-5, 1e-4, 1e-3, 1e-2])},
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            reuse_actors=True,
            scheduler=PopulationBasedTraining(
                time_attr="training_iteration",
                perturbation_interval=3,
                quantile_fraction=0.5,
                resample_probability=0,
                hyperparam_mutations={"lr": tune.loguniform(1e-5, 1)},
                synch=True,
            ),
        ),
        run_config=tune.RunConfig(
            name="pbt",
            storage_path=asked.storage or tempfile.mkdtemp(prefix="searches_"),
            stop={"training_iteration": asked.epochs},
        ),
    ).fit()
    if results.num_errors:
        sys.exit(f"{results.num_errors} trials failed: {results.errors[0]}")
    best = results.get_best_result()
    with open(os.path.join(results.experiment_path, "pbt_global.txt")) as file:
        taken = [json.loads(line) for line in file]
    print(f"accuracy: {best.metrics['accuracy']:.3f}")
    print(f"learning rates of the best: {list(dict.fromkeys(best.metrics_dataframe['lr']))}")
    print(f"copies: {len(taken)}")


if __name__ == "__main__":
    main()
