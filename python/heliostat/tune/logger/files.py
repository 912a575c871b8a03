"""progress.csv and result.json."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from heliostat.tune.aliases import Config, Report
from heliostat.tune.logger.columns import LEFT_OUT_OF_TABLES, Made, as_json, row_of
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

RESULTS, TABLE = "result.json", "progress.csv"


class MadeTogether(LoggerCallback):
    """Base of those to whom reports may come as text that was made of many together."""

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: Report,
        **info: Any,
    ) -> None:
        made: Made | None = info.get("made")  # where the search made text of many at once
        if made is None:
            self.log_trial_result(iteration, trial, result)
        else:
            self._log(trial, result, made)

    def _log(self, trial: Trial, result: Report, made: Made | None) -> None:
        """Write a report, of which the search may have made text already."""
        raise NotImplementedError


class ResultFiles(MadeTogether):
    """Writes a line for each report into result.json in the trial's folder; each search has one."""

    def __init__(self) -> None:
        self._open: dict[Trial, Any] = {}
        self._unflushed: set[Any] = set()

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        self._log(trial, result, None)

    def _log(self, trial: Trial, result: Report, made: Made | None) -> None:
        file = self._open.get(trial)
        if file is None:
            path = os.path.join(trial.local_path, RESULTS)
            file = self._open[trial] = open(path, "a")  # noqa: SIM115 # closed when the trial leaves
        line = made.line if made is not None else as_json(result) + "\n"
        try:
            file.write(line)
        except OSError as error:
            raise with_name(error, file) from error
        self._unflushed.add(file)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        for file in self._unflushed:
            with named(file):
                file.flush()
        self._unflushed.clear()

    def on_left(self, trial: Trial | None) -> None:
        """Close the file of a trial that gave up its place; it may go on later.

        Args:
            trial: The trial; None: all, as the search has ended.
        """
        for one in list(self._open) if trial is None else [trial]:
            file = self._open.pop(one, None)
            if file is not None:
                self._unflushed.discard(file)
                with named(file):
                    file.close()


class CSVLoggerCallback(MadeTogether):
    """Writes a row for each report into progress.csv in the trial's folder. Searches do so unasked.

    Nested names are joined by "/". The first report decides on the columns: names that come later are
    left out. The configuration is in params.json.

    Examples:
        >>> import pathlib
        >>> from ray import tune
        >>> from ray.tune.logger import CSVLoggerCallback
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> result = tune.Tuner(
        ...     objective,
        ...     param_space={"x": 2},
        ...     run_config=tune.RunConfig(callbacks=[CSVLoggerCallback()], verbose=0),
        ... ).fit()[0]
        >>> "loss" in pathlib.Path(result.path, "progress.csv").read_text().splitlines()[0].split(",")
        True
    """

    _runs_beside = True

    def __init__(self) -> None:
        self._open: dict[Trial, _Table] = {}
        self._unflushed: set[_Table] = set()

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        self._log(trial, result, None)

    def _log(self, trial: Trial, result: Report, made: Made | None) -> None:
        table = self._open.get(trial)
        if table is None:
            path = os.path.join(trial.local_path, TABLE)
            table = self._open[trial] = _Table(path, _row(result))
        if made is not None and made.names == table.names:
            table.write(made.row)
        else:
            table.add(result)
        self._unflushed.add(table)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
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

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in list(self._open):
            self.log_trial_end(trial)


class _Table:
    """A table, whose columns stay as they are where there is one already."""

    def __init__(self, path: str, names: Iterable[str]) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.file = open(path, "a+", newline="")  # noqa: SIM115 # closed at the trial's end
        self.file.seek(0)
        there = next(csv.reader(self.file), None)
        self.file.seek(0, os.SEEK_END)
        self.names = tuple(there or names)
        if there is None:
            self.write(row_of(self.names))

    def add(self, result: Report) -> None:
        """Write a report's row."""
        try:
            cells = [result[name] for name in self.names]
        except KeyError:  # some stand deeper, or are missing
            row = _row(result)
            cells = [row.get(name, "") for name in self.names]
        self.write(row_of(cells))

    def write(self, row: str) -> None:
        """Write a row that is text already."""
        try:
            self.file.write(row)
        except OSError as error:
            raise with_name(error, self.file) from error


def _row(result: Report) -> Report:
    kept = {name: one for name, one in result.items() if name not in LEFT_OUT_OF_TABLES}
    return flattened(kept)


class JsonLoggerCallback(ResultFiles):
    """Writes result.json, params.json and params.pkl into the trial's folder.

    Searches always write these: programs that pass it to one get the same files once.

    Examples:
        >>> import json, pathlib
        >>> from ray import tune
        >>> from ray.tune.logger import JsonLoggerCallback
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> result = tune.Tuner(
        ...     objective,
        ...     param_space={"x": 2},
        ...     run_config=tune.RunConfig(callbacks=[JsonLoggerCallback()], verbose=0),
        ... ).fit()[0]
        >>> json.loads(pathlib.Path(result.path, "params.json").read_text())
        {'x': 2}
    """

    _runs_beside = True
    is_of_search = False  # whether a search writes these files

    def log_trial_start(self, trial: Trial) -> None:
        self.update_config(trial, trial.config)

    def update_config(self, trial: Trial, config: Config) -> None:
        """Write a trial's configuration.

        Args:
            trial: The trial.
            config: What its files are to say.
        """
        from heliostat import cloudpickle

        if self.is_of_search:
            return
        os.makedirs(trial.local_path, exist_ok=True)
        with open(os.path.join(trial.local_path, "params.json"), "w") as text:
            text.write(as_json(config))
        with open(os.path.join(trial.local_path, "params.pkl"), "wb") as pickled:
            cloudpickle.dump(config, pickled)

    def _log(self, trial: Trial, result: Report, made: Made | None) -> None:
        if not self.is_of_search:
            super()._log(trial, result, made)
            self.on_step_end(0, [])

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        self.on_left(trial)


def complete(folder: str, reports: list[Report], has_table: bool) -> None:
    """Add to a trial's files the reports that the journal has and a killed process did not write.

    Args:
        folder: Of the trial.
        reports: All of the trial's, in their order.
        has_table: Whether the search writes tables; one that is there is completed in any case.
    """
    path = os.path.join(folder, RESULTS)
    there = _whole_lines(path)
    if there < len(reports):
        os.makedirs(folder, exist_ok=True)
        with open(path, "a") as file, named(file):
            file.writelines(as_json(one) + "\n" for one in reports[there:])
    path = os.path.join(folder, TABLE)
    rows: list[list[str]] = []
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = list(csv.reader(file))
    elif not has_table:
        return
    if reports and len(rows) - 1 < len(reports):
        _write_table(path, rows[0] if rows else _row(reports[0]), reports)


def _write_table(path: str, names: Iterable[str], reports: list[Report]) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{path}.part")
    table = _Table(f"{path}.part", names)
    for one in reports:
        table.add(one)
    with named(table.file):
        table.file.close()
    os.replace(f"{path}.part", path)


def _whole_lines(path: str) -> int:
    """The number of lines of a file, after a torn last one was cut off."""
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
def named(file: object) -> Iterator[None]:
    """An ``OSError`` of the block gets the name of the file, which that of a buffer lacks."""
    try:
        yield
    except OSError as error:
        raise with_name(error, file) from error


def with_name(error: OSError, file: Any) -> OSError:
    """The error, with the name of the file where it has none."""
    if error.filename is not None:
        return error
    return type(error)(error.errno, error.strerror, file.name)
