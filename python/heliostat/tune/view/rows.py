"""The rows of a search's trials for views."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heliostat.tune.aliases import Config
from heliostat.tune.runner.results_file import read_results
from heliostat.tune.runner.trial import Trial, rank
from heliostat.tune.stopper import flattened

# LIMIT-1: trials that a page draws, so that it opens however many there were.
ROWS = 1000
_POINTS = 60  # of a curve
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(\.\d+)?")


@dataclass
class Row:
    """A trial.

    Attributes:
        parameters: What was chosen for it, by flat names.
        value: The metric in its last report; None: it has none.
        began, ended: In seconds since 1970; None: it has not reported.
        curve: Its iterations and the metric at each.
        error: The last line of its error.
    """

    name: str
    state: str
    folder: str
    parameters: Config
    value: float | None
    iterations: int
    began: float | None
    ended: float | None
    curve: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""
    stopped_by: str = ""


def rows_of(
    trials: Sequence[Trial],
    metric: str | None,
    curves: Mapping[str, list[tuple[float, float]]] | None = None,
) -> list[Row]:
    """A row for each trial, in the order in which they were made."""
    return [_row(trial, metric, (curves or {}).get(trial.trial_id, [])) for trial in trials]


def _row(trial: Trial, metric: str | None, curve: list[tuple[float, float]]) -> Row:
    result = trial.last_result
    value = rank(trial, metric, result) if metric and result else math.nan
    ended, took = result.get("timestamp"), result.get("time_total_s", 0.0)
    has_times = _is_number(ended) and _is_number(took)
    return Row(
        str(trial),
        trial.status,
        trial.folder,
        flattened(trial.evaluated_params),
        value if math.isfinite(value) else None,
        int(result.get("training_iteration") or 0),
        ended - took if has_times else None,
        ended if has_times else None,
        curve,
        trial.error_line() if trial.status == "ERROR" else "",
        trial.stopped_by,
    )


def earlier_curves(trials: Sequence[Trial], metric: str) -> dict[str, list[tuple[float, float]]]:
    """Return the reports of the trials of a restored search, by their ids, read from their files."""
    found = {}
    for trial in trials[:ROWS]:
        points = [
            (float(row.get("training_iteration") or 0), rank(trial, metric, row))
            for row in read_results(trial.path)
        ]
        step = max(1, len(points) // _POINTS)
        found[trial.trial_id] = [point for point in points[::step] if math.isfinite(point[1])]
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def best_of(rows: Sequence[Row], mode: str | None) -> Row | None:
    """The row with the best value; None where there is none."""
    known = [row for row in rows if row.value is not None]
    if not known or mode is None:
        return None
    choose: Any = max if mode == "max" else min
    found: Row = choose(known, key=lambda row: row.value)
    return found


def shown(rows: Sequence[Row], mode: str | None) -> list[Row]:
    """No more than ``ROWS``: the best half of them, and others from all of the search."""
    if len(rows) <= ROWS:
        return list(rows)
    places = range(len(rows))
    sign = -1 if mode == "max" else 1
    ranked = sorted(places, key=lambda n: (rows[n].value is None, sign * (rows[n].value or 0.0)))
    kept = set(ranked[: ROWS // 2])
    others = [n for n in places if n not in kept]
    wanted = ROWS - len(kept)
    kept.update(others[n * len(others) // wanted] for n in range(wanted))
    return [rows[n] for n in sorted(kept)]


def errors_of(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Failed trials by what their errors say, those that differ in numbers alone together; most first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row.state == "ERROR":
            groups.setdefault(_NUMBER.sub("N", row.error), []).append(row)
    found = [(group[0].error, group) for group in groups.values()]
    return sorted(found, key=lambda pair: -len(pair[1]))


def left_s(ended: int, total: int | None, began: float, until: float | None = None) -> float | None:
    """For how many seconds a search goes on: as long for each trial as so far; None: it is not known.

    Args:
        ended: How many of its trials have ended.
        total: How many there will be; None: without end.
        began: When it began, in seconds since 1970.
        until: When it ends at the latest.
    """
    now = time.time()
    found = []
    if total is not None and ended:
        found.append((now - began) / ended * (total - ended))
    if until is not None:
        found.append(until - now)
    return max(0.0, min(found)) if found else None
