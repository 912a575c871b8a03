"""TensorBoard's event files."""

from __future__ import annotations

import importlib
import math
from numbers import Number
from typing import TYPE_CHECKING, Any

from heliostat.core.extras import missing
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

# A writer's own thread brings events to the file. With its default of 10 in line, the search waits, too.
QUEUE = 10_000

_LEFT_OUT = ("config", "pid", "timestamp", "time_total_s", "training_iteration")


class TBXLoggerCallback(LoggerCallback):
    """Writes the numbers of each report as scalars ``ray/tune/<name>``, lists of them as histograms.

    What was chosen for a trial goes in at its end, with its last numbers, for the tab "HParams": texts,
    truth values and numbers. The step is ``timesteps_total`` where it is reported, else
    ``training_iteration``. Searches do so unasked where tensorboardX is installed.

    Raises:
        ImportError: Neither tensorboardX nor torch's TensorBoard is installed.
    """

    def __init__(self) -> None:
        self._writer_class = _writer_class()
        self._writers: dict[Trial, Any] = {}
        self._last: dict[Trial, dict[str, float]] = {}

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        writer = self._writers.get(trial)
        if writer is None:
            writer = self._writers[trial] = self._writer_class(
                trial.local_path, max_queue=QUEUE, flush_secs=30
            )
        step = result.get("timesteps_total") or result.get("training_iteration", 0)
        kept = {name: value for name, value in result.items() if name not in _LEFT_OUT}
        for name, value in flattened(kept).items():
            found = getattr(value, "tolist", lambda value=value: value)()
            if _is_number(found):
                writer.add_scalar(f"ray/tune/{name}", found, global_step=step)
                self._last.setdefault(trial, {})[f"ray/tune/{name}"] = found
            elif isinstance(found, list) and found and all(_is_number(one) for one in found):
                writer.add_histogram(f"ray/tune/{name}", _array(found), global_step=step)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        writer = self._writers.pop(trial, None)
        if writer is not None:
            _write_parameters(writer, trial, self._last.pop(trial, {}))
            writer.close()

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        for trial in list(self._writers):
            self.log_trial_end(trial)


def _writer_class() -> Any:
    for module in ("tensorboardX", "torch.utils.tensorboard"):
        try:
            return importlib.import_module(module).SummaryWriter
        except ImportError:
            continue
    raise missing("tensorboardX", "TensorBoard's files")


def _write_parameters(writer: Any, trial: Trial, last: dict[str, float]) -> None:
    """What was chosen for a trial beside its last numbers; other values than plain ones are left out."""
    chosen = {}
    for name, value in flattened(trial.evaluated_params).items():
        plain = getattr(value, "tolist", lambda value=value: value)()
        if isinstance(plain, str | bool | int | float):
            chosen[name] = plain
    if not chosen:
        return
    package = type(writer).__module__.removesuffix(".writer")
    summaries = importlib.import_module(f"{package}.summary").hparams(chosen, last)
    for summary in summaries:
        writer.file_writer.add_summary(summary)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, Number) and not isinstance(value, bool | complex)
    return is_number and not math.isnan(value)


def _array(values: list[Any]) -> Any:
    import numpy as np

    return np.asarray(values)
