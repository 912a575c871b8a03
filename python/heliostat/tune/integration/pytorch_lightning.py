"""Reports of Lightning in a trial."""

from __future__ import annotations

import logging
import os
import warnings
from functools import partial
from typing import Any

from heliostat.train.arguments import hooks
from heliostat.train.lightning.library import pl
from heliostat.tune.aliases import Report
from heliostat.tune.integration._saving import report_saved

logger = logging.getLogger("heliostat")

_HOOKS = {name for name in dir(pl.Callback) if name.startswith("on_")}


class TuneCallback(pl.Callback):  # type: ignore[misc] # without types
    """A callback that does one thing, ``_handle``, at chosen hooks of Lightning.

    Args:
        on: Names of hooks without "on_", such as "train_batch_end". Default "validation_end".

    Raises:
        ValueError: Lightning has no such hook.
    """

    def __init__(self, on: str | list[str] = "validation_end") -> None:
        super().__init__()
        for name in hooks(on, _HOOKS, "Lightning"):
            setattr(self, name, partial(_handle, self))

    def _handle(self, trainer: object, pl_module: object) -> None:
        raise NotImplementedError


def _handle(
    callback: TuneCallback, trainer: object, pl_module: object = None, *_: object, **__: object
) -> None:
    callback._handle(trainer, pl_module)


class TuneReportCheckpointCallback(TuneCallback):
    """Reports metrics, and a checkpoint that ``Trainer.save_checkpoint`` writes, to the trial.

    Args:
        metrics: Names to report, or a mapping from the names to report to those of Lightning's
            ``callback_metrics``; those that are not there yet are left out with a warning. Default:
            all of them.
        filename: Name of the file in the checkpoint. Default "checkpoint".
        save_checkpoints: False: metrics alone.
        on: Names of hooks without "on_". Default "validation_end", not that of the sanity check.

    Raises:
        ValueError: Lightning has no such hook.
    """

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,
        on: str | list[str] = "validation_end",
    ) -> None:
        super().__init__(on=on)
        self._metrics = [metrics] if isinstance(metrics, str) else metrics
        self._filename = filename
        self._save_checkpoints = save_checkpoints

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        metrics = self._chosen(trainer.callback_metrics)
        if not metrics:
            return

        def write(folder: str) -> None:
            trainer.save_checkpoint(os.path.join(folder, self._filename))

        report_saved(metrics, write if self._save_checkpoints else None)

    def _chosen(self, found: Report) -> Report:
        asked = self._metrics or list(found)
        names = asked if isinstance(asked, dict) else {name: name for name in asked}
        for name in names.values():
            if name not in found:
                logger.warning(
                    f"Lightning has no metric {name!r} to report; it has {sorted(found)}."
                )
        return {shown: found[name].item() for shown, name in names.items() if name in found}


class TuneReportCallback(TuneReportCheckpointCallback):
    """Metrics alone; deprecated."""

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        on: str | list[str] = "validation_end",
    ) -> None:
        warnings.warn(
            "`ray.tune.integration.pytorch_lightning.TuneReportCallback` is deprecated. Use "
            "`TuneReportCheckpointCallback(save_checkpoints=False)` of the same module instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        super().__init__(metrics=metrics, save_checkpoints=False, on=on)
