"""Reports of Keras in a trial."""

from __future__ import annotations

import importlib
import os
from functools import partial
from typing import Any

from heliostat.tune.integration._saving import hooks, report_saved

_keras: Any = importlib.import_module("keras")
_HOOKS = {name for name in dir(_keras.callbacks.Callback) if name.startswith("on_")}


class TuneReportCheckpointCallback(_keras.callbacks.Callback):  # type: ignore[misc]
    """Reports Keras' logs, and the model as ``model.keras`` in a checkpoint, to the trial.

    Args:
        checkpoint_on: Names of hooks without "on_", such as "train_end", at which a checkpoint goes
            with the metrics. Default "epoch_end".
        report_metrics_on: Those at which metrics alone are reported. Default "epoch_end".
        metrics: Names to report, or a mapping from the names to report to Keras' names. Default: all.

    Raises:
        ValueError: Keras has no such hook.
        KeyError: At a hook, its logs have no such metric; the text names those that are there.
    """

    MODEL_FILENAME = "model.keras"

    def __init__(
        self,
        checkpoint_on: str | list[str] = "epoch_end",
        report_metrics_on: str | list[str] = "epoch_end",
        metrics: str | list[str] | dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._metrics = [metrics] if isinstance(metrics, str) else metrics
        saving = hooks(checkpoint_on, _HOOKS, "Keras")
        for name in saving | hooks(report_metrics_on, _HOOKS, "Keras"):
            setattr(self, name, partial(self._handle, name in saving))

    def _handle(self, save: bool, *given: Any, **named: Any) -> None:
        logs = named.get("logs", given[-1] if given else None)
        found = logs if isinstance(logs, dict) else {}
        report_saved(self._chosen(found), self._write if save else None)

    def _write(self, folder: str) -> None:
        self.model.save(os.path.join(folder, self.MODEL_FILENAME))

    def _chosen(self, found: dict[str, Any]) -> dict[str, Any]:
        asked = list(found) if self._metrics is None else self._metrics
        names = asked if isinstance(asked, dict) else {name: name for name in asked}
        try:
            return {shown: found[name] for shown, name in names.items()}
        except KeyError as error:
            raise KeyError(
                f"Keras has no metric {error.args[0]!r} to report here; it has {sorted(found)}."
            ) from None


class TuneReportCallback:
    """Raises ``DeprecationWarning``: :class:`TuneReportCheckpointCallback` has taken its place."""

    def __new__(cls, *_: Any, **__: Any) -> TuneReportCallback:
        raise DeprecationWarning(
            "`TuneReportCallback` is deprecated. Use "
            "`ray.tune.integration.keras.TuneReportCheckpointCallback` instead."
        )
