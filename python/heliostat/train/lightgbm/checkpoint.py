"""``LightGBMCheckpoint``: a model of LightGBM in a checkpoint."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.boosting_checkpoint import BoostingCheckpoint


class LightGBMCheckpoint(BoostingCheckpoint):
    """A checkpoint whose file ``model.txt`` holds a ``lightgbm.Booster``. Deprecated."""

    MODEL_FILENAME = "model.txt"

    @staticmethod
    def _load(path: str) -> Any:
        lightgbm: Any = required("lightgbm", "LightGBM on a group of workers")
        return lightgbm.Booster(model_file=path)
