"""Metric curves as SVG: one small chart per number that was reported."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import Any, TypeVar

from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.summary import duration
from heliostat.train.messages import ReportedRow
from heliostat.train.view.text import number
from heliostat.train.view.thinned import Thinned

T = TypeVar("T")

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 320.0, 170.0, 54.0, 18.0, 8.0
_MAX_CHARTS, _MAX_POINTS = 24, 600
# Fields that the library itself adds, which say nothing about the training.
_NOT_SHOWN = {
    "timestamp", "pid", "time_total_s", "time_since_restore", "iterations_since_restore",
    "training_iteration",
}  # fmt: skip
# Fields that only count.
_COUNTERS = {"epoch", "step"}


@dataclass
class _Series:
    """The values of one metric: those that can be drawn, how many others there were, the last."""

    points: list[tuple[ReportedRow, float]] = field(default_factory=list)
    others: int = 0
    last: float = math.nan


def curves(record: RunRecord) -> str:
    """Return a chart per numeric metric; nested ones as ``a/b``."""
    series: dict[str, _Series] = {}
    for row in record.reports:
        for key, value in numbers(row.metrics):
            found = series.setdefault(key, _Series())
            found.last = value
            if math.isfinite(value):
                found.points.append((row, value))
            else:
                found.others += 1
    series = told(series)
    if not series:
        return "<p>No numbers were reported.</p>"
    charts = "".join(_chart(record, k, v) for k, v in list(series.items())[:_MAX_CHARTS])
    more = len(series) - _MAX_CHARTS
    rest = f"<p>{more} more metrics are not drawn.</p>" if more > 0 else ""
    return f'<div class="charts">{charts}</div>{rest}'


def told(series: dict[str, T]) -> dict[str, T]:
    """Return the series that say something about the training."""
    series = {k: v for k, v in series.items() if k not in _NOT_SHOWN}
    return {k: v for k, v in series.items() if k not in _COUNTERS} or series


def numbers(metrics: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """Return the numbers of a report that can be drawn; nested ones as ``a/b``."""
    found = []
    for key, value in metrics.items():
        if isinstance(value, dict) and key != "config":
            found += numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            try:
                found.append((f"{prefix}{key}", float(value)))
            except OverflowError:  # a whole number beyond what a float can hold
                found.append((f"{prefix}{key}", math.inf if value > 0 else -math.inf))
    return found


def _caption(key: str, series: _Series) -> str:
    facts = [f"last {number(series.last)}"]
    if series.points:
        values = [value for _, value in series.points]
        facts += [f"min {number(min(values))}", f"max {number(max(values))}"]
    warning = f" <em>{series.others} NaN or infinite</em>" if series.others else ""
    return f"<figcaption><b>{html.escape(key)}</b><span>{', '.join(facts)}{warning}</span></figcaption>"


def _chart(record: RunRecord, key: str, series: _Series) -> str:
    points = series.points
    if not points:
        return f"<figure>{_caption(key, series)}</figure>"
    shown = Thinned(_MAX_POINTS, ((point, point[1]) for point in points)).points
    first, last = record.started_at, max(p[0].time for p in points)
    low, high = min(v for _, v in points), max(v for _, v in points)
    span_t = max(last - first, 1e-9)
    unit = max(abs(low), abs(high)) or 1.0  # the difference of two floats may be none
    span_v = (high / unit - low / unit) or 1.0

    def x(t: float) -> float:
        return _LEFT + (t - first) / span_t * (_WIDTH - _LEFT - 4)

    def y(v: float) -> float:
        return _HEIGHT - _BOTTOM - (v / unit - low / unit) / span_v * (_HEIGHT - _BOTTOM - _TOP)

    path = " ".join(f"{x(r.time):.1f},{y(v):.1f}" for r, v in shown)
    restarts = "".join(
        f'<line class="restart" x1="{x(f.time):.1f}" x2="{x(f.time):.1f}" y1="{_TOP}" '
        f'y2="{_HEIGHT - _BOTTOM}"><title>{html.escape(f.title)}</title></line>'
        for f in record.failures
        if f.time <= last
    )
    dots = "".join(
        f'<circle class="mark" cx="{x(r.time):.1f}" cy="{y(v):.1f}" r="{3 if r.checkpoint else 2}">'
        f"<title>report {r.index + 1}, {duration(r.time - first)}: {html.escape(key)} = {number(v)}"
        f"{', checkpoint ' + html.escape(str(r.checkpoint)) if r.checkpoint else ''}</title></circle>"
        for r, v in shown
        if r.checkpoint or len(shown) <= 60
    )
    base = _HEIGHT - _BOTTOM
    return (
        f"<figure>{_caption(key, series)}"
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img">'
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{base}" y2="{base}"/>'
        f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{number(high)}</text>'
        f'<text x="{_LEFT - 4}" y="{base}" text-anchor="end">{number(low)}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 5}">0 s</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 5}" text-anchor="end">{duration(last - first)}</text>'
        f'{restarts}<polyline class="curve" points="{path}"/>{dots}</svg></figure>'
    )
