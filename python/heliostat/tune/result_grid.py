"""The result of ``Tuner.fit()``: a result for each trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, overload

from heliostat.core.platform.extras import required
from heliostat.train.result import Result
from heliostat.tune.aliases import Report
from heliostat.tune.runner.results_file import read_results
from heliostat.tune.runner.trial import ERROR, TERMINATED, Trial, best_checkpoints, rank
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    import pandas as pd

    from heliostat.train.storage.arrow import ArrowStorage
    from heliostat.tune.analysis import ExperimentAnalysis
    from heliostat.tune.config import CheckpointConfig

SCOPES = ("all", "last", "avg", "last-5-avg", "last-10-avg")


class ResultGrid:
    """The results of a search, one for each trial, in the order of the trials.

    Args:
        experiment_analysis: A ``tune.ExperimentAnalysis``: its trials, folder, metric and mode.

    Examples:
        >>> from ray import tune
        >>> def trial(config):
        ...     tune.report({"score": config["x"] ** 2})
        >>> results = tune.Tuner(
        ...     trial,
        ...     param_space={"x": tune.grid_search([1, 2, 3])},
        ...     run_config=tune.RunConfig(name="squares", verbose=0),
        ... ).fit()
        >>> len(results), results.num_errors
        (3, 0)
        >>> results.get_best_result("score", mode="max").config
        {'x': 3}
        >>> results.get_dataframe()["score"].tolist()
        [1, 4, 9]
    """

    def __init__(
        self,
        experiment_analysis: ExperimentAnalysis,
        _checkpoints: CheckpointConfig | None = None,
    ) -> None:
        self._analysis, self._trials = experiment_analysis, experiment_analysis.trials
        self._path, self._storage = (
            experiment_analysis.experiment_path,
            experiment_analysis._storage,
        )
        self._metric = experiment_analysis.default_metric
        self._mode = experiment_analysis.default_mode
        self._checkpoints = _checkpoints
        self._results: list[Result | None] = [None] * len(self._trials)

    @classmethod
    def of(
        cls,
        trials: list[Trial],
        folder: str,
        metric: str | None = None,
        mode: str | None = None,
        checkpoints: CheckpointConfig | None = None,
        storage: ArrowStorage | None = None,
    ) -> ResultGrid:
        """Return what came of the trials of a folder.

        Args:
            trials: The trials.
            folder: The search's folder.
            metric: What was optimized.
            mode: "min" or "max".
            checkpoints: Which checkpoints were kept.
            storage: Where the folder is.
        """
        from heliostat.tune.analysis import ExperimentAnalysis

        made = ExperimentAnalysis(folder, trials=trials, default_metric=metric, default_mode=mode)
        made._storage = storage
        return cls(made, checkpoints)

    @property
    def experiment_path(self) -> str:
        """The folder of the search."""
        return self._path

    @property
    def filesystem(self) -> Any:
        """The ``pyarrow.fs.FileSystem`` that holds it (needs pyarrow)."""
        from heliostat.train.storage.filesystems import local_filesystem

        return local_filesystem() if self._storage is None else self._storage.filesystem

    @property
    def errors(self) -> list[BaseException]:
        """The errors of the trials that failed."""
        return [t.error for t in self._trials if t.status == ERROR and t.error is not None]

    @property
    def num_errors(self) -> int:
        """The number of trials that failed."""
        return sum(trial.status == ERROR for trial in self._trials)

    @property
    def num_terminated(self) -> int:
        """The number of trials that ended without an error."""
        return sum(trial.status == TERMINATED for trial in self._trials)

    def __len__(self) -> int:
        return len(self._trials)

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...

    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        trial = self._trials[index]
        position = index % len(self._trials)
        found = self._results[position]
        if found is None:
            found = self._results[position] = self._result(trial)
        return found

    def __iter__(self) -> Iterator[Result]:
        return (self[index] for index in range(len(self)))

    def _result(self, trial: Trial) -> Result:
        kept = [
            (trial.checkpoint_at(path), metrics)
            for path, metrics in best_checkpoints(trial, self._checkpoints)
        ]
        return Result(
            metrics=trial.last_result,
            checkpoint=trial.checkpoint,
            error=trial.error if trial.status == ERROR else None,  # type: ignore[arg-type] # any error
            path=f"{self._path.rstrip('/')}/{trial.folder}",
            best_checkpoints=kept,
            config=trial.config,
            _storage_filesystem=self._storage and self._storage.filesystem,
            _rows=_rows_of(trial.path),
        )

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """Return the result of the best trial.

        Args:
            metric, mode: Which is best. Default: what ``TuneConfig`` said.
            scope: Which reports count: "last", "all" (the best of each trial), "avg", "last-5-avg" or
                "last-10-avg".
            filter_nan_and_inf: Leave out trials whose value is not a finite number.

        Raises:
            ValueError: Metric or mode is not known, or ``scope`` is another.
            RuntimeError: No trial reported the metric.
        """
        if len(self) == 1:
            return self[0]
        metric, mode = metric or self._metric, mode or self._mode
        if not metric:
            raise ValueError(
                "No metric is provided. Pass the `metric` argument, or `metric` to `tune.TuneConfig()`."
            )
        if mode not in ("min", "max"):
            raise ValueError(
                "No mode is provided. Pass the `mode` argument ('min' or 'max'), or `mode` to "
                "`tune.TuneConfig()`."
            )
        if scope not in SCOPES:
            raise ValueError(f"scope={scope!r} must be one of {SCOPES}.")
        best = best_index(self._trials, metric, mode, scope, filter_nan_and_inf)
        if best is None:
            named = sorted({name for trial in self._trials for name in trial.last_result})
            raise RuntimeError(
                f"No best trial found for the given metric: {metric}. This means that no trial has reported "
                f"this metric, or all values reported for this metric are NaN. Reported were: {named}"
            )
        return self[best]

    def get_dataframe(
        self, filter_metric: str | None = None, filter_mode: str | None = None
    ) -> pd.DataFrame:
        """Return a table with a row for each trial: its last report, configuration and folder.

        Args:
            filter_metric, filter_mode: Instead of the last report, the one with the best value. Default
                of the mode: what ``TuneConfig`` said.

        Raises:
            ValueError: There is no metric, or a mode that is neither "min" nor "max".
        """
        pandas = required("pandas", "Tables of trials", "tune")

        filter_mode = filter_mode or (self._mode if filter_metric else None)
        check_filter(filter_metric, filter_mode)
        rows = []
        for trial in self._trials:
            result = trial.last_result
            if filter_metric and filter_mode:
                result = best_row(trial, filter_metric, filter_mode) or result
            rows.append({**flat_row(trial, result), "logdir": trial.path})
        return pandas.DataFrame(rows)

    def __repr__(self) -> str:
        results = ",\n  ".join(
            repr(one).replace("\n", "\n  ") for one in (self[i] for i in range(min(len(self), 10)))
        )
        more = ",\n  ..." if len(self) > 10 else ""
        return f"ResultGrid<[\n  {results}{more}\n]>"


def _rows_of(folder: str) -> Callable[[], list[Report]]:
    """The reports of a trial as rows of a table, read when they are asked for."""

    def rows() -> list[Report]:
        found = [flattened(row) for row in read_results(folder)]
        return [{name: row[name] for name in row if name != "experiment_tag"} for row in found]

    return rows


def check_filter(metric: str | None, mode: str | None) -> None:
    """Raise ``ValueError`` where what is the best report is said by half."""
    if bool(metric) != bool(mode) or mode not in ("min", "max", None):
        raise ValueError(
            f"metric={metric!r}, mode={mode!r}: pass a metric with its mode ('min' or 'max'), or neither."
        )


def best_index(
    trials: list[Trial], metric: str, mode: str, scope: str, filter_nan_and_inf: bool
) -> int | None:
    """Return the index of the best trial; None where no trial has the metric."""
    best, best_value = None, math.nan
    for index, trial in enumerate(trials):
        value = _value(trial, metric, mode, scope)
        if math.isnan(value) or (filter_nan_and_inf and math.isinf(value)):
            continue
        if best is None or (value > best_value if mode == "max" else value < best_value):
            best, best_value = index, value
    return best


def _value(trial: Trial, metric: str, mode: str, scope: str) -> float:
    """A trial's value of the metric over the reports that count."""
    if scope == "last":
        return rank(trial, metric, trial.last_result)
    rows = read_results(trial.path)
    values = [v for row in rows if not math.isnan(v := rank(trial, metric, row))]
    if not values:
        return math.nan
    if scope == "all":
        return max(values) if mode == "max" else min(values)
    count = {"avg": len(values), "last-5-avg": 5, "last-10-avg": 10}[scope]
    return sum(values[-count:]) / len(values[-count:])


def best_row(trial: Trial, metric: str, mode: str) -> Report | None:
    """The report of a trial with the best value."""
    rows = [(rank(trial, metric, row), row) for row in read_results(trial.path)]
    known = [pair for pair in rows if not math.isnan(pair[0])]
    if not known:
        return None
    choose: Any = max if mode == "max" else min
    found: tuple[float, Report] = choose(known, key=lambda pair: pair[0])
    return found[1]


def flat_row(trial: Trial, result: Report) -> Report:
    """A report as a row of a table, with the trial's configuration."""
    row = flattened({k: v for k, v in result.items() if k not in ("config", "experiment_tag")})
    return {**row, **flattened(trial.config, "config/")}
