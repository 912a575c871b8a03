"""Reports of XGBoost in a trial."""

from __future__ import annotations

from heliostat.train.xgboost import RayTrainReportCallback
from heliostat.tune.integration._saving import BoostingReportToTrial, ReplacedCallback


class TuneReportCheckpointCallback(BoostingReportToTrial, RayTrainReportCallback):
    """Reports each round to the trial; see ``heliostat.train.boosting.BoostingReport``.

    The model's file in a checkpoint is ``model.ubj``, unless ``filename`` says otherwise.
    """


class TuneReportCallback(ReplacedCallback):
    """Raises ``DeprecationWarning``: :class:`TuneReportCheckpointCallback` has taken its place."""
