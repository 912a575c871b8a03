"""Transformers on the workers of a run.

trainer = transformers.Trainer(...)
trainer.add_callback(RayTrainReportCallback())
trainer = prepare_trainer(trainer)
trainer.train()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.huggingface.transformers.callback import RayTrainReportCallback
    from heliostat.train.huggingface.transformers.prepare import prepare_trainer

_HOME = {"RayTrainReportCallback": "callback", "prepare_trainer": "prepare"}

__all__ = ["RayTrainReportCallback", "prepare_trainer"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
