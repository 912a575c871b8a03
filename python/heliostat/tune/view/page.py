"""The page of a search: one HTML file without any outside resource, in the folder of the search."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from heliostat.train.controller.summary import duration
from heliostat.train.view.style import document
from heliostat.train.view.text import number
from heliostat.tune.progress import PAGE, STATES
from heliostat.tune.runner.trial import Trial
from heliostat.tune.view import charts
from heliostat.tune.view.importance import FEWEST, importance
from heliostat.tune.view.rows import Row, best_of, errors_of, rows_of, shown

_TABLE = 100
_EXAMPLES = 5  # trials that are named of each kind of error


@dataclass(frozen=True)
class About:
    """The facts of the search itself on a page.

    Attributes:
        state: FINISHED, INTERRUPTED or FAILED.
        error: What ended a search that failed.
    """

    name: str
    folder: str
    state: str
    metric: str | None
    mode: str | None
    started_at: float
    took_s: float
    error: str = ""


def write_page(
    folder: str,
    about: About,
    trials: Sequence[Trial],
    curves: Mapping[str, list[tuple[float, float]]],
) -> str:
    """Write the page of a search; its path."""
    path = os.path.join(folder, PAGE)
    with open(f"{path}.part", "w", encoding="utf-8", errors="replace") as file:
        file.write(render(about, rows_of(trials, about.metric, curves)))
    os.replace(f"{path}.part", path)
    return path


def render(about: About, rows: Sequence[Row]) -> str:
    """The whole page."""
    drawn = shown(rows, about.mode)
    sections = [_header(about, rows), _errors(about, rows)]
    sections.append(_section("Trials over time", charts.timeline(drawn)))
    if about.metric is not None and about.mode is not None:
        sections += _comparisons(about.metric, about.mode, rows, drawn)
    else:
        sections.append(
            "<p>The search has no metric to compare trials by: give <code>TuneConfig(metric=..., mode=...)"
            "</code> for the best trial, curves and what parameters do.</p>"
        )
    sections.append(_section("Trials", _table(about, rows)))
    if len(drawn) < len(rows):
        sections.append(
            f"<p>{len(drawn)} of {len(rows)} trials are drawn: the best ones, and others from all of the "
            "search.</p>"
        )
    title = html.escape(f"{about.name} - {about.state.lower()}")
    return document(title, f"<style>{charts.CSS}</style>{''.join(sections)}")


def _comparisons(metric: str, mode: str, rows: Sequence[Row], drawn: Sequence[Row]) -> list[str]:
    found = importance(rows)
    names = [name for name, _ in found]
    names += dict.fromkeys(n for row in drawn for n in row.parameters if n not in names)
    said = (
        "<p>The share of the differences in the order of trials by the metric that each parameter explains "
        "alone. What two do only together is not in it.</p>"
        if found
        else f"<p>It is said of {FEWEST} trials with a result or more, whose parameters differ.</p>"
    )
    return [
        _section(f"Best so far ({html.escape(metric)})", charts.best_so_far(drawn, metric, mode)),
        _section("Parallel coordinates", charts.parallel(drawn, metric, mode, names)),
        _section("Importance of parameters", said + charts.shares(found)),
        _section(f"Curves ({html.escape(metric)})", charts.curves(drawn, metric, mode)),
    ]


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _header(about: About, rows: Sequence[Row]) -> str:
    counts = Counter(row.state for row in rows)
    facts = [("State", about.state.lower()), ("Took", duration(about.took_s))]
    facts.append(("Trials", str(len(rows))))
    facts += [(state.lower(), str(counts[state])) for state in STATES if counts[state]]
    best, said = best_of(rows, about.mode), ""
    if best is not None:
        facts.append((f"Best {about.metric}", number(best.value or 0.0)))
        chosen = ", ".join(f"{name}={_value(one)}" for name, one in best.parameters.items())
        said = f"<p>Best trial: {_linked(best)} <code>{html.escape(chosen)}</code></p>"
    tiles = "".join(
        f'<div class="tile"><span>{html.escape(name)}</span><b>{html.escape(value)}</b></div>'
        for name, value in facts
    )
    begun = datetime.fromtimestamp(about.started_at).strftime("%Y-%m-%d %H:%M:%S")
    error = f"<pre>{html.escape(about.error)}</pre>" if about.error else ""
    return (
        f'<header class="{html.escape(about.state.lower())}"><h1>{html.escape(about.name)}</h1>'
        f"<p>Started {begun}.<br><code>{html.escape(about.folder)}</code></p></header>"
        f'<div class="tiles">{tiles}</div>{said}{error}'
    )


def _errors(about: About, rows: Sequence[Row]) -> str:
    groups = []
    for text, group in errors_of(rows):
        examples = ", ".join(_linked(row, "error.txt") for row in group[:_EXAMPLES])
        more = f" and {len(group) - _EXAMPLES} more" if len(group) > _EXAMPLES else ""
        groups.append(
            f"<details open><summary>{len(group)}x <code>{html.escape(text)}</code></summary>"
            f"<p>{examples}{more}</p></details>"
        )
    return _section("Errors", "".join(groups))


def _table(about: About, rows: Sequence[Row]) -> str:
    sign = -1 if about.mode == "max" else 1
    ordered = sorted(rows, key=lambda row: (row.value is None, sign * (row.value or 0.0)))
    names = list(dict.fromkeys(name for row in ordered[:_TABLE] for name in row.parameters))
    titles = ["trial", "state", about.metric or "", *names, "iterations", "took", "ended by"]
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(_cells(row, names))}</tr>" for row in ordered[:_TABLE])
    more = len(rows) - _TABLE
    rest = f"<p>{more} more are in the folder.</p>" if more > 0 else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>{rest}'


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    took = duration(row.ended - row.began) if row.ended and row.began else ""
    texts = ["" if row.value is None else number(row.value)]
    texts += [_value(row.parameters.get(name)) for name in names]
    texts += [str(row.iterations), took, row.error or row.stopped_by]
    cells = [f"<td>{html.escape(text)}</td>" for text in (row.state, *texts)]
    return [f"<td>{_linked(row)}</td>", *cells]


def _linked(row: Row, file: str = "") -> str:
    """The name of a trial, which leads to its folder beside the page."""
    address = quote(f"./{row.folder}/{file}", safe="/")
    return f'<a href="{html.escape(address)}">{html.escape(row.name)}</a>'


def _value(value: object) -> str:
    if value is None:
        return ""
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"
