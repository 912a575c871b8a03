"""The replica groups of a run: which of them took the steps, and what became of those that were lost."""

from __future__ import annotations

import html

from heliostat.train.controller.record import Failure, QuorumRecord, RunRecord
from heliostat.train.controller.summary import duration
from heliostat.train.coordinator.attempt import ranks_text

_WIDTH, _LEFT, _LANE, _TOP = 1000.0, 70.0, 20.0, 6.0
_MAX_LANES, _MAX_ROWS = 64, 200


def quorum_text(record: RunRecord, now: float) -> str:
    """Return which groups take the steps now, and which are being replaced; "" without replica
    groups.
    """
    quorum = record.quorum
    if quorum is None:
        return ""
    text = f"{len(quorum.groups)} of {quorum.of} in quorum {quorum.number}"
    if quorum.step is not None:
        text += f", from step {quorum.step} on"
    for failure in open_replacements(record):
        group = failure.ranks[0] // quorum.size
        text += f"; group {group} is being replaced, {duration(now - failure.time)} so far"
    return text


def open_replacements(record: RunRecord) -> list[Failure]:
    """The losses whose replica groups are not in again, of the current attempt."""
    number = record.attempt.number
    lost = [f for f in record.failures if f.went_on and f.replaced_s is None]
    return [f for f in lost if f.attempt == number] if record.finished_at is None else []


def replicas(record: RunRecord) -> str:
    """A lane for each group, in colour while it took steps, and a row for each loss; "" without groups."""
    quorums = list(record.quorums)
    if not quorums:
        return ""
    return _lanes(record, quorums) + _losses(record, quorums[-1].size)


def _lanes(record: RunRecord, quorums: list[QuorumRecord]) -> str:
    begin, end = record.started_at, max(record.finished_at or 0.0, quorums[-1].time)
    scale = (_WIDTH - _LEFT - 6) / max(end - begin, 1e-3)
    lanes = min(_MAX_LANES, max(q.of for q in quorums))
    height = _TOP + lanes * _LANE + 18
    parts = [f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img">']
    for group in range(lanes):
        top = _TOP + group * _LANE
        parts.append(f'<text x="{_LEFT - 8}" y="{top + 13}" text-anchor="end">group {group}</text>')
        for start, stop, is_in, what in _spans(record, quorums, group, end):
            parts.append(
                f'<rect class="{"bar finished" if is_in else "bar died"}" '
                f'x="{_LEFT + (start - begin) * scale:.1f}" y="{top + 2}" height="{_LANE - 5}" '
                f'width="{max(1.0, (stop - start) * scale):.1f}"><title>group {group}: {what}</title></rect>'
            )
    parts.append(f'<text x="{_LEFT}" y="{height - 4}">0 s</text>')
    parts.append(
        f'<text x="{_WIDTH - 6}" y="{height - 4}" text-anchor="end">{duration(end - begin)}</text></svg>'
    )
    legend = (
        '<p class="legend"><i style="background:var(--green)"></i>takes the steps'
        '<i style="background:var(--red)"></i>lost, and being replaced</p>'
    )
    more = max(q.of for q in quorums) - lanes
    rest = f"<p>{more} more groups are not drawn.</p>" if more else ""
    return f"<figure>{''.join(parts)}{legend}</figure>{rest}"


def _spans(
    record: RunRecord, quorums: list[QuorumRecord], group: int, end: float
) -> list[tuple[float, float, bool, str]]:
    """From when to when the group was in, or out, and in which quorums."""
    ends = {a.number: a.ended_at or end for a in record.attempts}
    found: list[tuple[float, float, bool, str]] = []
    for at, quorum in enumerate(quorums):
        is_last = at + 1 == len(quorums) or quorums[at + 1].attempt != quorum.attempt
        stop = ends.get(quorum.attempt, end) if is_last else quorums[at + 1].time
        is_in = group in quorum.groups
        what = f"{'in' if is_in else 'not in'} quorum {quorum.number}"
        if found and found[-1][2] == is_in and found[-1][1] == quorum.time:
            found[-1] = (found[-1][0], stop, is_in, f"{found[-1][3]}, {quorum.number}")
        elif group < quorum.of:
            found.append((quorum.time, stop, is_in, what))
    return found


def _losses(record: RunRecord, size: int) -> str:
    rows = []
    for failure in [f for f in record.failures if f.went_on][-_MAX_ROWS:]:
        back = "not in again"
        if failure.replaced_s is not None:
            back = f"in again after {duration(failure.replaced_s)}"
        rows.append(
            f"<tr><td>{duration(failure.time - record.started_at)}</td>"
            f"<td>{failure.ranks[0] // size}</td><td>{ranks_text(failure.ranks)}</td>"
            f"<td>{html.escape(failure.title)}</td><td>{back}</td></tr>"
        )
    if not rows:
        return "<p>No replica group was lost.</p>"
    head = "<tr><th>at<th>group<th>died<th>cause<th>replaced</tr>"
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'
