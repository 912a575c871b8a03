"""Reports of XGBoost in a trial."""

from __future__ import annotations

import os
from typing import Any

from heliostat.train.xgboost import RayTrainReportCallback
from heliostat.tune.integration._saving import report_saved


class TuneReportCheckpointCallback(RayTrainReportCallback):
    """Reports each round to the trial; see ``heliostat.train.boosting.BoostingReport``.

    The model's file in a checkpoint is ``model.ubj``, unless ``filename`` says otherwise.
    """

    def _report(self, found: dict[str, Any], model: Any, save: bool) -> None:
        def write(folder: str) -> None:
            model.save_model(os.path.join(folder, self._filename))

        report_saved(self._chosen(found), write if save else None)


class TuneReportCallback:
    """Raises ``DeprecationWarning``: :class:`TuneReportCheckpointCallback` has taken its place."""

    def __new__(cls, *_: Any, **__: Any) -> TuneReportCallback:
        raise DeprecationWarning(
            "`TuneReportCallback` is deprecated. Use "
            "`ray.tune.integration.xgboost.TuneReportCheckpointCallback` instead."
        )
