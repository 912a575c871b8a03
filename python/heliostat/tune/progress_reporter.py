"""Reporters: tables of a search for the terminal and for notebooks, and the base of users' own."""

from __future__ import annotations

import html
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.tune.progress import STATES, Progress, best_trial
from heliostat.tune.runner.search import ADDED
from heliostat.tune.runner.trial import Trial, rank
from heliostat.tune.stopper import flattened

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search

__all__ = ["CLIReporter", "JupyterNotebookReporter", "ProgressReporter"]


class ProgressReporter:
    """Base of reporters; pass one as ``progress_reporter`` of ``RunConfig`` or ``tune.run``.

    Examples:
        >>> from ray import tune
        >>> class Counting(tune.ProgressReporter):
        ...     def should_report(self, trials, done=False):
        ...         return done
        ...     def report(self, trials, done, *sys_info):
        ...         print(len(trials), "trials have ended")
        >>> def objective(config):
        ...     tune.report({"loss": 1})
        >>> tuner = tune.Tuner(
        ...     objective,
        ...     tune_config=tune.TuneConfig(num_samples=2),
        ...     run_config=tune.RunConfig(progress_reporter=Counting()),
        ... )
        >>> _ = tuner.fit()
        2 trials have ended
    """

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: object,
    ) -> None:
        """Called when the search begins.

        Args:
            start_time: Seconds since 1970. Default: now.
            total_samples: How many trials there will be. Default: it is not known.
            metric: What is optimized.
            mode: "min" or "max".
            **kwargs: More, in later releases.
        """

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """Return whether ``report`` is to be called now.

        Args:
            trials: All trials.
            done: Whether this is the last time. Default False.
        """
        return True

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        """Show the search. To be implemented.

        Args:
            trials: All of them.
            done: Whether this is the last time.
            sys_info: Lines about the scheduler and the search.
        """
        raise NotImplementedError


