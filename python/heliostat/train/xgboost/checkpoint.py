"""``XGBoostCheckpoint``: a model of XGBoost in a checkpoint."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.boosting_checkpoint import BoostingCheckpoint


class XGBoostCheckpoint(BoostingCheckpoint):
    """A checkpoint whose file ``model.json`` holds an ``xgboost.Booster``. Deprecated.

    Examples:
        >>> import numpy as np
        >>> import xgboost
        >>> from ray.train.xgboost import XGBoostCheckpoint
        >>> x = np.arange(8.0).reshape(-1, 1)
        >>> booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(x, label=x[:, 0]), num_boost_round=1)
        >>> checkpoint = XGBoostCheckpoint.from_model(booster)
        >>> checkpoint.get_model().num_boosted_rounds()
        1
    """

    MODEL_FILENAME = "model.json"

    @staticmethod
    def _load(path: str) -> Any:
        xgboost: Any = required("xgboost", "XGBoost on a group of workers")
        return xgboost.Booster(model_file=path)
