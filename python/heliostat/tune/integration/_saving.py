"""The base of the callbacks: a report with a checkpoint that the library writes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from heliostat.train.boosting import BoostingReport
from heliostat.train.checkpoint import Checkpoint
from heliostat.tune.aliases import Report
from heliostat.tune.context import report


def report_saved(metrics: Report, save: Callable[[str], object] | None) -> None:
    """Report, with a checkpoint of what ``save`` writes into a folder; None: without one."""
    if save is None:
        report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        report(metrics, checkpoint=Checkpoint.from_directory(folder))


class BoostingReportToTrial(BoostingReport):
    """Reports the rounds of a boosting library to the trial instead of to a trainer."""

    def _report(self, found: Report, model: Any, save: bool) -> None:
        def write(folder: str) -> None:
            model.save_model(os.path.join(folder, self._filename))

        report_saved(self._chosen(found), write if save else None)


class ReplacedCallback:
    """Raises ``DeprecationWarning``: ``TuneReportCheckpointCallback`` of its module has taken its place."""

    def __new__(cls, *_: object, **__: object) -> ReplacedCallback:
        module = cls.__module__.replace("heliostat", "ray", 1)
        raise DeprecationWarning(
            f"`{cls.__name__}` is deprecated. Use `{module}.TuneReportCheckpointCallback` instead."
        )
