"""PyTorch Lightning on the workers of a run: strategies, environment and a report callback.

    trainer = pl.Trainer(
        strategy=RayDDPStrategy(),
        plugins=[RayLightningEnvironment()],
        callbacks=[RayTrainReportCallback()],
        enable_checkpointing=False,
    )
    trainer = prepare_trainer(trainer)

Lightning is imported when a name of this package is used first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.lightning.callback import RayTrainReportCallback
    from heliostat.train.lightning.environment import RayLightningEnvironment
    from heliostat.train.lightning.prepare import prepare_trainer
    from heliostat.train.lightning.strategies import (
        RayDDPStrategy,
        RayDeepSpeedStrategy,
        RayFSDPStrategy,
    )

_HOME = {
    "RayDDPStrategy": "strategies",
    "RayDeepSpeedStrategy": "strategies",
    "RayFSDPStrategy": "strategies",
    "RayLightningEnvironment": "environment",
    "RayTrainReportCallback": "callback",
    "prepare_trainer": "prepare",
}

__all__ = [
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "prepare_trainer",
]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
