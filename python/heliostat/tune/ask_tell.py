"""A search whose trials run wherever the program likes: it asks for configurations and tells results."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from heliostat.tune.aliases import Config, Report, Space
from heliostat.tune.config import RunConfig, TuneConfig
from heliostat.tune.error import TuneError
from heliostat.tune.result_grid import ResultGrid
from heliostat.tune.runner.search import PAUSE, STOP
from heliostat.tune.runner.store import SEARCHER, FolderTaken, alone
from heliostat.tune.runner.trial import RUNNING, Trial
from heliostat.tune.schedulers import (
    HyperBandScheduler,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
    TrialScheduler,
)
from heliostat.tune.tuner import Tuner

# Schedulers that pause trials or change configurations: only a search that runs its trials can do that.
_RUN_TRIALS = (
    HyperBandScheduler,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
)


class Study:
    """Asks a searcher for configurations, and learns from what the program tells.

    All that was asked and told is on disk, also for a machine that loses its power, before a call
    returns. A study whose folder is there goes on: trials that were asked for and not told are handed
    out again. One process at a time has a study; make it an actor
    (``ray.remote(Study).remote(folder, ...)``) to ask from many.

    Args:
        folder: Where its files are, those of a search by ``Tuner``.
        param_space: Names and values, as of a ``Tuner``; a study that goes on has its own.
        metric: What is optimized.
        mode: "min" or "max".
        search_alg: A ``Searcher``. Default: random values and grids.
        scheduler: What ends trials early, such as ``ASHAScheduler``.
        num_samples: How many configurations there are, or how often a grid is tried; -1: without end.

    Raises:
        ValueError: Another process has the study, or an argument makes no sense.
        TuneError: The scheduler is one that pauses trials.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        param_space: Space | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
        search_alg: Any | None = None,
        scheduler: TrialScheduler | None = None,
        num_samples: int = -1,
    ) -> None:
        if isinstance(scheduler, _RUN_TRIALS):
            raise TuneError(
                f"{type(scheduler).__name__} pauses trials, which a study does not run: use ASHAScheduler or "
                "MedianStoppingRule, or a Tuner."
            )
        self._folder = os.path.abspath(os.path.expanduser(os.fspath(folder)))
        self._mutex = threading.RLock()
        try:
            self._held = alone(self._folder)
        except FolderTaken as taken:
            raise ValueError(
                f"Another study or search has {self._folder} ({taken}): close it, or make one study an actor "
                "that all ask."
            ) from None
        try:
            if Tuner.can_restore(self._folder):
                tuner = Tuner.restore(self._folder, _run_elsewhere, param_space=param_space)
            else:
                tuner = Tuner(
                    _run_elsewhere,
                    param_space=param_space,
                    tune_config=TuneConfig(
                        metric=metric,
                        mode=mode,
                        search_alg=search_alg,
                        scheduler=scheduler,
                        num_samples=num_samples,
                    ),
                    run_config=RunConfig(
                        name=os.path.basename(self._folder),
                        storage_path=os.path.dirname(self._folder),
                    ),
                )
            self._search, self._store, self._searcher = tuner.opened()
        except BaseException:
            self._held.close()
            raise
        self._metric, self._mode = tuner.metric, tuner.mode
        self._trials = {trial.trial_id: trial for trial in self._search.get_trials()}
        self._asked_at: dict[str, float] = {}

    @property
    def is_finished(self) -> bool:
        """Whether every configuration was asked for and told about."""
        with self._mutex:
            return self._search.is_over

    def ask(self) -> Trial | None:
        """Return a trial, with ``trial_id`` and ``config``; None: there is none now, or no more."""
        with self._mutex:
            trial = self._search.choose()
            if trial is None:
                return None
            self._trials[trial.trial_id] = trial
            self._search.started(trial)
            self._asked_at[trial.trial_id] = time.monotonic()
            self._store.status(trial)
            self._keep_searcher()
            self._store.sync()
            return trial

    def tell(
        self, trial: Trial | str, metrics: Mapping[str, object] | float, done: bool = True
    ) -> bool:
        """Say what came of a trial, or came so far; return whether it should go on.

        Args:
            trial: The trial, or its ``trial_id``.
            metrics: The values by name, or the value of ``metric`` alone.
            done: Whether this is the last of the trial. False: the scheduler is asked.

        Raises:
            ValueError: There is no such trial, or it has ended.
            TuneError: The metric is not among the values.
        """
        with self._mutex:
            known = self._running(trial)
            result = dict(metrics) if isinstance(metrics, Mapping) else self._value(metrics)
            before = known.last_result
            took = time.monotonic() - self._asked_at.setdefault(known.trial_id, time.monotonic())
            result.update(
                training_iteration=int(before.get("training_iteration", 0)) + 1,
                trial_id=known.trial_id,
                timestamp=int(time.time()),
                time_total_s=took,
                done=done,
                config=known.config,
                experiment_tag=known.experiment_tag,
            )
            try:
                decision = self._search.reported(known, result)
            except TuneError:
                known.last_result = before  # as if it had not been told
                raise
            self._store.reported(known, result)
            if decision == PAUSE:  # ask() hands it out again
                self._search.paused(known)
                self._store.status(known)
            if decision == STOP:
                self._search.completed(known)
                self._store.status(known)
            self._keep_searcher()
            self._store.sync()
            return decision not in (STOP, PAUSE)

    def tell_failed(self, trial: Trial | str, error: BaseException | str) -> None:
        """Say that a trial has failed.

        Raises:
            ValueError: There is no such trial, or it has ended.
        """
        with self._mutex:
            known = self._running(trial)
            cause = error if isinstance(error, BaseException) else RuntimeError(error)
            self._search.failed(known, cause, f"{type(cause).__name__}: {cause}")
            self._store.failed(known)
            self._store.status(known)
            self._keep_searcher()
            self._store.sync()

    def results(self) -> ResultGrid:
        """Return what was told so far, a result for each trial."""
        with self._mutex:
            return ResultGrid.of(self._search.get_trials(), self._folder, self._metric, self._mode)

    def close(self) -> None:
        """Leave the study to another process; the end of this one does so, too."""
        with self._mutex:
            self._store.close()
            self._held.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _running(self, trial: Trial | str) -> Trial:
        trial_id = trial if isinstance(trial, str) else trial.trial_id
        known = self._trials.get(trial_id)
        if known is None:
            raise ValueError(
                f"The study has no trial {trial_id!r}: tell what came of one that ask() returned."
            )
        if known.is_finished():
            raise ValueError(f"Trial {trial_id} has ended before ({known.status}).")
        if known.status != RUNNING:  # asked for by an earlier process, which may be what tells now
            self._search.started(known)
        return known

    def _value(self, value: float) -> Report:
        if self._metric is None:
            raise ValueError("The study has no metric: tell values by their names.")
        return {self._metric: value}

    def _keep_searcher(self) -> None:
        if self._searcher is not None:
            path = os.path.join(self._folder, SEARCHER)
            self._searcher.save(path)


def _run_elsewhere(config: Config) -> None:
    raise TuneError("The trials of this search are run by the program that asks for them.")


__all__ = ["Study"]
