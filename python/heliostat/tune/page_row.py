"""The view of a search for the head's page: its trials with their parameters and results."""

from __future__ import annotations

import time
from typing import Any

from heliostat.tune.aliases import Config, Report
from heliostat.tune.callback import Callback
from heliostat.tune.progress import best_trial
from heliostat.tune.runner.trial import Trial, rank
from heliostat.tune.view.importance import importance
from heliostat.tune.view.rows import Row, errors_of, rows_of
from heliostat.util.row_writer import Past, RowWriter

NAMESPACE = "_tune_runs"
EVERY_S = 2.0
# LIMIT-1: trials that are told of, and the best of them with curves; points of a curve; parameters.
_TRIALS, _CURVES, _POINTS, _PARAMETERS = 1000, 20, 60, 16
_ERROR = 500
_ERRORS, _EXAMPLES = 20, 5  # kinds of errors, and trials that are named of each


class SearchRow(Callback):
    """Tells of one search."""

    def __init__(
        self, name: str, folder: str, metric: str | None, mode: str | None, total: int | None
    ) -> None:
        self._told = RowWriter(NAMESPACE, name, EVERY_S)
        self._folder, self.metric, self.mode, self._total = folder, metric, mode, total
        self._curves: dict[str, Past] = {}

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        if self._told.is_due:
            with self._told.measured():
                self._write(trials, "RUNNING")

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: Report,
        **info: object,
    ) -> None:
        value = _number(result.get(self.metric)) if self.metric else None
        if value is None:
            return
        curve = self._curves.get(trial.trial_id)
        if curve is None:
            if len(self._curves) >= _TRIALS:
                return
            curve = self._curves[trial.trial_id] = Past(_POINTS)
        curve.add(float(result.get("training_iteration", len(curve.points) + 1)), value)

    @property
    def started_at(self) -> float:
        """The time at which the search began, in seconds since 1970."""
        return self._told.started_at

    def curves(self) -> dict[str, list[tuple[float, float]]]:
        """The metric of trials over their iterations, by their ids."""
        return {
            name: [(x, y) for x, y in curve.points if x is not None and y is not None]
            for name, curve in self._curves.items()
        }

    def end(self, trials: list[Trial], state: str) -> None:
        """The search is over."""
        self._write(trials, state, is_over=True)

    def _write(self, trials: list[Trial], state: str, is_over: bool = False) -> None:
        best = best_trial(trials, self.metric, self.mode)
        rows = rows_of(trials, self.metric)
        shown = [self._trial(trial) for trial in trials[-_TRIALS:]]
        known = [row for row in shown if row["value"] is not None]
        known.sort(key=lambda row: row["value"], reverse=self.mode == "max")
        for row in known[:_CURVES]:
            curve = self._curves.get(row["id"])
            row["curve"] = curve.points if curve else []
        self._told.write(
            {
                "state": state,
                "folder": self._folder,
                "metric": self.metric,
                "mode": self.mode,
                "total": self._total,
                "took_s": time.time() - self._told.started_at,
                "best": best.trial_id if best else None,
                "best_so_far": self._best_so_far(rows),
                "importance": importance(rows)[:_PARAMETERS],
                "errors": [
                    {
                        "text": text[:_ERROR],
                        "count": len(group),
                        "trials": [row.name for row in group[:_EXAMPLES]],
                    }
                    for text, group in errors_of(rows)[:_ERRORS]
                ],
                "left_out": max(0, len(trials) - _TRIALS),
                "trials": shown,
            },
            is_over=is_over,
        )

    def _best_so_far(self, rows: list[Row]) -> list[tuple[float, float]]:
        """The best result at moments at which it became better, in seconds since 1970, and now."""
        if self.mode is None:
            return []
        better = max if self.mode == "max" else min
        ended = sorted(
            (row.ended, row.value)
            for row in rows
            if row.ended is not None and row.value is not None
        )
        points: list[tuple[float, float]] = []
        for when, value in ended:
            best = better(points[-1][1], value) if points else value
            if not points or best != points[-1][1]:
                points.append((when, best))
        step = max(1, len(points) // _POINTS)
        return [*points[:-1][::step], points[-1], (ended[-1][0], points[-1][1])] if points else []

    def _trial(self, trial: Trial) -> dict[str, Any]:
        result = trial.last_result
        value = rank(trial, self.metric, result) if self.metric and result else None
        return {
            "id": trial.trial_id,
            "name": str(trial),
            "state": trial.status,
            "parameters": dict(list(_plain(trial.evaluated_params).items())[:_PARAMETERS]),
            "value": _number(value),
            "iterations": result.get("training_iteration", 0),
            "took_s": _number(result.get("time_total_s")) or 0.0,
            "failures": trial.num_failures,
            "error": trial.error_text.strip()[-_ERROR:],
            "stopped_by": trial.stopped_by,
        }


def _number(value: Any) -> float | None:
    """A finite number; None of anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number - number == 0 else None


def _plain(parameters: Config) -> Config:
    return {
        name: value if isinstance(value, bool | int | float | str | None) else str(value)[:80]
        for name, value in parameters.items()
    }
