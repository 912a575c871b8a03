"""progress.csv and result.json."""

from __future__ import annotations

import csv
import os
from typing import TYPE_CHECKING, Any

from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class CSVLoggerCallback(LoggerCallback):
    """Writes a row for each report into progress.csv in the trial's folder. Searches do so unasked.

    Nested names are joined by "/". The first report decides on the columns: names that come later are
    left out. The configuration is in params.json.
    """

    def __init__(self) -> None:
        self._open: dict[Trial, tuple[Any, csv.DictWriter[str]]] = {}
        self._unflushed: set[Trial] = set()

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        kept = {k: v for k, v in result.items() if k not in ("config", "experiment_tag")}
        row = flattened(kept)
        if trial not in self._open:
            self._open[trial] = _opened(os.path.join(trial.local_path, "progress.csv"), list(row))
        self._open[trial][1].writerow(row)
        self._unflushed.add(trial)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        for trial in self._unflushed & self._open.keys():
            self._open[trial][0].flush()
        self._unflushed.clear()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        found = self._open.pop(trial, None)
        if found is not None:
            found[0].close()

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        for trial in list(self._open):
            self.log_trial_end(trial)


def _opened(path: str, names: list[str]) -> tuple[Any, csv.DictWriter[str]]:
    """The table, whose columns stay as they are where there is one already."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = open(path, "a+", newline="")  # noqa: SIM115 # closed at the trial's end
    file.seek(0)
    there = next(csv.reader(file), None)
    file.seek(0, os.SEEK_END)
    writer = csv.DictWriter(file, there or names, extrasaction="ignore", lineterminator="\n")
    if there is None:
        writer.writeheader()
    return file, writer


class JsonLoggerCallback(LoggerCallback):
    """Stands for result.json, params.json and params.pkl, which searches always write.

    Programs that pass it to a search get the same files once.
    """
