"""``LightGBMTrainer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.core.platform.extras import expected
from heliostat.train.boosting import BoostingTrainer
from heliostat.train.config import RunConfig, ScalingConfig
from heliostat.train.data_config import DataConfig
from heliostat.train.lightgbm.config import LightGBMConfig
from heliostat.train.validation import ValidationConfig


class LightGBMTrainer(BoostingTrainer):
    """Runs a training function that calls ``lightgbm.train`` on a group of workers.

    The arguments are those of ``DataParallelTrainer``, with

    Args:
        lightgbm_config: How the workers are connected. Default ``LightGBMConfig()``.
        label_column, params, num_boost_round: Refused (DeprecationWarning).

    Examples:
        >>> import lightgbm
        >>> import numpy as np
        >>> from ray.train import ScalingConfig
        >>> from ray.train.lightgbm import LightGBMTrainer, RayTrainReportCallback, get_network_params
        >>> def work():
        ...     x = np.arange(100.0).reshape(-1, 1)
        ...     table = lightgbm.Dataset(x, label=3 * x[:, 0])
        ...     lightgbm.train(
        ...         {"objective": "regression", "verbose": -1, **get_network_params()},
        ...         table,
        ...         num_boost_round=2,
        ...         valid_sets=[table],
        ...         valid_names=["train"],
        ...         callbacks=[RayTrainReportCallback()],
        ...     )
        >>> trainer = LightGBMTrainer(work, scaling_config=ScalingConfig(num_workers=2))

        ``RayTrainReportCallback.get_model(trainer.fit().checkpoint)`` is the model.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any] | None = None,
        *,
        train_loop_config: dict[str, Any] | None = None,
        lightgbm_config: LightGBMConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Any = None,
        label_column: str | None = None,
        params: dict[str, Any] | None = None,
        num_boost_round: int | None = None,
    ) -> None:
        expected("lightgbm", "LightGBMTrainer")
        super().__init__(
            train_loop_per_worker,
            first_generation={
                "label_column": label_column,
                "params": params,
                "num_boost_round": num_boost_round,
            },
            train_loop_config=train_loop_config,
            backend_config=lightgbm_config or LightGBMConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
