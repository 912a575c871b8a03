"""Two aims at once: a forest that tells digits well, and that is small. Nobody can have the most of both.

python examples/tune_multi_objective.py
python examples/tune_multi_objective.py --samples 100

Optuna's sampler suggests how many trees there are and how deep they go. What is printed is the front:
the forests for which no other one is both smaller and better.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from typing import Any

from heliostat import tune
from heliostat.tune.search.optuna import OptunaSearch


def forest(config: dict[str, Any]) -> dict[str, Any]:
    """Train a forest; its accuracy, and how many nodes its trees have."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(images, labels, random_state=0)
    model = RandomForestClassifier(config["trees"], max_depth=config["depth"], random_state=0)
    model.fit(train, train_labels)
    nodes = sum(tree.tree_.node_count for tree in model.estimators_)
    return {"accuracy": model.score(test, test_labels), "nodes": nodes}


def front(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The forests of which no other one is smaller and as good, the smallest first."""
    found: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row["nodes"], -row["accuracy"])):
        if not found or row["accuracy"] > found[-1]["accuracy"]:
            found.append(row)
    return found


def main() -> None:
    """Search, and print the front."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=24, help="forests that are tried")
    parser.add_argument("--storage", default=None, help="folder of the search (default: a new one)")
    asked = parser.parse_args()
    space = {"trees": tune.lograndint(1, 64), "depth": tune.randint(2, 12)}
    search = OptunaSearch(metric=["accuracy", "nodes"], mode=["max", "min"], seed=0)
    results = tune.Tuner(
        forest,
        param_space=space,
        tune_config=tune.TuneConfig(
            search_alg=search,
            num_samples=asked.samples,
            max_concurrent_trials=4,
            reuse_actors=True,  # a forest grows in less time than scikit-learn takes to load
        ),
        run_config=tune.RunConfig(
            name="forests", storage_path=asked.storage or tempfile.mkdtemp(prefix="searches_")
        ),
    ).fit()
    if results.num_errors:
        sys.exit(f"{results.num_errors} trials failed: {results.errors[0]}")
    rows = [{**result.config, **result.metrics} for result in results]
    print(f"forests: {len(rows)}")
    for row in front(rows):
        size = f"{row['trees']} trees, depth {row['depth']}"
        print(f"{row['nodes']:6} nodes, accuracy {row['accuracy']:.3f}: {size}")


if __name__ == "__main__":
    main()
