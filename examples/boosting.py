"""Gradient boosting over several workers: XGBoost and LightGBM, each with a part of the rows.

python examples/boosting.py                     # both
python examples/boosting.py --only xgboost --workers 4
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import heliostat as ray
from heliostat import train
from heliostat.train import RunConfig, ScalingConfig

LIBRARIES = ("xgboost", "lightgbm")


def my_rows() -> tuple[Any, Any]:
    """This worker's part of scikit-learn's breast cancer data: 569 rows, 30 columns."""
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    context = train.get_context()
    part = slice(context.get_world_rank(), None, context.get_world_size())
    return rows[part], labels[part]


def with_xgboost(config: dict[str, Any]) -> None:
    """What every worker runs. All end with the same model."""
    import xgboost
    from heliostat.train.xgboost import RayTrainReportCallback

    rows = xgboost.DMatrix(*my_rows())
    xgboost.train(
        {"objective": "binary:logistic", "eval_metric": ["logloss", "error"], "nthread": 1},
        rows,
        num_boost_round=config["rounds"],
        evals=[(rows, "train")],
        verbose_eval=False,
        callbacks=[RayTrainReportCallback(frequency=5)],
    )


def with_lightgbm(config: dict[str, Any]) -> None:
    """The same with LightGBM, which wants to know the addresses of the workers."""
    import lightgbm
    from heliostat.train.lightgbm import RayTrainReportCallback, get_network_params

    rows = lightgbm.Dataset(*my_rows())
    lightgbm.train(
        {
            "objective": "binary",
            "metric": ["binary_logloss", "binary_error"],
            "tree_learner": "data_parallel",
            "pre_partition": True,
            "num_threads": 1,
            "verbose": -1,
            **get_network_params(),
        },
        rows,
        num_boost_round=config["rounds"],
        valid_sets=[rows],
        valid_names=["train"],
        callbacks=[RayTrainReportCallback(frequency=5)],
    )


def accuracy(library: str, checkpoint: Any) -> float:
    """The share of right answers of the saved model, over all rows."""
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    if library == "xgboost":
        import xgboost

        model = train.xgboost.RayTrainReportCallback.get_model(checkpoint)
        answers = model.predict(xgboost.DMatrix(rows))
    else:
        model = train.lightgbm.RayTrainReportCallback.get_model(checkpoint)
        answers = model.predict(rows)
    return float(((answers > 0.5) == labels).mean())


def main() -> None:
    """Train, and try the model in the checkpoint."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=LIBRARIES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1))
    for library in [options.only] if options.only else LIBRARIES:
        common: dict[str, Any] = {
            "train_loop_config": {"rounds": options.rounds},
            "scaling_config": ScalingConfig(num_workers=options.workers),
            "run_config": RunConfig(storage_path=options.storage),
        }
        if library == "xgboost":
            trainer = train.xgboost.XGBoostTrainer(with_xgboost, **common)
        else:
            trainer = train.lightgbm.LightGBMTrainer(with_lightgbm, **common)
        result = trainer.fit()
        print(f"{library} metrics: {result.metrics}")
        print(f"{library} checkpoints: {len(result.best_checkpoints)}")
        print(f"{library} accuracy: {accuracy(library, result.checkpoint):.3f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
