"""The page of a run, whatever was reported, and whatever things are called."""

from __future__ import annotations

import html
import math
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ray import train

pytestmark = pytest.mark.heliostat_only("Ray writes no page")

HOSTILE = "<script>alert('x')</script>&\""


class Page(HTMLParser):
    """Every tag closed, nothing fetched, nothing run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.tags: dict[str, int] = {}
        self._open: list[str] = []
        self.feed(text)
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            assert name not in ("src", "href"), value
            assert not name.startswith("on"), value
            assert "nan" not in (value or "") or name == "content", (tag, name, value)
        if tag not in ("meta", "br", "th"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, self.getpos()

    @property
    def captions(self) -> list[str]:
        found = re.findall(r"<figcaption>(.*?)</figcaption>", self.text)
        plain = [html.unescape(re.sub("<.*?>", " ", part)) for part in found]
        return [" ".join(text.split()) for text in plain]


def render(
    rows: list[dict[str, Any]], *, workers: int = 2, every: int = 0, **record: Any
) -> tuple[Page, Any]:
    """The page of a run with these reports, each ``every``-th of them with a checkpoint."""
    from heliostat.train.controller.record import AttemptRecord, RunRecord, WorkerSpan
    from heliostat.train.messages import ReportedRow
    from heliostat.train.view.page import render

    start = time.time()
    options: dict[str, Any] = {"name": "run", "run_id": "r", "path": "/runs/run", "config": {}}
    run = RunRecord(**{**options, **record}, started_at=start, finished_at=start + 20)
    attempt = AttemptRecord(0, start, workers, started_at=start + 1)
    attempt.workers = [
        WorkerSpan(rank, "10.0.0.1", HOSTILE, 100 + rank, start + 1, False, start + 9, "finished")
        for rank in range(workers)
    ]
    run.attempts.append(attempt)
    for index, metrics in enumerate(rows):
        checkpoint = f"checkpoint_{index}{HOSTILE}" if every and index % every == 0 else None
        run.add_report(ReportedRow(index, start + 2 + index / 1e4, metrics, checkpoint))
    return Page(render(run)), run


@pytest.mark.parametrize("reports", [0, 1, 10_000])
def test_any_number_of_reports_and_workers(reports: int) -> None:
    rows = [{"loss": 1 / (i + 1), "deep": {"er": i}} for i in range(reports)]
    page, _ = render(rows, workers=64, every=3)
    assert page.tags.get("polyline", 0) == (2 if reports else 0)
    assert page.tags["rect"] == 2 * 64
    assert ("No numbers were reported" in page.text) == (not reports)
    # A page that opens at once, however long the run was.
    assert len(page.text) < 600_000


def test_names_from_elsewhere_are_text() -> None:
    page, run = render(
        [{HOSTILE: 1.0, "nested": {HOSTILE: 2}, "text": HOSTILE}],
        every=1,
        name=HOSTILE,
        path=f"/runs/{HOSTILE}",
        config={HOSTILE: {HOSTILE: [HOSTILE]}},
        resumed_from=HOSTILE,
        notes=[(time.time(), f"{HOSTILE}\n{HOSTILE}"), (time.time(), "")],
    )
    assert "script" not in page.tags
    assert "alert" not in page.text.replace(html.escape(HOSTILE), "").replace(
        html.escape(HOSTILE.replace('"', '\\"')), ""
    )
    assert run.name == HOSTILE


def test_values_that_are_no_points() -> None:
    rows = [{"loss": float(i), "all": math.nan, "wide": (-1) ** i * 1.7e308} for i in range(4)]
    rows[3] |= {"loss": math.nan, "big": 10**400}
    page, _ = render(rows)
    assert page.captions == [
        "loss last nan, min 0, max 2 1 NaN or infinite",
        "all last nan 4 NaN or infinite",
        "wide last -1.7e+308, min -1.7e+308, max 1.7e+308",
        "big last inf 1 NaN or infinite",
    ]


class Sulky:
    """An object that does not even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.contract("F9.01", "F9.05")
@pytest.mark.usefixtures("quiet")
def test_a_configuration_that_json_cannot_hold(fit: Any) -> None:
    """Nothing that a page cannot show may cost the result of a run."""

    def loop(config: dict[Any, Any]) -> int:
        train.report({"big": 10**400, "odd \ud800": 1})
        return len(config)

    config: dict[Any, Any] = {("a", 1): {1, 2}, "text": "x" * 10_000, "sulky": Sulky()}
    config["self"] = config
    result = fit(loop, 1, config=config)
    assert result.return_value == 4
    page = Path(result.page).read_text()
    assert "(&#x27;a&#x27;, 1)" in page
    assert "its text is not to be had" in page
    assert "x" * 1000 not in page
