"""progress.csv and result.json."""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

RESULTS, TABLE = "result.json", "progress.csv"
_LEFT_OUT = ("config", "experiment_tag")


class ResultFiles(LoggerCallback):
    """Writes a line for each report into result.json in the trial's folder; each search has one."""

    def __init__(self) -> None:
        self._open: dict[Trial, Any] = {}
        self._unflushed: set[Any] = set()

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        file = self._open.get(trial)
        if file is None:
            path = os.path.join(trial.local_path, RESULTS)
            file = self._open[trial] = open(path, "a")  # noqa: SIM115 # closed when the trial leaves
        with named(file):
            file.write(as_json(result) + "\n")
        self._unflushed.add(file)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        for file in self._unflushed:
            with named(file):
                file.flush()
        self._unflushed.clear()

    def on_left(self, trial: Trial | None) -> None:
        """The trial gave up its place, and may go on later; None: the search has ended."""
        for one in list(self._open) if trial is None else [trial]:
            file = self._open.pop(one, None)
            if file is not None:
                self._unflushed.discard(file)
                with named(file):
                    file.close()


class CSVLoggerCallback(LoggerCallback):
    """Writes a row for each report into progress.csv in the trial's folder. Searches do so unasked.

    Nested names are joined by "/". The first report decides on the columns: names that come later are
    left out. The configuration is in params.json.
    """

    _runs_beside = True

    def __init__(self) -> None:
        self._open: dict[Trial, _Table] = {}
        self._unflushed: set[_Table] = set()

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        table = self._open.get(trial)
        if table is None:
            path = os.path.join(trial.local_path, TABLE)
            # A driver that was killed may have had no table yet of a trial that goes on now.
            earlier = [] if os.path.exists(path) else _reports_before(trial, result)
            table = self._open[trial] = _Table(path, list(_row((earlier or [result])[0])))
            for one in earlier:
                table.add(one)
        table.add(result)
        self._unflushed.add(table)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        for table in self._unflushed:
            with named(table.file):
                table.file.flush()
        self._unflushed.clear()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        table = self._open.pop(trial, None)
        if table is not None:
            self._unflushed.discard(table)
            with named(table.file):
                table.file.close()

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        for trial in list(self._open):
            self.log_trial_end(trial)


class _Table:
    """A table, whose columns stay as they are where there is one already."""

    def __init__(self, path: str, names: list[str]) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = open(path, "a+", newline="")  # noqa: SIM115 # closed at the trial's end
        self.file.seek(0)
        there = next(csv.reader(self.file), None)
        self.file.seek(0, os.SEEK_END)
        self._names = there or names
        self._writer = csv.writer(self.file, lineterminator="\n")
        if there is None:
            self._writer.writerow(names)

    def add(self, result: dict[str, Any]) -> None:
        """Write a report's row."""
        try:
            cells = [result[name] for name in self._names]
        except KeyError:  # some stand deeper, or are missing
            row = _row(result)
            cells = [row.get(name, "") for name in self._names]
        with named(self.file):
            self._writer.writerow(cells)


def _reports_before(trial: Trial, result: dict[str, Any]) -> list[dict[str, Any]]:
    """The reports in result.json that came before this one."""
    number = result.get("training_iteration", 1)
    path = os.path.join(trial.local_path, RESULTS)
    if number == 1 or not os.path.exists(path):
        return []
    with open(path) as file:
        reports = [json.loads(line) for line in file if line.endswith("\n")]
    return [one for one in reports if one.get("training_iteration", number) < number]


def _row(result: dict[str, Any]) -> dict[str, Any]:
    return flattened({name: one for name, one in result.items() if name not in _LEFT_OUT})


class JsonLoggerCallback(LoggerCallback):
    """Stands for result.json, params.json and params.pkl, which searches always write.

    Programs that pass it to a search get the same files once.
    """

    _runs_beside = True


def complete(folder: str, reports: list[dict[str, Any]]) -> None:
    """Write what a killed process had noted of a trial and its files lack.

    Args:
        folder: Of the trial. A table of its reports is completed where there is one.
        reports: All of the trial's, in their order.
    """
    path = os.path.join(folder, RESULTS)
    there = _whole_lines(path)
    if there < len(reports):
        os.makedirs(folder, exist_ok=True)
        with open(path, "a") as file, named(file):
            file.writelines(as_json(one) + "\n" for one in reports[there:])
    path = os.path.join(folder, TABLE)
    if reports and os.path.exists(path):
        with open(path, newline="") as file:
            rows = list(csv.reader(file))
        if len(rows) - 1 < len(reports):
            _write_table(path, rows[0] if rows else list(_row(reports[0])), reports)


def _write_table(path: str, names: list[str], reports: list[dict[str, Any]]) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{path}.part")
    table = _Table(f"{path}.part", names)
    for one in reports:
        table.add(one)
    with named(table.file):
        table.file.close()
    os.replace(f"{path}.part", path)


def _whole_lines(path: str) -> int:
    """How many lines a file has, after a torn last one was cut off."""
    try:
        with open(path, "r+b") as file:
            data = file.read()
            end = data.rfind(b"\n") + 1
            if end < len(data):
                file.truncate(end)
            return data.count(b"\n")
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def named(file: Any) -> Iterator[None]:
    """An ``OSError`` of the block gets the name of the file, which that of a buffer lacks."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, file.name) from error


def as_json(value: Any) -> str:
    """A value as JSON: numpy's numbers and arrays as Python's, other objects as text."""
    return _ENCODER.encode(value)


def _plain(value: Any) -> Any:
    item = getattr(value, "tolist", None)
    return item() if callable(item) else str(value)


_ENCODER = json.JSONEncoder(default=_plain)
