"""Trials as runs of Weights & Biases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Report
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.logger.values import NAMES, SYSTEM, storable
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class WandbLoggerCallback(LoggerCallback):
    """Keeps a run of Weights & Biases for each trial, in the driver.

    Args:
        project: Default: WANDB_PROJECT_NAME.
        group: Default: WANDB_GROUP_NAME, or the search's name.
        api_key_file, api_key: Key of the account, or a file whose first line it is. Default:
            WANDB_API_KEY, or what ``wandb login`` has stored.
        excludes: Names of metrics and parameters that are left out.
        log_config: Whether each report has the configuration.
        upload_checkpoints: Whether checkpoints become artifacts.
        kwargs: Options of ``wandb.init``.

    Raises:
        ImportError: wandb is not installed.
        ValueError: No project is named, or both ``api_key`` and ``api_key_file`` are given.
    """

    _runs_beside = True

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        save_checkpoints: bool = False,
        **kwargs: object,
    ) -> None:
        self._wandb: Any = required("wandb", type(self).__name__)
        if api_key and api_key_file:
            raise ValueError("Pass api_key or api_key_file, not both.")
        self.project, self.group = project, group
        self._key, self._key_file = api_key, api_key_file
        self.excludes, self.log_config = list(excludes or []), log_config
        self.upload_checkpoints = upload_checkpoints or save_checkpoints
        self.kwargs = kwargs
        self._runs: dict[Trial, Any] = {}

    def setup(
        self,
        stop: object = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: object,
    ) -> None:
        if self._key_file:
            with open(os.path.expanduser(self._key_file)) as file:
                self._key = file.readline().strip()
        if self._key:
            os.environ["WANDB_API_KEY"] = self._key
        self.project = self.project or os.environ.get("WANDB_PROJECT_NAME")
        self.group = self.group or os.environ.get("WANDB_GROUP_NAME")
        if not self.project:
            raise ValueError(
                "WandbLoggerCallback needs project, or WANDB_PROJECT_NAME in the environment."
            )

    def log_trial_start(self, trial: Trial) -> None:
        if trial in self._runs:
            return
        config = {name: one for name, one in trial.config.items() if name not in self.excludes}
        options: dict[str, object] = {
            "id": trial.trial_id,
            "name": str(trial),
            "resume": "allow",
            "reinit": "create_new",  # the runs of several trials stand beside each other
            "allow_val_change": True,
            "group": self.group or os.path.basename(trial.local_experiment_path),
            "project": self.project,
            "config": storable(config),
            "dir": trial.local_path,
        }
        self._runs[trial] = self._wandb.init(**{**options, **self.kwargs})

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        self.log_trial_start(trial)
        left_out = {"done", *self.excludes, *SYSTEM, *NAMES}
        if not self.log_config:
            left_out.add("config")
        kept = {name: value for name, value in result.items() if name not in left_out}
        logged = {name: storable(value) for name, value in flattened(kept).items()}
        run = self._runs[trial]
        known = {name: result[name] for name in (*SYSTEM, *NAMES) if name in result}
        run.config.update(known, allow_val_change=True)
        run.log({name: value for name, value in logged.items() if name not in self.excludes})

    def log_trial_save(self, trial: Trial) -> None:
        if self.upload_checkpoints and trial.checkpoint is not None and trial in self._runs:
            artifact = self._wandb.Artifact(name=f"checkpoint_{trial}", type="model")
            with trial.checkpoint.as_directory() as folder:
                artifact.add_dir(folder)
            self._runs[trial].log_artifact(artifact)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        run = self._runs.pop(trial, None)
        if run is not None:
            run.finish(exit_code=1 if failed else 0)

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in list(self._runs):
            self.log_trial_end(trial)


__all__ = ["WandbLoggerCallback"]
