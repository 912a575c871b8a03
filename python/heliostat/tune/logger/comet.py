"""Trials as experiments of Comet."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Report
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.logger.values import NAMES, SYSTEM, numbers
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

# Comet's records of the driver, which say nothing of a trial.
OFF = (
    "auto_output_logging",
    "log_git_metadata",
    "log_git_patch",
    "log_env_cpu",
    "log_env_gpu",
)


class CometLoggerCallback(LoggerCallback):
    """Keeps an experiment of Comet for each trial.

    Args:
        online: False: files for a later upload.
        tags: Tags of each experiment.
        save_checkpoints: Whether checkpoints become artifacts.
        experiment_kwargs: Options of ``comet_ml.Experiment``.

    Raises:
        ImportError: comet_ml is not installed.
    """

    _runs_beside = True

    def __init__(
        self,
        online: bool = True,
        tags: list[str] | None = None,
        save_checkpoints: bool = False,
        **experiment_kwargs: Any,
    ) -> None:
        self._comet: Any = required("comet_ml", type(self).__name__)
        self.online, self.tags = online, list(tags or [])
        self.save_checkpoints = save_checkpoints
        self.experiment_kwargs = {**dict.fromkeys(OFF, False), **experiment_kwargs}
        self._experiments: dict[Trial, Any] = {}

    def log_trial_start(self, trial: Trial) -> None:
        if trial not in self._experiments:
            kind = self._comet.Experiment if self.online else self._comet.OfflineExperiment
            made = self._experiments[trial] = kind(**self.experiment_kwargs)
            made.set_name(str(trial))
            made.add_tags(self.tags)
            made.log_other("Created from", "Ray")
        self._experiments[trial].log_parameters(flattened(trial.config))

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        if trial not in self._experiments:
            self.log_trial_start(trial)
        experiment = self._experiments[trial]
        left_out = {"done", *SYSTEM, *NAMES}
        metrics = {name: one for name, one in numbers(result).items() if name not in left_out}
        experiment.log_metrics(metrics, step=result.get("training_iteration", 0))
        experiment.log_others({name: result[name] for name in NAMES if name in result})
        for name in SYSTEM:
            if name in result:
                experiment.log_system_info(name, result[name])

    def log_trial_save(self, trial: Trial) -> None:
        if not self.save_checkpoints or trial.checkpoint is None:
            return
        artifact = self._comet.Artifact(name=f"checkpoint_{trial}", artifact_type="model")
        with trial.checkpoint.as_directory() as root:
            for folder, _, files in os.walk(root):
                for name in files:
                    path = os.path.join(folder, name)
                    artifact.add(path, logical_path=os.path.relpath(path, root))
            self._experiments[trial].log_artifact(artifact)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        experiment = self._experiments.pop(trial, None)
        if experiment is not None:
            experiment.end()

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        for trial in list(self._experiments):
            self.log_trial_end(trial)


__all__ = ["CometLoggerCallback"]
