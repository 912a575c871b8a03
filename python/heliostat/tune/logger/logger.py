"""The base of loggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.tune.aliases import Report
from heliostat.tune.callback import Callback

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial


class LoggerCallback(Callback):
    """Base of loggers: ``log_trial_*`` is called with one trial at a time, in the driver.

    The loggers of this package are called in a thread beside the search, a subclass in the search's own.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.logger import LoggerCallback
        >>> class Printing(LoggerCallback):
        ...     def log_trial_result(self, iteration, trial, result):
        ...         print("report", result["training_iteration"], "loss", result["loss"])
        >>> def objective(config):
        ...     tune.report({"loss": 0.5})
        >>> _ = tune.Tuner(
        ...     objective, run_config=tune.RunConfig(verbose=0, callbacks=[Printing()])
        ... ).fit()
        report 1 loss 0.5
    """

    # Whether a class, though not those made from it, is called in the thread.
    _runs_beside = False

    def log_trial_start(self, trial: Trial) -> None:
        """Called when a trial begins.

        Args:
            trial: The trial.
        """

    def log_trial_restore(self, trial: Trial) -> None:
        """Called when a trial goes on from a checkpoint.

        Args:
            trial: The trial.
        """

    def log_trial_save(self, trial: Trial) -> None:
        """Called when a trial has a new checkpoint.

        Args:
            trial: The trial.
        """

    def log_trial_result(self, iteration: int, trial: Trial, result: Report) -> None:
        """A trial has reported.

        Args:
            iteration: Turn of the search's loop.
            trial: The trial; ``trial.local_path`` is its folder.
            result: The report, with what is added to it and the configuration as "config".
        """

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """A trial has ended.

        Args:
            trial: The trial.
            failed: Whether it failed for good.
        """

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_start(trial)

    def on_trial_restore(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_restore(trial)

    def on_checkpoint(
        self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: object, **info: object
    ) -> None:
        self.log_trial_save(trial)

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: Report, **info: object
    ) -> None:
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_end(trial, failed=False)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: object
    ) -> None:
        self.log_trial_end(trial, failed=True)
