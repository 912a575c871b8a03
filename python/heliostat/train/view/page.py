"""The page of a run: one HTML file without any outside resource."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.summary import duration, summary
from heliostat.train.view.curves import curves
from heliostat.train.view.replicas import replicas
from heliostat.train.view.steps import steps
from heliostat.train.view.style import document
from heliostat.train.view.text import metrics_text
from heliostat.train.view.timeline import timeline

_MAX_ROWS = 200
# Limits of a shown configuration: its depth, and the characters of a text.
_MAX_DEPTH, _MAX_TEXT = 6, 400


def render(record: RunRecord, error: BaseException | None = None) -> str:
    """The whole page."""
    title = html.escape(f"{record.name} - {record.state}")
    sections = [
        _header(record),
        _failures(record, error),
        _section("Metrics", curves(record)),
        _section("Steps", steps(record)),
        _section("Replica groups", replicas(record)),
        _section("Workers and restarts", timeline(record)),
        _section("Checkpoints", _checkpoints(record)),
        _section("Notes", _notes(record)),
        _section("Configuration", _configuration(record)),
    ]
    return document(title, "".join(sections))


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def _header(record: RunRecord) -> str:
    latest = record.latest
    end = record.finished_at or record.started_at
    sizes = [a.world_size for a in record.attempts] or [0]
    facts = [
        ("State", record.state),
        ("Took", duration(end - record.started_at)),
        ("Workers", str(sizes[-1]) if len(set(sizes)) == 1 else f"{min(sizes)}-{max(sizes)}"),
        ("Reports", str(record.report_count)),
        ("Checkpoints", str(len(record.checkpoints))),
        ("Failures", str(len(record.failures))),
    ]
    tiles = "".join(
        f'<div class="tile"><span>{name}</span><b>{html.escape(value)}</b></div>'
        for name, value in facts
    )
    last = ""
    if latest is not None:
        text = html.escape(metrics_text(latest.metrics))
        last = f"<p>Last report: <code>{text}</code></p>"
    resumed = (
        f"<p>Resumed from <code>{html.escape(record.resumed_from)}</code>.</p>"
        if record.resumed_from
        else ""
    )
    return (
        f'<header class="{html.escape(record.state)}"><h1>{html.escape(record.name)}</h1>'
        f"<p>{html.escape(summary(record))}. Started {_clock(record.started_at)}.<br>"
        f"<code>{html.escape(record.path)}</code></p></header>"
        f'<div class="tiles">{tiles}</div>{last}{resumed}'
    )


def _failures(record: RunRecord, error: BaseException | None) -> str:
    rows = []
    for failure in record.failures:
        back = (
            f"next report after {duration(failure.recovered_s)}"
            if failure.recovered_s is not None
            else "no report after it"
        )
        rows.append(
            f"<details><summary>{_clock(failure.time)}, attempt {failure.attempt + 1}: "
            f"{html.escape(failure.title)} <em>({back})</em></summary>"
            f"<pre>{html.escape(failure.detail)}</pre></details>"
        )
    if error is not None and not record.failures:
        rows.append(f"<pre>{html.escape(f'{type(error).__name__}: {error}')}</pre>")
    return _section("Failures", "".join(rows))


def _checkpoints(record: RunRecord) -> str:
    rows = []
    for row in reversed(record.checkpoints[-_MAX_ROWS:]):
        gone = row.checkpoint in record.deleted
        name = html.escape(str(row.checkpoint))
        rows.append(
            f"<tr{' class=gone' if gone else ''}><td>{row.index + 1}</td>"
            f"<td>{duration(row.time - record.started_at)}</td>"
            f"<td><code>{name}</code>{' (not kept)' if gone else ''}</td>"
            f"<td>{html.escape(metrics_text(row.metrics))}</td>"
            f"<td>{duration(row.in_flight_s)}</td><td>{row.publish_s * 1000:.1f} ms</td></tr>"
        )
    if not rows:
        return "<p>None was reported.</p>"
    head = "<tr><th>report<th>at<th>folder<th>metrics<th>in flight<th>publishing</tr>"
    more = len(record.checkpoints) - _MAX_ROWS
    rest = f"<p>{more} older ones are not shown.</p>" if more > 0 else ""
    return f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>{rest}'


def _notes(record: RunRecord) -> str:
    return "".join(
        f"<details open><summary>{duration(at - record.started_at)}: "
        f"{html.escape(text.partition(chr(10))[0])}</summary>"
        + (f"<pre>{html.escape(text)}</pre>" if "\n" in text else "")
        + "</details>"
        for at, text in record.notes[-_MAX_ROWS:]
    )


def _configuration(record: RunRecord) -> str:
    text = json.dumps(_plain(record.config), indent=2, ensure_ascii=False)
    return f"<pre>{html.escape(text)}</pre>"


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value of a user's configuration, which may be anything, as JSON can hold it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {str(k): _plain(v, depth + 1) for k, v in list(value.items())[:_MAX_ROWS]}
        if isinstance(value, list | tuple | set | frozenset):
            return [_plain(v, depth + 1) for v in list(value)[:_MAX_ROWS]]
    try:
        text = str(value)
    except Exception as error:  # an object of the user's own
        text = f"{type(value).__name__} (its text is not to be had: {error!r})"
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."
