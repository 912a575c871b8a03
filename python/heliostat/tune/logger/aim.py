"""Trials as runs of Aim."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Report
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.logger.values import numbers, storable
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

_LEFT_OUT = ("config", "context", "epoch", "pid", "time_total_s", "timestamp", "training_iteration")


class AimLoggerCallback(LoggerCallback):
    """Keeps a run of Aim for each trial; numbers are tracked as ``ray/tune/<name>``.

    Args:
        repo: Aim's repository. Default: the folder of the search.
        experiment_name: Default: the search's name.
        metrics: Names of what is tracked. Default: all numbers.
        aim_run_kwargs: Options of ``aim.Run``.

    Raises:
        ImportError: aim is not installed.
        ValueError: ``metrics`` is an empty list.
    """

    _runs_beside = True

    def __init__(
        self,
        repo: object = None,
        experiment_name: str | None = None,
        metrics: list[str] | None = None,
        **aim_run_kwargs: Any,
    ) -> None:
        self._aim: Any = required("aim", type(self).__name__)
        if metrics is not None and not metrics:
            raise ValueError("metrics must name at least one metric, or be None for all.")
        self._repo, self._name, self._metrics = repo, experiment_name, metrics
        self._options = aim_run_kwargs
        self._runs: dict[Trial, Any] = {}

    def log_trial_start(self, trial: Trial) -> None:
        self.log_trial_end(trial)  # what came before a restart is another run
        folder = trial.local_experiment_path
        run = self._runs[trial] = self._aim.Run(
            repo=self._repo or folder,
            experiment=self._name or os.path.basename(folder),
            **self._options,
        )
        run["trial_id"], run["trial_log_dir"] = trial.trial_id, trial.local_path
        if trial.evaluated_params:
            run["hparams"] = storable(flattened(trial.evaluated_params))

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        step = result.get("timesteps_total") or result.get("training_iteration", 0)
        context, epoch = result.get("context"), result.get("epoch")
        kept = {name: value for name, value in result.items() if name not in _LEFT_OUT}
        for name, value in numbers(kept).items():
            if self._metrics is None or name in self._metrics:
                self._runs[trial].track(
                    value, name=f"ray/tune/{name}", step=step, epoch=epoch, context=context
                )

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        run = self._runs.pop(trial, None)
        if run is not None:
            run.close()

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in list(self._runs):
            self.log_trial_end(trial)


__all__ = ["AimLoggerCallback"]
