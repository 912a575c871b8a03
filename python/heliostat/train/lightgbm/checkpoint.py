"""``LightGBMCheckpoint``: a model of LightGBM in a checkpoint."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.boosting_checkpoint import BoostingCheckpoint


class LightGBMCheckpoint(BoostingCheckpoint):
    """A checkpoint whose file ``model.txt`` holds a ``lightgbm.Booster``. Deprecated.

    Examples:
        >>> import lightgbm
        >>> import numpy as np
        >>> from ray.train.lightgbm import LightGBMCheckpoint
        >>> x = np.arange(50.0).reshape(-1, 1)
        >>> parameters = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
        >>> booster = lightgbm.train(parameters, lightgbm.Dataset(x, label=x[:, 0]), num_boost_round=2)
        >>> checkpoint = LightGBMCheckpoint.from_model(booster)
        >>> checkpoint.get_model().num_trees()
        2
    """

    MODEL_FILENAME = "model.txt"

    @staticmethod
    def _load(path: str) -> Any:
        lightgbm: Any = required("lightgbm", "LightGBM on a group of workers")
        return lightgbm.Booster(model_file=path)
