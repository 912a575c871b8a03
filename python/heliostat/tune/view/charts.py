"""The drawings of a search's page, as SVG without any script; what is pointed at says what it is."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

from heliostat.train.controller.summary import duration
from heliostat.train.view.text import number
from heliostat.tune.view.rows import Row, best_of

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 1040.0, 60.0, 8.0, 10.0, 20.0
_LANES = 60  # of trials that ran at the same time
_AXES = 10  # parameters beside each other
_CURVES = 100


def timeline(rows: Sequence[Row]) -> str:
    """A bar for each trial from its beginning to its last report."""
    known = sorted(
        (row for row in rows if row.began is not None and row.ended is not None),
        key=lambda row: row.began or 0.0,
    )
    if not known:
        return ""
    first, last = known[0].began or 0.0, max(row.ended or 0.0 for row in known)
    span = max(last - first, 1e-9)
    ends: list[float] = []  # of each lane
    bars, left_out = [], 0
    for row in known:
        began, ended = row.began or 0.0, row.ended or 0.0
        lane = next((n for n, end in enumerate(ends) if end <= began), len(ends))
        if lane >= _LANES:
            left_out += 1
            continue
        ends[lane : lane + 1] = [ended]
        x = _LEFT + (began - first) / span * (_WIDTH - _LEFT - _RIGHT)
        width = max(1.5, (ended - began) / span * (_WIDTH - _LEFT - _RIGHT))
        took = f"{duration(ended - began)}, {row.iterations} iterations"
        bars.append(
            f'<rect class="bar {_STYLES.get(row.state, "ended")}" x="{x:.1f}" y="{_TOP + lane * 10:.0f}" '
            f'width="{width:.1f}" height="8"><title>{_about(row)}\n{took}</title></rect>'
        )
    height = _TOP + len(ends) * 10 + _BOTTOM
    legend = "".join(
        f'<i style="background:var(--{colour})"></i>{word}'
        for word, colour in (("ended", "green"), ("failed", "red"), ("neither", "amber"))
    )
    rest = f" {left_out} more ran at the same time and are not drawn." if left_out else ""
    return (
        f"<figure>{_svg(height, ''.join(bars) + _times(height, span))}</figure>"
        f'<p class="legend">{legend}{rest}</p>'
    )


def best_so_far(rows: Sequence[Row], metric: str, mode: str) -> str:
    """The metric of each trial where it ended, and the best one up to then."""
    known = sorted(
        (row for row in rows if row.value is not None and row.ended is not None),
        key=lambda row: row.ended or 0.0,
    )
    if not known:
        return ""
    times = [row.ended or 0.0 for row in known]
    values = [row.value or 0.0 for row in known]
    first = min(row.began or 0.0 for row in known)
    span = max(times[-1] - first, 1e-9)
    height = 240.0
    y = _scale(values, height)

    def x(at: float) -> float:
        return _LEFT + (at - first) / span * (_WIDTH - _LEFT - _RIGHT)

    dots = "".join(
        f'<circle class="dot" cx="{x(at):.1f}" cy="{y(value):.1f}" r="3"><title>{_about(row)}\n'
        f"{html.escape(metric)} = {number(value)}</title></circle>"
        for row, at, value in zip(known, times, values, strict=True)
    )
    points: list[str] = []
    best = values[0]
    for at, value in zip(times, values, strict=True):
        is_better = value > best if mode == "max" else value < best
        if points and is_better:
            points.append(f"{x(at):.1f},{y(best):.1f}")
        best = value if is_better else best
        points.append(f"{x(at):.1f},{y(best):.1f}")
    line = f'<polyline class="curve" points="{" ".join(points)}"/>'
    return f"<figure>{_svg(height, dots + line + _ends(values, y) + _times(height, span))}</figure>"


def parallel(rows: Sequence[Row], metric: str, mode: str, names: Sequence[str]) -> str:
    """A line for each trial through its parameters to the metric; the best are the darkest."""
    known = [row for row in rows if row.value is not None]
    axes = [name for name in names if any(name in row.parameters for row in known)][:_AXES]
    if len(known) < 2 or not axes:
        return ""
    height, top, bottom = 300.0, 26.0, 12.0
    known.sort(key=lambda row: row.value or 0.0, reverse=mode == "min")  # the best are drawn last
    columns = [[row.parameters.get(name) for row in known] for name in axes]
    columns.append([row.value for row in known])
    places = [_places(column) for column in columns]
    step = (_WIDTH - 2 * _LEFT) / len(axes)

    def y(place: float) -> float:
        return height - bottom - place * (height - top - bottom)

    lines = []
    for n, row in enumerate(known):
        share = n / max(1, len(known) - 1)
        points = " ".join(
            f"{_LEFT + k * step:.1f},{y(column[n]):.1f}" for k, (column, _, _) in enumerate(places)
        )
        chosen = ", ".join(f"{name}={_text(row.parameters.get(name))}" for name in axes)
        lines.append(
            f'<polyline class="line" style="opacity:{0.08 + 0.72 * share**3:.2f}" points="{points}"><title>'
            f"{_about(row)}\n{html.escape(chosen)}\n{html.escape(metric)} = {number(row.value or 0.0)}"
            "</title></polyline>"
        )
    marks = []
    for k, (name, (_, low, high)) in enumerate(zip([*axes, metric], places, strict=True)):
        x = _LEFT + k * step
        marks.append(
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{height - bottom}"/>'
            f'<text x="{x:.1f}" y="10" text-anchor="middle">{html.escape(_short(name, 24))}</text>'
            f'<text x="{x:.1f}" y="{top - 4:.0f}" text-anchor="middle">{html.escape(high)}</text>'
            f'<text x="{x:.1f}" y="{height - 2:.0f}" text-anchor="middle">{html.escape(low)}</text>'
        )
    return f"<figure>{_svg(height, ''.join(lines) + ''.join(marks))}</figure>"


def shares(found: Sequence[tuple[str, float]]) -> str:
    """A bar for each parameter."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{share:.0%}</td>"
        f'<td class="share"><i style="width:{share:.1%}"></i></td></tr>'
        for name, share in found
    )
    return f'<table class="shares">{rows}</table>' if rows else ""


