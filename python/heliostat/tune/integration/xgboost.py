"""Reports of XGBoost in a trial."""

from __future__ import annotations

from typing import Any

from heliostat.train.xgboost import RayTrainReportCallback
from heliostat.tune.integration._saving import BoostingReportToTrial


class TuneReportCheckpointCallback(BoostingReportToTrial, RayTrainReportCallback):
    """Reports each round to the trial; see ``heliostat.train.boosting.BoostingReport``.

    The model's file in a checkpoint is ``model.ubj``, unless ``filename`` says otherwise.
    """


class TuneReportCallback:
    """Raises ``DeprecationWarning``: :class:`TuneReportCheckpointCallback` has taken its place."""

    def __new__(cls, *_: Any, **__: Any) -> TuneReportCallback:
        raise DeprecationWarning(
            "`TuneReportCallback` is deprecated. Use "
            "`ray.tune.integration.xgboost.TuneReportCheckpointCallback` instead."
        )
