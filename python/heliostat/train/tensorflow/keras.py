"""Reporting from Keras."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.train.keras_report import KerasReport

_tf: Any = required("tensorflow", "ReportCheckpointCallback")


class ReportCheckpointCallback(KerasReport, _tf.keras.callbacks.Callback):  # type: ignore[misc] # without types
    """Reports what Keras logs, and saves the model.

    Args:
        checkpoint_on: At which events a checkpoint is saved: names of Keras' methods without ``on_``, such as
            ``"train_end"``. The metrics are reported with it. Default ``"epoch_end"``.
        report_metrics_on: At which events metrics are reported. Default ``"epoch_end"``.
        metrics: Which ones: a name, a list of names, or Keras' names by the reported ones. Default None: all.

    Raises:
        ValueError: Keras has no such event.
        KeyError: At an event, its logs have no such metric; the text names those that are there.
    """

    _HOOKS = frozenset(
        f"on_{what}_{when}"
        for what in (
            "epoch",
            "train_batch",
            "test_batch",
            "predict_batch",
            "train",
            "test",
            "predict",
        )
        for when in ("begin", "end")
    )
