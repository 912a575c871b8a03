"""TensorBoard's event files."""

from __future__ import annotations

import functools
import importlib
import math
import time
from numbers import Number
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import missing
from heliostat.tune.aliases import Report
from heliostat.tune.logger.columns import LEFT_OUT_OF_SCALARS, Made
from heliostat.tune.logger.events import EventFile, Sample, Templates, summary_event
from heliostat.tune.logger.files import MadeTogether, named, with_name
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class TBXLoggerCallback(MadeTogether):
    """Writes the numbers of each report as scalars ``ray/tune/<name>``, lists of them as histograms.

    What was chosen for a trial goes in at its end, with its last numbers, for the tab "HParams": texts,
    truth values and numbers. The step is ``timesteps_total`` where it is reported, else
    ``training_iteration``. Searches do so unasked where tensorboardX is installed.

    Raises:
        ImportError: Neither tensorboardX nor torch's TensorBoard is installed.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.logger import TBXLoggerCallback
        >>> def search(objective):  # then `tensorboard --logdir` of the search's folder
        ...     run_config = tune.RunConfig(name="mine", callbacks=[TBXLoggerCallback()])
        ...     return tune.Tuner(objective, run_config=run_config).fit()
    """

    _runs_beside = True

    def __init__(self) -> None:
        self._summaries = _summaries()
        self._templates = Templates()
        self._files: dict[Trial, EventFile] = {}
        self._unflushed: set[EventFile] = set()
        # Samples whose records are made together, by their names.
        self._waiting: dict[tuple[str, ...], list[tuple[EventFile, Sample]]] = {}
        # The last numbers of trials by their names, the newest last.
        self._last: dict[Trial, dict[tuple[str, ...], tuple[float, ...]]] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        self._log(trial, result, None)

    def _log(self, trial: Trial, result: Report, made: Made | None) -> None:
        file = self._files.get(trial)
        if file is None:
            file = self._files[trial] = EventFile(trial.local_path)
        step = int(result.get("timesteps_total") or result.get("training_iteration", 0))
        if made is not None and made.tags is not None:
            tags, numbers = made.tags, made.numbers
        else:
            found = self._numbers(file, step, result)
            tags, numbers = tuple(found), tuple(found.values())
        self._unflushed.add(file)
        if tags:
            last = self._last.setdefault(trial, {})
            if tags in last:  # those with other names may be older
                del last[tags]
            last[tags] = numbers
            self._waiting.setdefault(tags, []).append((file, (time.time(), step, numbers)))

    def _numbers(self, file: EventFile, step: int, result: Report) -> dict[str, float]:
        """The numbers of a report by their names; lists of numbers go into the file at once."""
        numbers: dict[str, float] = {}
        for name, value in result.items():
            if name in LEFT_OUT_OF_SCALARS or type(value) in (str, bool, type(None)):
                continue
            if type(value) is int or (type(value) is float and value == value):
                numbers[name] = value
            elif type(value) is not float:
                for deep, one in flattened({name: value}).items():
                    self._add_other(file, step, numbers, deep, _plain(one))
        return numbers

    def _add_other(
        self, file: EventFile, step: int, numbers: dict[str, float], name: str, value: Any
    ) -> None:
        if _is_number(value):
            numbers[name] = float(value)
        elif isinstance(value, list) and value and all(_is_number(one) for one in value):
            made = self._summaries.histogram(f"ray/tune/{name}", _array(value), _bins())
            with named(file.file):
                file.add(summary_event(step, made.SerializeToString()))

    def _write_waiting(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for names, reports in waiting.items():
            tags = tuple(f"ray/tune/{name}" for name in names)
            records = self._templates.records(tags, [report for _, report in reports])
            for (file, _), record in zip(reports, records, strict=True):
                try:
                    file.file.write(record)
                except OSError as error:
                    raise with_name(error, file.file) from error

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        self._write_waiting()
        for file in self._unflushed:
            with named(file.file):
                file.file.flush()
        self._unflushed.clear()

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        file = self._files.pop(trial, None)
        if file is None:
            return
        self._write_waiting()
        self._unflushed.discard(file)
        with named(file.file):
            last = {
                name: number
                for tags, numbers in self._last.pop(trial, {}).items()
                for name, number in zip(tags, numbers, strict=True)
            }
            for made in _parameters(self._summaries, trial, last):
                file.add(summary_event(0, made.SerializeToString()))
            file.file.close()

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in list(self._files):
            self.log_trial_end(trial)


def _summaries() -> Any:
    """The module of an installed package that makes histograms and tables of parameters."""
    for module in ("tensorboardX", "torch.utils.tensorboard"):
        try:
            return importlib.import_module(f"{module}.summary")
        except ImportError:
            continue
    raise missing("tensorboardX", "TensorBoard's files")


def _parameters(summaries: Any, trial: Trial, last: dict[str, float]) -> tuple[Any, ...]:
    """Return the hyperparameters of a trial beside its last numbers; values that are not plain are
    left out.
    """
    chosen = {}
    for name, value in flattened(trial.evaluated_params).items():
        plain = _plain(value)
        if isinstance(plain, str | bool | int | float):
            chosen[name] = plain
    numbers = {f"ray/tune/{name}": value for name, value in last.items()}
    return tuple(summaries.hparams(chosen, numbers)) if chosen else ()


def _plain(value: object) -> Any:
    """numpy's numbers and arrays as Python's."""
    item = getattr(value, "tolist", None)
    return item() if callable(item) else value


@functools.cache
def _bins() -> list[float]:
    """Borders of histograms, each a tenth further from zero than the one before."""
    positive = [1e-12]
    while positive[-1] < 1e20:
        positive.append(positive[-1] * 1.1)
    return [*(-one for one in reversed(positive)), 0.0, *positive]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, Number) and not isinstance(value, bool | complex)
    return is_number and not math.isnan(value)


def _array(values: list[Any]) -> Any:
    import numpy as np

    return np.asarray(values)
