"""The base of the schedulers that compare trials by one metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.tune.error import ArgumentError
from heliostat.tune.schedulers.trial_scheduler import FIFOScheduler

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial


class ComparingScheduler(FIFOScheduler):
    """Knows the metric, its mode and the time attribute, and refuses a search that names no metric."""

    compares = True

    def __init__(self, time_attr: str, metric: str | None, mode: str | None) -> None:
        if mode not in ("min", "max", None):
            raise ArgumentError(f"mode={mode!r} must be 'min' or 'max'.")
        self._time_attr, self._metric, self._mode = time_attr, metric, mode

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        if not self._metric or not self._mode:
            raise ValueError(
                f"{type(self).__name__} has been instantiated without a valid `metric` "
                f"({self._metric}) or `mode` ({self._mode}). Pass them to `tune.TuneConfig()` or to "
                "the scheduler."
            )
