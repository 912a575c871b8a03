"""Reporting from LightGBM."""

from __future__ import annotations

import os
from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.boosting import BoostingReport
from heliostat.train.checkpoint import Checkpoint


class RayTrainReportCallback(BoostingReport):
    """Reports the metrics of each round; see ``BoostingReport`` for the arguments.

    The model's file in a checkpoint is ``model.txt``, unless ``filename`` says otherwise.

    Examples:
        >>> from ray.train.lightgbm import RayTrainReportCallback
        >>> callback = RayTrainReportCallback(metrics={"loss": "train-l2"}, frequency=10)

        ``lightgbm.train(..., callbacks=[callback])`` reports, and saves after each ten rounds.
    """

    CHECKPOINT_NAME = "model.txt"

    def __call__(self, env: Any) -> None:
        """Called by LightGBM after each round."""
        found: dict[str, Any] = {}
        for data, metric, value, _, *deviation in env.evaluation_result_list or []:
            # Cross validation gives a mean and a deviation.
            found[f"{data}-{metric}{'-mean' if deviation else ''}"] = value
            if deviation:
                found[f"{data}-{metric}-stdv"] = deviation[0]
        last = env.iteration == env.end_iteration - 1
        save = self._due(env.iteration) or (last and self._checkpoint_at_end)
        self._report(found, env.model, save)

    @classmethod
    def get_model(cls, checkpoint: Checkpoint, filename: str = CHECKPOINT_NAME) -> Any:
        """Load the booster from a checkpoint that this callback has reported.

        Args:
            checkpoint: The checkpoint.
            filename: The model's file in it. Default ``"model.txt"``.

        Returns:
            A ``lightgbm.Booster``.
        """
        lightgbm: Any = required("lightgbm", "LightGBM on a group of workers")
        with checkpoint.as_directory() as folder:
            return lightgbm.Booster(model_file=os.path.join(folder, filename))
