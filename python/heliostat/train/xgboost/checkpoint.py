"""``XGBoostCheckpoint``: a model of XGBoost in a checkpoint."""

from __future__ import annotations

import importlib
from typing import Any

from heliostat.train.boosting_checkpoint import BoostingCheckpoint


class XGBoostCheckpoint(BoostingCheckpoint):
    """A checkpoint whose file ``model.json`` holds an ``xgboost.Booster``. Deprecated."""

    MODEL_FILENAME = "model.json"

    @staticmethod
    def _load(path: str) -> Any:
        xgboost: Any = importlib.import_module("xgboost")
        return xgboost.Booster(model_file=path)
