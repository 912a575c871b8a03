"""``ExperimentAnalysis``: what came of a search, by trial."""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.storage.arrow import ArrowStorage
from heliostat.train.storage.filesystems import resolve
from heliostat.tune.aliases import Config, Report
from heliostat.tune.environment import delimiter
from heliostat.tune.error import TuneError
from heliostat.tune.result_grid import SCOPES, best_index, best_row, check_filter, flat_row
from heliostat.tune.runner.mirror import JOURNAL, fetch, has_search
from heliostat.tune.runner.results_file import read_results
from heliostat.tune.runner.store import read_trials
from heliostat.tune.runner.trial import Trial, rank
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("heliostat")


class ExperimentAnalysis:
    """The trials of a search, which of them is best, and their reports as tables.

    Args:
        experiment_checkpoint_path: Folder of the search, or a URI such as ``s3://bucket/dir/name``.
        storage_filesystem: A ``pyarrow.fs`` or fsspec filesystem that it is a path on.
        trials: The trials, where they are known. Default: they are read from the folder.
        default_metric, default_mode: What the best is told by where a method is not told.

    Attributes:
        trials: The trials, in the order of their creation.
        default_metric, default_mode: See above.

    Raises:
        ValueError: There is no search in the folder, or ``default_mode`` is neither "min" nor "max".

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": config["x"] ** 2})
        >>> space = {"x": tune.grid_search([1, 2, 3])}
        >>> analysis = tune.run(objective, config=space, metric="loss", mode="min", verbose=0)
        >>> analysis.best_config, analysis.best_result["loss"]
        ({'x': 1}, 1)
        >>> sorted(analysis.results_df["loss"])
        [1, 4, 9]
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | os.PathLike[str],
        *,
        storage_filesystem: Any | None = None,
        trials: list[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
    ) -> None:
        if default_mode not in ("min", "max", None):
            raise ValueError(f"default_mode={default_mode!r} must be 'min' or 'max'.")
        found, path = resolve(os.fspath(experiment_checkpoint_path), storage_filesystem)
        self._storage = None if found is None else ArrowStorage(path.rstrip("/"), found, False)
        if self._storage is not None and not has_search(self._storage):
            raise ValueError(f"There is no search in {experiment_checkpoint_path}.")
        self._folder = path if self._storage is None else fetch(self._storage)
        if trials is None:
            if not os.path.exists(os.path.join(self._folder, JOURNAL)):
                raise ValueError(
                    f"There is no search in {self._folder}: {JOURNAL} is missing. Give a search's folder."
                )
            trials = read_trials(self._folder)
            for trial in trials:
                trial.storage = self._storage
        self.trials = list(trials)
        self.default_metric, self.default_mode = default_metric, default_mode

    @property
    def experiment_path(self) -> str:
        """The folder of the search."""
        return self._folder if self._storage is None else self._storage.path

    # --- the best, by the metric of the search ---

    @property
    def best_trial(self) -> Trial:
        """The trial with the best last result.

        Raises:
            ValueError: The search has no metric or mode.
        """
        self._need_defaults("best_trial", "get_best_trial(metric, mode)")
        return self._best()

    @property
    def best_config(self) -> Config:
        """The configuration of the best trial; raises as ``best_trial`` does."""
        self._need_defaults("best_config", "get_best_config(metric, mode)")
        return self._best().config

    @property
    def best_logdir(self) -> str:
        """The folder of the best trial; raises as ``best_trial`` does."""
        self._need_defaults("best_logdir", "get_best_logdir(metric, mode)")
        return self._best().path

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The checkpoint of the best trial with the best metric; raises as ``best_trial`` does."""
        self._need_defaults("best_checkpoint", "get_best_checkpoint(trial, metric, mode)")
        return self.get_best_checkpoint(self._best(), self.default_metric, self.default_mode)

    @property
    def best_dataframe(self) -> pd.DataFrame:
        """The reports of the best trial, a row each; raises as ``best_trial`` does."""
        self._need_defaults("best_dataframe", "trial_dataframes[trial.trial_id]")
        return _frame(self._best())

    @property
    def best_result(self) -> Report:
        """The last report of the best trial; raises as ``best_trial`` does."""
        self._need_defaults("best_result", "get_best_trial(metric, mode).last_result")
        return self._best().last_result

    @property
    def best_result_df(self) -> pd.DataFrame:
        """``best_result`` as a table of one row, by trial id; raises as ``best_trial`` does."""
        return _by_trial([self.best_trial])

    # --- all trials ---

    @property
    def results(self) -> dict[str, Report]:
        """The last report of each trial, by trial id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> pd.DataFrame:
        """``results`` as a table, by trial id; nested names are joined by "/"."""
        return _by_trial(self.trials)

    @property
    def trial_dataframes(self) -> dict[str, pd.DataFrame]:
        """For each trial id a table of its reports, a row each."""
        return {trial.trial_id: _frame(trial) for trial in self.trials}

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pd.DataFrame:
        """Return a table with a row for each trial that reported: a report, ``config/`` and ``logdir``.

        Args:
            metric, mode: Take the report with the best value. Default: the last report; of the mode, what the
                search has.

        Raises:
            ValueError: One of both is not known, or ``mode`` is neither "min" nor "max".
        """
        pandas = required("pandas", "Tables of trials", "tune")

        mode = mode or (self.default_mode if metric else None)
        check_filter(metric, mode)
        rows = []
        for trial in self.trials:
            result: Report | None = trial.last_result
            if metric and mode:
                result = best_row(trial, metric, mode)
            if result:
                rows.append({**flat_row(trial, result), "logdir": trial.path})
        return pandas.DataFrame(rows)

    def get_all_configs(self, prefix: bool = False) -> dict[str, Config]:
        """Return the configuration of each trial, by trial id.

        Args:
            prefix: Names begin with "config/".
        """
        head = "config/" if prefix else ""
        return {
            trial.trial_id: {f"{head}{name}": value for name, value in trial.config.items()}
            for trial in self.trials
        }

    # --- the best, by any metric ---

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Trial | None:
        """Return the best trial; None, with a warning, where no trial has the metric.

        Args:
            metric, mode: Which is best. Default: what the search has.
            scope: Which reports count: "last", "all" (the best of each trial), "avg", "last-5-avg" or
                "last-10-avg".
            filter_nan_and_inf: Leave out trials whose value is not a finite number.

        Raises:
            ValueError: Metric or mode is not known, or ``scope`` is another.
        """
        if len(self.trials) == 1:
            return self.trials[0]
        metric, mode = self._metric_of(metric), self._mode_of(mode)
        if scope not in SCOPES:
            raise ValueError(f"scope={scope!r} must be one of {SCOPES}.")
        index = best_index(self.trials, metric, mode, scope, filter_nan_and_inf)
        if index is None:
            logger.warning("No trial reported the metric %r: there is no best trial.", metric)
            return None
        return self.trials[index]

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> Config | None:
        """Return the configuration of ``get_best_trial``; None where there is none.

        Args:
            metric: What trials are compared by. Default: that of the search.
            mode: "min" or "max". Default: that of the search.
            scope: Which results count: "last", "all", "avg", "last-5-avg" or "last-10-avg". Default "last".
        """
        best = self.get_best_trial(metric, mode, scope)
        return best.config if best else None

    def get_best_logdir(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> str | None:
        """Return the folder of ``get_best_trial``; None where there is none.

        Args:
            metric: What trials are compared by. Default: that of the search.
            mode: "min" or "max". Default: that of the search.
            scope: Which results count: "last", "all", "avg", "last-5-avg" or "last-10-avg". Default "last".
        """
        best = self.get_best_trial(metric, mode, scope)
        return best.path if best else None

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint of a trial that was made at the best value; None without one.

        Args:
            trial: One of ``trials``.
            metric, mode: Which is best. Default: what the search has.

        Raises:
            ValueError: Metric or mode is not known.
        """
        metric, mode = self._metric_of(metric), self._mode_of(mode)
        kept = [(rank(trial, metric, result), path) for path, result in trial.checkpoints]
        known = [pair for pair in kept if not math.isnan(pair[0])]
        if not known:
            logger.warning("%s has no checkpoint with the metric %r.", trial, metric)
            return None
        choose: Any = max if mode == "max" else min
        return trial.checkpoint_at(choose(known, key=lambda pair: pair[0])[1])

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = "training_iteration", mode: str = "max"
    ) -> Checkpoint | None:
        """Return the latest checkpoint of a trial; None without one.

        Args:
            trial: One of ``trials``. Default: the best by ``metric`` and ``mode``.
            metric, mode: Which trial is best where none is given.
        """
        trial = trial or self.get_best_trial(metric, mode)
        return trial.checkpoint if trial else None

    # --- the rest ---

    def _best(self) -> Trial:
        found = self.get_best_trial(self.default_metric, self.default_mode)
        if found is None:
            raise TuneError(f"No trial reported the metric {self.default_metric!r}.")
        return found

    def _need_defaults(self, name: str, instead: str) -> None:
        if not self.default_metric or not self.default_mode:
            raise ValueError(
                f"To fetch the `{name}`, pass a `metric` and `mode` parameter to `tune.run()`, or use "
                f"`{instead}`."
            )

    def _metric_of(self, metric: str | None) -> str:
        found = metric or self.default_metric
        if not found:
            raise ValueError(
                "No `metric` has been passed and the search has none: pass the `metric` argument."
            )
        return found

    def _mode_of(self, mode: str | None) -> str:
        found = mode or self.default_mode
        if found not in ("min", "max"):
            raise ValueError(
                f"mode={found!r}: pass the `mode` argument, which has to be 'min' or 'max'."
            )
        return found


def _frame(trial: Trial) -> pd.DataFrame:
    pandas = required("pandas", "Tables of trials", "tune")

    return pandas.DataFrame([flat_row(trial, row) for row in read_results(trial.path)])


def _by_trial(trials: list[Trial]) -> pd.DataFrame:
    pandas = required("pandas", "Tables of trials", "tune")

    joint = delimiter()
    rows = [
        {**flattened(trial.last_result, joint=joint), "trial_id": trial.trial_id}
        for trial in trials
    ]
    return pandas.DataFrame(rows, columns=None if rows else ["trial_id"]).set_index("trial_id")
