"""Reports of LightGBM in a trial."""

from __future__ import annotations

from heliostat.train.lightgbm import RayTrainReportCallback
from heliostat.tune.integration._saving import BoostingReportToTrial, ReplacedCallback


class TuneReportCheckpointCallback(BoostingReportToTrial, RayTrainReportCallback):
    """Reports each round to the trial; see ``heliostat.train.boosting.BoostingReport``.

    The model's file in a checkpoint is ``model.txt``, unless ``filename`` says otherwise.
    """


class TuneReportCallback(ReplacedCallback):
    """Raises ``DeprecationWarning``: :class:`TuneReportCheckpointCallback` has taken its place."""
