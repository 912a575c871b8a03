"""The metrics of a run while it goes on, as the head's page gets them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.helpers.harness import IS_HELIOSTAT

if not IS_HELIOSTAT:
    pytest.skip("Heliostat's own page", allow_module_level=True)

from heliostat.train.controller.live_curves import LiveCurves
from heliostat.train.controller.page_row import _packed
from heliostat.train.controller.record import MAX_REPORTS, AttemptRecord, Failure, RunRecord
from heliostat.train.controller.seen import seen
from heliostat.train.messages import ReportedRow
from heliostat.train.view.thinned import Thinned


def record(rows: list[dict[str, Any]]) -> RunRecord:
    made = RunRecord("run", "r", "/runs/run", {}, started_at=1000.0)
    for index, metrics in enumerate(rows):
        made.add_report(ReportedRow(index, 1000.0 + index / 10, metrics))
    return made


@pytest.mark.parametrize("count", [0, 1, 2, 49, 50, 51, 99, 1000, 12_345])
@pytest.mark.parametrize("most", [5, 50, 200])
def test_a_thinned_curve_has_its_ends_and_its_peaks(count: int, most: int) -> None:
    values = [math.sin(i / 50) for i in range(count)]
    if count > 10:
        values[count // 3], values[count // 2] = 9.0, -9.0
    thinned = Thinned(most, ((i, value) for i, value in enumerate(values)))
    points = thinned.points
    assert points == sorted(set(points))
    assert len(points) <= most
    if count <= most // 2 - 1:
        assert points == list(range(count))
    if count:
        assert points[0] <= count // 2
        assert points[-1] == count - 1
        shown = [values[i] for i in points]
        assert (min(shown), max(shown)) == (min(values), max(values))
    # Each part of the curve is there: what it costs does not grow, and nothing is left out.
    gaps = [b - a for a, b in zip(points, points[1:], strict=False)]
    assert max(gaps, default=0) <= max(1, 16 * count // most)


def test_curves_grow_as_the_run_reports() -> None:
    run = record([{"loss": 2.0, "step": 10, "deep": {"er": 1}}])
    curves = LiveCurves(run)
    assert curves.take()
    assert not curves.take(), "there is nothing new"
    run.add_report(ReportedRow(1, 1002.5, {"loss": math.nan, "step": 20, "deep": {"er": 3}}))
    assert curves.take()
    found = json.loads(json.dumps(curves.plain(), allow_nan=False))
    loss, deeper = found["curves"]
    assert loss == {
        "name": "loss",
        "at": [0.0],
        "step": [10.0],
        "value": [2.0],
        "last": None,
        "others": 1,
    }
    assert deeper["name"] == "deep/er"
    assert (deeper["at"], deeper["step"], deeper["value"]) == ([0.0, 2.5], [10.0, 20.0], [1.0, 3.0])
    assert deeper["last"] == 3.0


def test_a_long_run_with_many_metrics_stays_small() -> None:
    run = record([{f"metric {k}": i + k for k in range(40)} for i in range(3000)])
    curves = LiveCurves(run)
    curves.take()
    assert len(_packed(curves.plain())) < 200_000
    assert curves.plain()["left_out"] == 16
    assert [curve["step"][-1] for curve in curves.plain()["curves"]] == [2999.0] * 24


def test_reports_that_were_dropped_before_anybody_looked_are_missing() -> None:
    run = record([{"loss": 1.0}])
    run.report_count = MAX_REPORTS + 5  # of which the last one is remembered
    curves = LiveCurves(run)
    assert curves.take()
    assert curves.plain()["curves"][0]["step"] == [MAX_REPORTS + 4]


def test_names_that_utf8_cannot_hold_hide_nothing() -> None:
    curves = LiveCurves(record([{"odd \ud800": 1.0, "loss": 2.0}]))
    curves.take()
    found = json.loads(_packed(curves.plain()).decode())
    assert [curve["name"] for curve in found["curves"]] == ["odd ?", "loss"]


def test_attempts_have_their_causes() -> None:
    run = record([{"loss": 1.0}] * 3)
    run.attempts = [
        AttemptRecord(0, 1000.0, 4, started_at=1001.0, ended_at=1005.0),
        AttemptRecord(1, 1006.0, 3, from_checkpoint="checkpoint_1"),
    ]
    replaced = Failure(1002.0, 0, [1], "rank 1 died", "", went_on=True)
    run.failures = [replaced, Failure(1005.0, 0, [2], "rank 2 died", "", recovered_s=1.5)]
    found = seen(run)
    assert found["attempts"] == [
        {
            "number": 0,
            "at": 1001.0,
            "workers": 4,
            "from": None,
            "ended_at": 1005.0,
            "cause": "rank 2 died",
            "recovered_s": 1.5,
        },
        {
            "number": 1,
            "at": 1006.0,
            "workers": 3,
            "from": "checkpoint_1",
            "ended_at": None,
            "cause": None,
            "recovered_s": None,
        },
    ]
    assert found["reports_per_s"] == pytest.approx(10.0)
    assert (found["checkpoint_count"], found["in_flight_mean_s"]) == (0, None)