def curves(rows: Sequence[Row], metric: str, mode: str) -> str:
    """The metric of each trial over its iterations; the best trial stands out."""
    known = [row for row in rows if len(row.curve) > 1]
    if not known:
        return ""
    sign = -1 if mode == "max" else 1
    known.sort(key=lambda row: (row.value is None, sign * (row.value or 0.0)))
    drawn, best = known[:_CURVES], best_of(known, mode)
    height = 300.0
    values = [value for row in drawn for _, value in row.curve]
    last = max(at for row in drawn for at, _ in row.curve)
    first = min(at for row in drawn for at, _ in row.curve)
    y = _scale(values, height)
    span = max(last - first, 1e-9)
    lines = []
    for row in reversed(drawn):
        points = " ".join(
            f"{_LEFT + (at - first) / span * (_WIDTH - _LEFT - _RIGHT):.1f},{y(value):.1f}"
            for at, value in row.curve
        )
        kind = "line best" if row is best else "line faint"
        lines.append(
            f'<polyline class="{kind}" points="{points}"><title>{_about(row)}\n'
            f"{html.escape(metric)} = {number(row.curve[-1][1])}</title></polyline>"
        )
    base = height - _BOTTOM
    marks = (
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{base}" y2="{base}"/>'
        f'<text x="{_LEFT}" y="{height - 5:.0f}">iteration {first:g}</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{height - 5:.0f}" text-anchor="end">{last:g}</text>'
    )
    more = len(known) - len(drawn)
    rest = f"<p>The best {len(drawn)} of {len(known)} trials are drawn.</p>" if more > 0 else ""
    return f"<figure>{_svg(height, ''.join(lines) + marks + _ends(values, y))}</figure>{rest}"


_STYLES = {"TERMINATED": "finished", "ERROR": "failed"}

CSS = """
.dot{fill:var(--teal);opacity:.7}.line{fill:none;stroke:var(--blue);stroke-width:1.2}
.line.faint{opacity:.25}.line.best{stroke:var(--red);stroke-width:2}
.line:hover{stroke:var(--amber);opacity:1!important;stroke-width:3}
.shares td{border:0}.share{width:60%}.share i{display:block;height:10px;background:var(--blue);
border-radius:2px;min-width:1px}
""".replace("\n", "")


def _svg(height: float, body: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img">{body}</svg>'


def _scale(values: Sequence[float], height: float) -> Callable[[float], float]:
    low, high = min(values), max(values)
    unit = max(abs(low), abs(high)) or 1.0  # the difference of two floats may be none
    span = (high / unit - low / unit) or 1.0

    def y(value: float) -> float:
        return height - _BOTTOM - (value / unit - low / unit) / span * (height - _BOTTOM - _TOP)

    return y


def _ends(values: Sequence[float], y: Callable[[float], float]) -> str:
    """The largest and the smallest value at the axis."""
    return "".join(
        f'<text x="{_LEFT - 4}" y="{y(value) + 3:.1f}" text-anchor="end">{number(value)}</text>'
        for value in dict.fromkeys((max(values), min(values)))
    )


def _times(height: float, span: float) -> str:
    base = height - _BOTTOM
    return (
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{base}" y2="{base}"/>'
        f'<text x="{_LEFT}" y="{height - 5:.0f}">0 s</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{height - 5:.0f}" text-anchor="end">{duration(span)}</text>'
    )


def _places(column: Sequence[Any]) -> tuple[list[float], str, str]:
    """The place of each value on its axis, from 0 to 1, and the labels of the axis' ends."""
    numbers = [value for value in column if _is_number(value)]
    if len(numbers) == len(column):
        low, high = min(numbers), max(numbers)
        if low > 0 and high / low > 100:  # they were drawn by their logarithm
            scaled = [math.log(value) for value in numbers]
        else:
            scaled = [float(value) for value in numbers]
        first, span = min(scaled), max(scaled) - min(scaled)
        if not math.isfinite(span) or span == 0:
            return [0.5] * len(column), _text(low), _text(high)
        return [(one - first) / span for one in scaled], _text(low), _text(high)
    kinds = sorted({_text(value) for value in column})
    place = {kind: n / max(1, len(kinds) - 1) for n, kind in enumerate(kinds)}
    return [place[_text(value)] for value in column], kinds[0], kinds[-1]


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _text(value: object) -> str:
    return number(value) if isinstance(value, float) else _short(str(value), 16)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _about(row: Row) -> str:
    return html.escape(f"{row.name} ({row.state})")
