"""``XGBoostCheckpoint``: a model of XGBoost in a checkpoint."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.boosting_checkpoint import BoostingCheckpoint


class XGBoostCheckpoint(BoostingCheckpoint):
    """A checkpoint whose file ``model.json`` holds an ``xgboost.Booster``. Deprecated."""

    MODEL_FILENAME = "model.json"

    @staticmethod
    def _load(path: str) -> Any:
        xgboost: Any = required("xgboost", "XGBoost on a group of workers")
        return xgboost.Booster(model_file=path)