class _TableReporter(ProgressReporter):
    """A row for each trial.

    Args:
        metric_columns: Names of metrics, or a dict of names and titles. Default: the iteration, the time
            and the first metrics that trials report.
        parameter_columns: Names of hyperparameters, likewise. Default: those that are searched.
        total_samples: How many trials there will be.
        max_progress_rows: How many trials are shown.
        max_error_rows: How many failed ones are listed.
        max_column_length: How long a text is.
        max_report_frequency: Seconds between two reports.
        infer_limit: How many metrics are shown where none are named.
        print_intermediate_tables: False: only the last table is shown. Default: all.
        metric: What the best trial is best at. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        sort_by_metric: Whether the best come first.
    """

    def __init__(
        self,
        *,
        metric_columns: Sequence[str] | Mapping[str, str] | None = None,
        parameter_columns: Sequence[str] | Mapping[str, str] | None = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: float = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ) -> None:
        self._metrics = None if metric_columns is None else _titles(metric_columns)
        self._parameters = None if parameter_columns is None else _titles(parameter_columns)
        self._total, self._rows, self._errors = total_samples, max_progress_rows, max_error_rows
        self._width, self._every, self._infer = max_column_length, max_report_frequency, infer_limit
        self._all = print_intermediate_tables is not False
        self._metric, self._mode, self._sorts = metric, mode, sort_by_metric
        self._began = time.time()
        self._reported_at = -float("inf")

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: object,
    ) -> None:
        self._began = start_time or time.time()
        self._total = total_samples if self._total is None else self._total
        self._metric, self._mode = self._metric or metric, self._mode or mode

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Take over metric and mode of the search.

        Args:
            metric: What is optimized.
            mode: "min" or "max".

        Returns:
            False where this reporter has its own.
        """
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric, self._mode = self._metric or metric, self._mode or mode
        return True

    def set_total_samples(self, total_samples: int) -> None:
        """Say how many trials there will be.

        Args:
            total_samples: The number.
        """
        self._total = total_samples

    def set_start_time(self, timestamp: float | None = None) -> None:
        """Say when the search began.

        Args:
            timestamp: Seconds since 1970. Default: now.
        """
        self._began = time.time() if timestamp is None else timestamp

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        now = time.monotonic()
        if not done and (not self._all or now - self._reported_at < self._every):
            return False
        self._reported_at = now
        return True

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show one more metric.

        Args:
            metric: Its name.
            representation: Its title. Default: the name.

        Raises:
            ValueError: It is shown already.
        """
        self._metrics = _with_one(self._metrics or {}, metric, representation)

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show one more hyperparameter.

        Args:
            parameter: Its name.
            representation: Its title. Default: the name.

        Raises:
            ValueError: It is shown already.
        """
        self._parameters = _with_one(self._parameters or {}, parameter, representation)

    # --- what is shown ---

    def _head(self, trials: list[Trial], sys_info: Sequence[str]) -> list[str]:
        counts = Counter(trial.status for trial in trials)
        states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        of = f"/{self._total}" if self._total else ""
        lines = [f"== Status == {time.time() - self._began:.0f} s", *sys_info]
        best = best_trial(trials, self._metric, self._mode)
        if best is not None and self._metric is not None:
            value = rank(best, self._metric, best.last_result)
            lines.append(f"Best: {best} with {self._metric}={value:.6g}, {best.evaluated_params}")
        return [*lines, f"Trials: {len(trials)}{of} ({states})"]

    def _table(self, trials: list[Trial]) -> list[list[str]]:
        """A head and a row for each trial that is shown."""
        metrics = self._metrics if self._metrics is not None else self._found(trials)
        parameters = self._parameters
        if parameters is None:
            parameters = {name: name for trial in trials for name in trial.evaluated_params}
        rows = [["Trial", "status", *parameters.values(), *metrics.values()]]
        for trial in self._shown(trials):
            config, result = flattened(trial.config), flattened(trial.last_result)
            cells = [config.get(name) for name in parameters]
            cells += [result.get(name) for name in metrics]
            rows.append([str(trial), trial.status, *map(self._text, cells)])
        return rows

    def _found(self, trials: list[Trial]) -> dict[str, str]:
        names = ["training_iteration", "time_total_s"]
        for trial in trials:
            for name, value in trial.last_result.items():
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if name not in ADDED and is_number and name not in names:
                    names.append(name)
        found = {name: name for name in names[: 2 + self._infer]}
        if self._metric is not None:
            found[self._metric] = self._metric
        return found | {"training_iteration": "iter", "time_total_s": "total time (s)"}

    def _shown(self, trials: list[Trial]) -> list[Trial]:
        ordered = sorted(trials, key=lambda trial: STATES.index(trial.status))
        if self._sorts and self._metric is not None:
            sign = -1 if self._mode == "max" else 1
            values = {trial: rank(trial, self._metric, trial.last_result) for trial in trials}
            ordered.sort(key=lambda trial: (values[trial] != values[trial], sign * values[trial]))
        return ordered[: self._rows]

    def _text(self, value: object) -> str:
        text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        return text if len(text) <= self._width else f"...{text[3 - self._width :]}"

    def _failed(self, trials: list[Trial]) -> list[str]:
        failed = [trial for trial in trials if trial.status == "ERROR"][: self._errors]
        return [f"{one} failed: {one.error_line()}" for one in failed]


class CLIReporter(_TableReporter):
    """Prints tables to the terminal.

    Examples:
        >>> from ray import tune
        >>> reporter = tune.CLIReporter(metric_columns=["loss"], max_report_frequency=30)
        >>> reporter.add_metric_column("accuracy")
        >>> config = tune.RunConfig(progress_reporter=reporter)
    """

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        rows = self._table(trials)
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = self._head(trials, sys_info)
        for row in rows:
            cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
            lines.append(" | ".join(cells).rstrip())
        hidden = len(trials) - len(rows) + 1
        if hidden:
            lines.append(f"... {hidden} more trials not shown")
        print(  # noqa: T201 # a progress report is for the terminal
            "\n".join([*lines, *self._failed(trials), ""]), file=sys.stdout, flush=True
        )


class JupyterNotebookReporter(_TableReporter):
    """Shows tables in a notebook.

    Args:
        overwrite: Whether a table replaces the one before.
        kwargs: As of ``CLIReporter``.

    Examples:
        >>> from ray import tune
        >>> reporter = tune.JupyterNotebookReporter(overwrite=True, metric_columns=["loss"])
        >>> config = tune.RunConfig(progress_reporter=reporter)
    """

    def __init__(self, *, overwrite: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._overwrite = overwrite

    def report(self, trials: list[Trial], done: bool, *sys_info: str) -> None:
        shown = required("IPython.display", "JupyterNotebookReporter")
        if self._overwrite:
            shown.clear_output(wait=True)
        lines = [*self._head(trials, sys_info), *self._failed(trials)]
        text = "".join(f"<div>{html.escape(line)}</div>" for line in lines)
        head, *rows = self._table(trials)
        body = "".join(_row(row, "td") for row in rows)
        shown.display(shown.HTML(f"{text}<table>{_row(head, 'th')}{body}</table>"))


class Reported(Progress):
    """Calls a user's reporter where a search would print."""

    def __init__(
        self,
        reporter: ProgressReporter,
        metric: str | None,
        mode: str | None,
        total: int | None,
    ) -> None:
        super().__init__(1, metric, mode, total)
        self._reporter = reporter
        reporter.setup(start_time=time.time(), total_samples=total, metric=metric, mode=mode)

    def show(self, search: Search) -> None:
        trials = search.get_trials()
        if self._reporter.should_report(trials, done=False):
            self._reporter.report(trials, False, search.scheduler.debug_string())

    def end(self, trials: list[Trial], folder: str) -> None:
        if self._reporter.should_report(trials, done=True):
            self._reporter.report(trials, True, f"Results are in {folder}")


def _row(cells: list[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _titles(columns: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}


def _with_one(columns: dict[str, str], name: str, title: str | None) -> dict[str, str]:
    if name in columns:
        raise ValueError(f"Column {name} already exists.")
    return {**columns, name: title or name}
