"""The timeline of workers: a lane per rank, a bar per attempt, marks for checkpoints."""

from __future__ import annotations

import html
from collections.abc import Callable

from heliostat.train.controller.record import AttemptRecord, RunRecord
from heliostat.train.controller.summary import duration

_WIDTH, _LEFT, _LANE, _TOP = 1000.0, 70.0, 20.0, 26.0
_MAX_LANES, _MAX_MARKS = 64, 500


def timeline(record: RunRecord) -> str:
    """The SVG, with a legend."""
    if not any(a.workers for a in record.attempts):
        return "<p>No worker was started.</p>"
    end = max(record.finished_at or 0.0, record.started_at + 1e-3)
    span = end - record.started_at
    ranks = [worker.rank for attempt in record.attempts for worker in attempt.workers]
    lanes = min(_MAX_LANES, max(ranks) + 1)
    height = _TOP + lanes * _LANE + 22

    def x(t: float) -> float:
        share = min(1.0, max(0.0, (t - record.started_at) / span))
        return _LEFT + share * (_WIDTH - _LEFT - 6)

    parts = [f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img">']
    for rank in range(lanes):
        top = _TOP + rank * _LANE
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">rank {rank}</text>')
    for attempt in record.attempts:
        parts += _bars(attempt, lanes, end, x)
    for row in record.checkpoints[-_MAX_MARKS:]:
        at, there = x(row.time), row.time + row.publish_s
        begun = x(there - row.in_flight_s)
        said = f"{html.escape(str(row.checkpoint))} at {duration(row.time - record.started_at)}"
        if row.in_flight_s:
            parts.append(
                f'<rect class="flight" x="{begun:.1f}" y="12" height="4" '
                f'width="{max(0.0, x(there) - begun):.1f}"><title>{said}, '
                f"{duration(row.in_flight_s)} in flight</title></rect>"
            )
        parts.append(
            f'<path class="mark" d="M{at:.1f} 8l5 6l-5 6l-5 -6z"><title>{said}</title></path>'
        )
    for failure in record.failures:
        at = x(failure.time)
        parts.append(
            f'<line class="restart" x1="{at:.1f}" x2="{at:.1f}" y1="4" y2="{height - 20}">'
            f"<title>{html.escape(failure.title)}</title></line>"
        )
    parts.append(f'<text x="{_LEFT}" y="{height - 6}">0 s</text>')
    parts.append(
        f'<text x="{_WIDTH - 6}" y="{height - 6}" text-anchor="end">{duration(span)}</text></svg>'
    )
    return f"<figure>{''.join(parts)}{_legend()}</figure>"


def _bars(attempt: AttemptRecord, lanes: int, end: float, x: Callable[[float], float]) -> list[str]:
    rows = []
    # A rank has several workers in an attempt when its replica group was replaced.
    asked_at: dict[int, float] = {}
    for worker in attempt.workers:
        if worker.rank >= lanes:
            continue
        top = _TOP + worker.rank * _LANE
        begin, stop = x(worker.start), x(worker.end or end)
        asked = x(asked_at.get(worker.rank, attempt.requested_at))
        asked_at[worker.rank] = worker.end or end
        rows.append(
            f'<rect class="start" x="{asked:.1f}" y="{top + 7}" height="6" '
            f'width="{max(0.5, begin - asked):.1f}"><title>starting</title></rect>'
            f'<rect class="bar {worker.state}" x="{begin:.1f}" y="{top + 2}" rx="2" '
            f'height="{_LANE - 5}" width="{max(1.0, stop - begin):.1f}"><title>attempt '
            f"{attempt.number + 1}, rank {worker.rank}: pid {worker.pid} on "
            f"{html.escape(worker.hostname)} ({worker.node_ip}), {worker.state}"
            f"{', process kept' if worker.reused else ''}</title></rect>"
        )
    return rows


def _legend() -> str:
    items = (
        ("green", "finished"),
        ("red", "failed or died"),
        ("amber", "ended for a restart"),
        ("teal", "checkpoint, and how long it was on its way"),
        ("line", "starting"),
    )
    return (
        '<p class="legend">'
        + "".join(f'<i style="background:var(--{c})"></i>{text}' for c, text in items)
        + "</p>"
    )
