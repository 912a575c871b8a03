"""XGBoost on a group of workers, connected by its own collective operations.

def train_loop_per_worker(config):
    rows = xgboost.DMatrix(...)  # this worker's part
    xgboost.train(params, rows, evals=[(rows, "train")], callbacks=[RayTrainReportCallback()])

xgboost is imported when a name of this package that needs it is used first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.xgboost.callback import RayTrainReportCallback
    from heliostat.train.xgboost.checkpoint import XGBoostCheckpoint
    from heliostat.train.xgboost.config import XGBoostConfig
    from heliostat.train.xgboost.trainer import XGBoostTrainer

_HOME = {
    "RayTrainReportCallback": "callback",
    "XGBoostCheckpoint": "checkpoint",
    "XGBoostConfig": "config",
    "XGBoostTrainer": "trainer",
}

__all__ = ["RayTrainReportCallback", "XGBoostCheckpoint", "XGBoostConfig", "XGBoostTrainer"]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
