"""The base of schedulers, which decide after each result whether a trial goes on."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING

from heliostat.tune.aliases import Report
from heliostat.tune.result import DEFAULT_METRIC

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial


class TrialScheduler:
    """Base of schedulers. ``tune_controller`` has ``get_trials()`` and ``get_live_trials()``.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.schedulers import FIFOScheduler, TrialScheduler
        >>> class FirstThree(FIFOScheduler):
        ...     def on_trial_result(self, tune_controller, trial, result):
        ...         enough = result["training_iteration"] >= 3
        ...         return TrialScheduler.STOP if enough else TrialScheduler.CONTINUE
        >>> def objective(config):
        ...     for step in range(100):
        ...         tune.report({"step": step})
        >>> tuner = tune.Tuner(
        ...     objective,
        ...     tune_config=tune.TuneConfig(scheduler=FirstThree()),
        ...     run_config=tune.RunConfig(verbose=0),
        ... )
        >>> tuner.fit()[0].metrics["step"]
        2
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"
    NOOP = "NOOP"

    # Whether paused trials that may go on come before new ones.
    resumes_first = False

    # Whether trials often go on in another process, or from the checkpoint of another trial.
    hands_checkpoints = False

    # Whether trials are compared by a metric.
    compares = False

    _metric: str | None = None
    _mode: str | None = None

    @property
    def metric(self) -> str | None:
        """The metric by which trials are compared."""
        return self._metric

    @property
    def mode(self) -> str | None:
        """ "min" or "max"; None where it was not said."""
        return self._mode

    @property
    def decides(self) -> bool:
        """Whether trials have to wait for a decision after each result."""
        return True

    @property
    def supports_buffered_results(self) -> bool:
        """Whether results may come in batches: trials do not often wait for each other."""
        return not self.hands_checkpoints

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: object) -> bool:
        """Take over metric and mode of the search.

        A mode without a metric is about what functions return.

        Args:
            metric: What is optimized.
            mode: "min" or "max".
            **spec: More, in later releases.

        Returns:
            False when they were said twice.
        """
        if (self._metric and metric) or (self._mode and mode and mode != self._mode):
            return False
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        if self.compares and self._mode:
            self._metric = self._metric or DEFAULT_METRIC
        return True

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        """Called when a trial is new.

        Args:
            tune_controller: The search.
            trial: The trial.

        Raises:
            ValueError: Trials are compared, and there is no metric or mode; the scheduler does not take the
                search.
        """

    def on_trial_error(self, tune_controller: Search, trial: Trial) -> None:
        """Called when a trial has failed for good.

        Args:
            tune_controller: The search.
            trial: The trial.
        """

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        """Return CONTINUE, PAUSE or STOP, when a trial has reported.

        Args:
            tune_controller: The search.
            trial: The trial.
            result: What it reported, with what is added to it.

        Raises:
            RuntimeError: The result lacks a value that the scheduler needs.
            ValueError: The scheduler does not take the search.
        """
        return self.CONTINUE

    def on_trial_saved(self, tune_controller: Search, trial: Trial) -> None:
        """Called when a trial has a new checkpoint.

        Args:
            tune_controller: The search.
            trial: The trial.
        """

    def on_trial_complete(self, tune_controller: Search, trial: Trial, result: Report) -> None:
        """Called when a trial has ended.

        Args:
            tune_controller: The search.
            trial: The trial.
            result: What it reported, with what is added to it.
        """

    def on_trial_remove(self, tune_controller: Search, trial: Trial) -> None:
        """Called when a trial was taken out before its end.

        Args:
            tune_controller: The search.
            trial: The trial.
        """

    def choose_trial_to_run(self, tune_controller: Search) -> Trial | None:
        """Return one of the trials that wait, in the order of their creation.

        Args:
            tune_controller: The search.
        """
        for status in ("PENDING", "PAUSED"):
            for trial in tune_controller.get_live_trials():
                if trial.status == status:
                    return trial
        return None

    def on_stall(self, tune_controller: Search) -> None:
        """Called when nothing runs, and there is nothing to run: paused trials may be let go on.

        Args:
            tune_controller: The search.
        """

    def debug_string(self) -> str:
        """The state in a line, for people."""
        return type(self).__name__

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file.

        Args:
            checkpoint_path: The file.
        """
        part = f"{checkpoint_path}.part"
        with open(part, "wb") as file:
            pickle.dump(self.__dict__, file)
        os.replace(part, checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Read what ``save`` wrote.

        Args:
            checkpoint_path: The file.
        """
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))


def may_grow(controller: object) -> bool:
    """Whether there will be more trials. Who drives a scheduler by hand, without a search, has all."""
    return bool(getattr(controller, "has_more", False))


class FIFOScheduler(TrialScheduler):
    """Runs every trial to its end.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.schedulers import FIFOScheduler
        >>> def objective(config):
        ...     tune.report({"loss": 1})
        >>> tuner = tune.Tuner(
        ...     objective,
        ...     tune_config=tune.TuneConfig(scheduler=FIFOScheduler(), num_samples=2),
        ...     run_config=tune.RunConfig(verbose=0),
        ... )
        >>> len(tuner.fit())
        2
    """

    @property
    def decides(self) -> bool:
        return type(self).on_trial_result is not TrialScheduler.on_trial_result

    def debug_string(self) -> str:
        return "Using FIFO scheduling algorithm."
