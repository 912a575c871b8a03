"""Transformers on the workers of a run.

trainer = transformers.Trainer(...)
trainer.add_callback(RayTrainReportCallback())
trainer = prepare_trainer(trainer)
trainer.train()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.huggingface.transformers.callback import RayTrainReportCallback
    from heliostat.train.huggingface.transformers.prepare import prepare_trainer

_HOME = {"RayTrainReportCallback": "callback", "prepare_trainer": "prepare"}

__all__ = ["RayTrainReportCallback", "prepare_trainer"]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
