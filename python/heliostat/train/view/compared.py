"""Several runs over each other, as one page: what they took, their metrics, and the steps of their ranks."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from heliostat.train.controller.saved import SavedRun
from heliostat.train.controller.summary import duration
from heliostat.train.steps.messages import PHASES
from heliostat.train.steps.pace import milliseconds
from heliostat.train.view.curves import numbers, told
from heliostat.train.view.steps import bars
from heliostat.train.view.style import document
from heliostat.train.view.text import number
from heliostat.train.view.thinned import Thinned

# A run has its colour everywhere on the page.
COLORS = ("blue", "amber", "green", "violet", "teal", "red")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 320.0, 170.0, 54.0, 18.0, 8.0
_MAX_CHARTS, _MAX_POINTS, _MAX_RANKS = 24, 600, 16

Point = tuple[float, float]


@dataclass
class Fact:
    """A row of the comparison: the value of each run as a text, and as a number where it has one."""

    title: str
    texts: list[str]
    values: list[float | None]

    @property
    def ratio(self) -> str:
        """The last run's value as a part of the first one's; "" where that says nothing."""
        first, last = self.values[0], self.values[-1]
        return f"{last / first:.2f}" if first and last is not None else ""


def facts(runs: Sequence[SavedRun]) -> list[Fact]:
    """Return the facts that are compared, in order; means over ranks where steps were seen."""
    rows = [
        Fact("began", [_moment(run.started_at) for run in runs], [None] * len(runs)),
        Fact("state", [run.state for run in runs], [None] * len(runs)),
        Fact("took", [duration(run.took_s) for run in runs], [run.took_s for run in runs]),
        _count("workers", [run.workers for run in runs]),
        _count("reports", [run.report_count for run in runs]),
        _fact("reports a second", [_rate(run) for run in runs], number),
        _count("failures", [len(run.failures) for run in runs]),
        _count("checkpoints", [len(run.checkpoints) for run in runs]),
        _fact(
            "a checkpoint on its way",
            [_mean([s for _, s in r.checkpoints]) for r in runs],
            duration,
        ),
        _fact("a step", [_mean([t.total for t in run.steps]) for run in runs], milliseconds),
        _fact("the slowest rank's own", [_slowest(run) for run in runs], milliseconds),
    ]
    for phase, name in enumerate(PHASES):
        seconds = [_mean([t.spent[phase] for t in run.steps]) for run in runs]
        rows.append(_fact(f"of a step, {name}", seconds, milliseconds))
    return [row for row in rows if any(row.texts)]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S") if seconds else ""


def _count(title: str, counts: list[int]) -> Fact:
    return Fact(title, [str(count) for count in counts], [None] * len(counts))


def _fact(title: str, values: Sequence[float | None], show: Callable[[float], str]) -> Fact:
    return Fact(title, ["" if v is None else show(v) for v in values], list(values))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _slowest(run: SavedRun) -> float | None:
    return max((times.own for times in run.steps), default=None)


def _rate(run: SavedRun) -> float | None:
    span = run.at_s[-1] - run.at_s[0] if len(run.at_s) > 1 else 0.0
    return (len(run.at_s) - 1) / span if span > 0 else None


def compared(runs: Sequence[SavedRun], names: Sequence[str]) -> str:
    """The page of two runs or more, each under its name."""
    title = html.escape(" and ".join(names))
    chips = "".join(
        f'<i style="background:var(--{color})"></i>{html.escape(name)}'
        for name, color in zip(names, COLORS, strict=False)
    )
    body = (
        f'<header><h1>{title}</h1><p class="legend">{chips}</p></header>'
        f"{_table(facts(runs), names)}<h2>Metrics</h2>{_charts(runs, names)}{_steps(runs, names)}"
    )
    return document(title, body)


def _table(rows: list[Fact], names: Sequence[str]) -> str:
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    lines = [
        f"<tr><td>{row.title}</td>"
        + "".join(f"<td>{html.escape(text)}</td>" for text in row.texts)
        + f"<td>{row.ratio}</td></tr>"
        for row in rows
    ]
    head = f"<tr><th></th>{heads}<th>last / first</th></tr>"
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def _series(run: SavedRun) -> dict[str, list[Point]]:
    """Each metric over the step that was reported with it, else over the number of the report."""
    found: dict[str, list[Point]] = {}
    first = run.report_count - len(run.reports)
    for index, metrics in enumerate(run.reports):
        values = dict(numbers(metrics))
        at = values.get("step", float(first + index))
        for key, value in values.items():
            if math.isfinite(value) and math.isfinite(at):
                found.setdefault(key, []).append((at, value))
    return told(found)


def _charts(runs: Sequence[SavedRun], names: Sequence[str]) -> str:
    every = [_series(run) for run in runs]
    keys = list(dict.fromkeys(key for series in every for key in series))
    if not keys:
        return "<p>No numbers were reported.</p>"
    charts = "".join(
        _chart(key, [series.get(key, []) for series in every], names) for key in keys[:_MAX_CHARTS]
    )
    more = len(keys) - _MAX_CHARTS
    rest = f"<p>{more} more metrics are not drawn.</p>" if more > 0 else ""
    return f'<div class="charts">{charts}</div>{rest}'


def _chart(key: str, curves: list[list[Point]], names: Sequence[str]) -> str:
    points = [point for curve in curves for point in curve]
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    unit = max(abs(low), abs(high)) or 1.0  # the difference of two floats may be none
    span_x, span_y = (right - left) or 1.0, (high / unit - low / unit) or 1.0
    base, lasts, lines = _HEIGHT - _BOTTOM, [], []
    for name, color, curve in zip(names, COLORS, curves, strict=False):
        if not curve:
            continue
        lasts.append(f"{html.escape(name)} {number(curve[-1][1])}")
        path = " ".join(
            f"{_LEFT + (x - left) / span_x * (_WIDTH - _LEFT - 4):.1f},"
            f"{base - (y / unit - low / unit) / span_y * (base - _TOP):.1f}"
            for x, y in Thinned(_MAX_POINTS, ((point, point[1]) for point in curve)).points
        )
        lines.append(
            f'<polyline class="curve" style="stroke:var(--{color})" points="{path}">'
            f"<title>{html.escape(name)}</title></polyline>"
        )
    return (
        f"<figure><figcaption><b>{html.escape(key)}</b><span>last: {', '.join(lasts)}</span></figcaption>"
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img">'
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{base}" y2="{base}"/>'
        f'<text x="{_LEFT - 4}" y="{_TOP + 8}" text-anchor="end">{number(high)}</text>'
        f'<text x="{_LEFT - 4}" y="{base}" text-anchor="end">{number(low)}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 5}">{number(left)}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT - 5}" text-anchor="end">{number(right)}</text>'
        f"{''.join(lines)}</svg></figure>"
    )


def _steps(runs: Sequence[SavedRun], names: Sequence[str]) -> str:
    ranks = sorted({times.rank for run in runs for times in run.steps})[:_MAX_RANKS]
    lanes = [
        (f"rank {rank}, {at + 1}", times)
        for rank in ranks
        for at, run in enumerate(runs)
        for times in run.steps
        if times.rank == rank
    ]
    if not lanes:
        return ""
    legend = ", ".join(f"{at + 1}: {html.escape(name)}" for at, name in enumerate(names))
    return f"<h2>Steps</h2><p>{legend}</p>{bars(lanes)}"
