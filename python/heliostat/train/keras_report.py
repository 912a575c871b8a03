"""The part that callbacks for Keras share: at which hooks they report, which logs, and when the
model is saved.

Keras itself is imported by those who use it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from functools import partial
from typing import Any

from heliostat.train.arguments import hooks
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.reported import report


class KerasReport:
    """Reports Keras' logs, and the model as ``model.keras`` in a checkpoint, to the trainer.

    Goes before Keras' own class among the bases of a callback. Raises ``ValueError`` where Keras has no hook
    of a given name.
    """

    MODEL_FILENAME = "model.keras"
    # Keras' hooks, with "on_".
    _HOOKS: Collection[str]
    # Keras sets it.
    model: Any

    def __init__(
        self,
        checkpoint_on: str | list[str] = "epoch_end",
        report_metrics_on: str | list[str] = "epoch_end",
        metrics: str | list[str] | dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._metrics = [metrics] if isinstance(metrics, str) else metrics
        saving = hooks(checkpoint_on, self._HOOKS, "Keras")
        for name in saving | hooks(report_metrics_on, self._HOOKS, "Keras"):
            setattr(self, name, partial(self._handle, name in saving))

    def _handle(self, save: bool, *given: Any, **named: Any) -> None:
        logs = named.get("logs", given[-1] if given else None)
        found = logs if isinstance(logs, dict) else {}
        self._report(self._chosen(found), save)

    def _report(self, metrics: dict[str, Any], save: bool) -> None:
        if not save:
            report(metrics)
            return
        with tempfile.TemporaryDirectory() as folder:
            self._write(folder)
            report(metrics, checkpoint=Checkpoint.from_directory(folder))

    def _write(self, folder: str) -> None:
        self.model.save(os.path.join(folder, self.MODEL_FILENAME))

    def _chosen(self, found: dict[str, Any]) -> dict[str, Any]:
        """The metrics to report.

        Raises:
            KeyError: The logs have no such metric; the text names those that are there.
        """
        asked = list(found) if self._metrics is None else self._metrics
        names = asked if isinstance(asked, dict) else {name: name for name in asked}
        try:
            return {shown: found[name] for shown, name in names.items()}
        except KeyError as error:
            raise KeyError(
                f"Keras has no metric {error.args[0]!r} to report here; it has {sorted(found)}."
            ) from None
