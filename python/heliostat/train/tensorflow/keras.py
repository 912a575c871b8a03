"""Reporting from Keras."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any

from heliostat.core.extras import required
from heliostat.train.reported import report
from heliostat.train.tensorflow.checkpoint import TensorflowCheckpoint

_tf: Any = required("tensorflow", "ReportCheckpointCallback")

EVENTS = tuple(
    f"{what}_{when}"
    for what in ("epoch", "train_batch", "test_batch", "predict_batch", "train", "test", "predict")
    for when in ("begin", "end")
)


class ReportCheckpointCallback(_tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Reports what Keras logs, and saves the model.

    Args:
        checkpoint_on: At which events a checkpoint is saved: names of Keras' methods without ``on_``, such as
            ``"train_end"``. The metrics are reported with it. Default ``"epoch_end"``.
        report_metrics_on: At which events metrics are reported. Default ``"epoch_end"``.
        metrics: Which ones: a name, a list of names, or Keras' names by the reported ones. Default None: all.

    Raises:
        ValueError: Keras has no such event.
    """

    def __init__(
        self,
        checkpoint_on: str | list[str] = "epoch_end",
        report_metrics_on: str | list[str] = "epoch_end",
        metrics: str | list[str] | dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        listed = [
            [one] if isinstance(one, str) else list(one)
            for one in (checkpoint_on, report_metrics_on)
        ]
        self._checkpoint_on, self._report_on = map(frozenset, listed)
        self._metrics = metrics
        for event in self._checkpoint_on | self._report_on:
            if event not in EVENTS:
                raise ValueError(f"Keras has no event {event!r}: there are {', '.join(EVENTS)}.")
            setattr(self, f"on_{event}", self._at(event))

    def _at(self, event: str) -> Callable[..., None]:
        def tell(*arguments: Any, logs: Mapping[str, Any] | None = None) -> None:
            # Keras gives the number of the epoch or batch, if there is one, and then the logs.
            last = arguments[-1] if arguments else None
            found = logs if logs is not None else last if isinstance(last, Mapping) else {}
            self._report(found, event in self._checkpoint_on)

        return tell

    def _report(self, logs: Mapping[str, Any], saves: bool) -> None:
        if not saves:
            report(self._chosen(logs))
            return
        checkpoint = TensorflowCheckpoint.from_model(self.model)
        try:
            report(self._chosen(logs), checkpoint=checkpoint)
        finally:
            shutil.rmtree(checkpoint.path, ignore_errors=True)

    def _chosen(self, logs: Mapping[str, Any]) -> dict[str, Any]:
        wanted = self._metrics
        if wanted is None:
            return dict(logs)
        if isinstance(wanted, str):
            wanted = [wanted]
        if not isinstance(wanted, dict):
            wanted = {name: name for name in wanted}
        missing = [name for name in wanted.values() if name not in logs]
        if missing:
            raise KeyError(f"Keras logged no {missing[0]!r}: there are {', '.join(logs)}.")
        return {name: logs[theirs] for name, theirs in wanted.items()}
