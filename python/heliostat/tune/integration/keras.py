"""Reports of Keras in a trial."""

from __future__ import annotations

import importlib
from typing import Any

from heliostat.train.keras_report import KerasReport
from heliostat.tune.aliases import Report
from heliostat.tune.integration._saving import ReplacedCallback, report_saved

_keras: Any = importlib.import_module("keras")


class TuneReportCheckpointCallback(KerasReport, _keras.callbacks.Callback):  # type: ignore[misc] # without types
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

    _HOOKS = frozenset(name for name in dir(_keras.callbacks.Callback) if name.startswith("on_"))

    def _report(self, metrics: Report, save: bool) -> None:
        report_saved(metrics, self._write if save else None)


class TuneReportCallback(ReplacedCallback):
    """Raises ``DeprecationWarning``: :class:`TuneReportCheckpointCallback` has taken its place."""
