"""Trials as runs of MLflow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Report
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.logger.values import numbers
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class MLflowLoggerCallback(LoggerCallback):
    """Keeps a run of MLflow for each trial: the configuration as parameters, numbers as metrics.

    Args:
        tracking_uri, registry_uri: Where MLflow keeps runs and models. Default: MLflow's own.
        experiment_name: An experiment, which is made if it is not there. Default: MLFLOW_EXPERIMENT_NAME.
        tags: Tags of each run.
        tracking_token: For a server that asks for one.
        save_artifact: Whether a trial's folder is uploaded at its end.
        log_params_on_trial_end: Log the configuration at the end, which a scheduler may have changed.

    Raises:
        ImportError: mlflow is not installed.
        ValueError: No experiment is named.
    """

    _runs_beside = True

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: Mapping[str, object] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        required("mlflow", type(self).__name__)
        self.tracking_uri, self.registry_uri = tracking_uri, registry_uri
        self.experiment_name, self.tags = experiment_name, dict(tags or {})
        self.tracking_token, self.should_save_artifact = tracking_token, save_artifact
        self.log_params_on_trial_end = log_params_on_trial_end
        self._runs: dict[Trial, str] = {}

    def setup(
        self,
        stop: object = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: object,
    ) -> None:
        mlflow = required("mlflow", type(self).__name__)
        if self.tracking_token:
            os.environ["MLFLOW_TRACKING_TOKEN"] = self.tracking_token
        self._client = mlflow.tracking.MlflowClient(self.tracking_uri, self.registry_uri)
        name = self.experiment_name or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if not name:
            raise ValueError(
                "MLflowLoggerCallback needs experiment_name, or MLFLOW_EXPERIMENT_NAME in the environment."
            )
        found = self._client.get_experiment_by_name(name)
        self._experiment = found.experiment_id if found else self._client.create_experiment(name)

    def log_trial_start(self, trial: Trial) -> None:
        if trial not in self._runs:
            tags = {**self.tags, "trial_name": str(trial), "mlflow.runName": str(trial)}
            run = self._client.create_run(self._experiment, tags=tags)
            self._runs[trial] = run.info.run_id
            if not self.log_params_on_trial_end:
                self._log_params(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        step = int(result.get("timesteps_total") or result.get("training_iteration", 0))
        for name, value in numbers(result).items():
            self._client.log_metric(self._runs[trial], name, value, step=step)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        run_id = self._runs.pop(trial, None)
        if run_id is None:
            return
        if self.log_params_on_trial_end:
            self._log_params(trial, run_id)
        if self.should_save_artifact:
            self._client.log_artifacts(run_id, trial.local_path)
        self._client.set_terminated(run_id, status="FAILED" if failed else "FINISHED")

    def _log_params(self, trial: Trial, run_id: str | None = None) -> None:
        for name, value in flattened(trial.config).items():
            self._client.log_param(run_id or self._runs[trial], name, value)


__all__ = ["MLflowLoggerCallback"]
