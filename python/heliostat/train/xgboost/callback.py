"""Reporting from XGBoost."""

from __future__ import annotations

import os
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.boosting import BoostingReport
from heliostat.train.checkpoint import Checkpoint

_xgboost: Any = required("xgboost", "XGBoost on a group of workers")


class RayTrainReportCallback(BoostingReport, _xgboost.callback.TrainingCallback):  # type: ignore[misc] # without types
    """Reports the metrics of each round; see ``BoostingReport`` for the arguments.

    The model's file in a checkpoint is ``model.ubj``, unless ``filename`` says otherwise.

    Args:
        *args: As of ``BoostingReport``.
        **kwargs: As of ``BoostingReport``.

    Examples:
        >>> from ray.train.xgboost import RayTrainReportCallback
        >>> callback = RayTrainReportCallback(metrics={"loss": "train-rmse"}, frequency=10)

        ``xgboost.train(..., callbacks=[callback])`` reports, and saves after each ten rounds.
    """

    CHECKPOINT_NAME = "model.ubj"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._latest: dict[str, Any] = {}
        self._saved_round = -1

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Called by XGBoost after each round: reports.

        Args:
            model: The booster.
            epoch: The round.
            evals_log: The metrics by data set.

        Returns:
            False: training goes on.
        """
        self._latest = {
            f"{data}-{metric}": values[-1]
            for data, metrics in evals_log.items()
            for metric, values in metrics.items()
        }
        save = self._due(epoch)
        if save:
            self._saved_round = epoch
        self._report(self._latest, model, save)
        return False

    def after_training(self, model: Any) -> Any:
        """Called by XGBoost at the end: reports what was not reported.

        Args:
            model: The booster.

        Returns:
            The booster.
        """
        if self._checkpoint_at_end and self._saved_round != model.num_boosted_rounds() - 1:
            self._report(self._latest, model, True)
        return model

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Any:
        """Load the booster from a checkpoint that this callback has reported.

        Args:
            checkpoint: The checkpoint.
            filename: The model's file in it. Default ``"model.ubj"``.

        Returns:
            An ``xgboost.Booster``.
        """
        model = _xgboost.Booster()
        with checkpoint.as_directory() as folder:
            model.load_model(os.path.join(folder, filename))
        return model
