"""The chart of step times: a bar for each rank, in the colours of its phases."""

from __future__ import annotations

import html

from heliostat.train.controller.record import RunRecord
from heliostat.train.steps.messages import COMMUNICATION, PHASES, StepTimes
from heliostat.train.steps.pace import milliseconds, sentence

_WIDTH, _LEFT, _LANE, _TOP = 1000.0, 70.0, 20.0, 6.0
_MAX_LANES = 64
_COLORS = ("amber", "blue", "violet", "line", "green", "teal")


def steps(record: RunRecord) -> str:
    """The bars, and in words who is slowest; "" where no steps were seen."""
    times = record.step_times
    if not times:
        return ""
    shown = sorted(sorted(times, key=lambda t: -t.own)[:_MAX_LANES], key=lambda t: t.rank)
    text = sentence(times)
    more = len(times) - len(shown)
    rest = f"<p>{more} ranks with shorter steps are not drawn.</p>" if more else ""
    said = f"<p>{text[0].upper()}{text[1:]}.</p>" if text else ""
    return f"{said}{bars([(f'rank {each.rank}', each) for each in shown])}{rest}"


def bars(lanes: list[tuple[str, StepTimes]]) -> str:
    """A bar for each, under its name, all on one scale."""
    longest = max(times.total for _, times in lanes) or 1.0
    height = _TOP + len(lanes) * _LANE + 18
    parts = [f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img">']
    for lane, (name, times) in enumerate(lanes):
        parts += _bar(name, times, _TOP + lane * _LANE, longest)
    parts.append(f'<text x="{_LEFT}" y="{height - 4}">0</text>')
    parts.append(
        f'<text x="{_WIDTH - 6}" y="{height - 4}" text-anchor="end">{milliseconds(longest)}</text></svg>'
    )
    return f"<figure>{''.join(parts)}{_legend()}</figure>"


def _bar(name: str, times: StepTimes, top: float, longest: float) -> list[str]:
    parts = [f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">{html.escape(name)}</text>']
    x, scale = _LEFT, (_WIDTH - _LEFT - 6) / longest
    # Waiting comes last, so that the ranks' own times begin at one line.
    order = [p for p in range(len(PHASES)) if p != COMMUNICATION] + [COMMUNICATION]
    for phase in order:
        width = times.spent[phase] * scale
        if width >= 0.05:
            parts.append(
                f'<rect class="phase" style="fill:var(--{_COLORS[phase]})" x="{x:.1f}" y="{top + 2}" '
                f'height="{_LANE - 5}" width="{width:.1f}"><title>{html.escape(name)}, '
                f"{PHASES[phase]}: {milliseconds(times.spent[phase])} of "
                f"{milliseconds(times.total)}, mean of the last steps</title></rect>"
            )
        x += width
    return parts


def _legend() -> str:
    items = "".join(
        f'<i style="background:var(--{color})"></i>{name}'
        for name, color in zip(PHASES, _COLORS, strict=True)
    )
    return f'<p class="legend">{items}</p>'
