"""The metrics of a run while it goes on, as plain data for the head's page. Pure."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

from heliostat.train.controller.record import RunRecord
from heliostat.train.messages import ReportedRow
from heliostat.train.view.curves import numbers, told
from heliostat.train.view.thinned import Thinned

# The first metrics of a run are drawn, each with so many points.
_MAX_CURVES, _MAX_POINTS = 24, 200


class _Curve:
    """The curve of a metric: points (seconds since the start, step, value), and what cannot be drawn."""

    def __init__(self) -> None:
        self.thinned: Thinned[tuple[float, float, float]] = Thinned(_MAX_POINTS)
        self.others = 0
        self.last = math.nan


class LiveCurves:
    """Takes the reports as they come, so that what it costs does not grow with the run."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._taken = 0
        self._curves: dict[str, _Curve] = {}
        self._left_out: set[str] = set()

    def take(self) -> bool:
        """Take what has been reported since; whether there was anything."""
        new = min(self._record.report_count - self._taken, len(self._record.reports))
        rows = list(islice(reversed(self._record.reports), new))
        for back, row in enumerate(reversed(rows)):
            self._add(row, self._record.report_count - new + back)
        self._taken = self._record.report_count
        return new > 0

    def _add(self, row: ReportedRow, number: int) -> None:
        values = dict(numbers(row.metrics))
        step = values.get("step", float(number))
        if not math.isfinite(step):
            step = float(number)
        for name, value in values.items():
            curve = self._curves.get(name)
            if curve is None:
                if len(self._curves) == _MAX_CURVES:
                    self._left_out.add(name)
                    continue
                curve = self._curves[name] = _Curve()
            curve.last = value
            if math.isfinite(value):
                at = round(row.time - self._record.started_at, 3)
                curve.thinned.add((at, step, value), value)
            else:
                curve.others += 1

    def plain(self) -> dict[str, Any]:
        """Columns of each curve; ``last`` is None where that is not finite."""
        return {
            "run_id": self._record.run_id,
            "left_out": len(self._left_out),
            "curves": [
                {
                    "name": name,
                    "at": [at for at, _, _ in points],
                    "step": [step for _, step, _ in points],
                    "value": [value for _, _, value in points],
                    "last": curve.last if math.isfinite(curve.last) else None,
                    "others": curve.others,
                }
                for name, curve in told(self._curves).items()
                for points in [curve.thinned.points]
            ],
        }
