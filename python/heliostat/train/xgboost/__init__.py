"""XGBoost on a group of workers, connected by its own collective operations.

def train_loop_per_worker(config):
    rows = xgboost.DMatrix(...)  # this worker's part
    xgboost.train(params, rows, evals=[(rows, "train")], callbacks=[RayTrainReportCallback()])

xgboost is imported when a name of this package that needs it is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.xgboost.callback import RayTrainReportCallback
    from heliostat.train.xgboost.config import XGBoostConfig
    from heliostat.train.xgboost.trainer import XGBoostTrainer

_HOME = {
    "RayTrainReportCallback": "callback",
    "XGBoostConfig": "config",
    "XGBoostTrainer": "trainer",
}

__all__ = ["RayTrainReportCallback", "XGBoostConfig", "XGBoostTrainer"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
