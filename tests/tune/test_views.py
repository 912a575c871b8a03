"""What is seen of a search: its page, and the table in a terminal (contract F11.08)."""

from __future__ import annotations

import io
import random
import re
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from heliostat.tune import progress
from heliostat.tune.runner.trial import Trial
from heliostat.tune.view import choice
from heliostat.tune.view import rows as rows_module
from heliostat.tune.view.importance import importance
from heliostat.tune.view.page import About, render
from heliostat.tune.view.rows import Row, errors_of, left_s, shown
from ray import tune

# Workers do not import the modules of tests.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.contract("F11.08")


def row(n: int, value: float | None = None, **more: Any) -> Row:
    given = {
        "name": f"f_{n}",
        "state": "TERMINATED",
        "folder": f"f_{n}",
        "parameters": {"x": n},
        "value": value,
        "iterations": 1,
        "began": 100.0 + n,
        "ended": 101.0 + n,
    }
    return Row(**{**given, **more})


def about(**more: Any) -> About:
    given = {
        "name": "mine",
        "folder": "/runs/mine",
        "state": "FINISHED",
        "metric": "score",
        "mode": "max",
        "started_at": 100.0,
        "took_s": 5.0,
    }
    return About(**{**given, **more})


def test_parameters_that_matter_come_first() -> None:
    draw = random.Random(3)
    rows = []
    for n in range(200):
        x, kind, idle = draw.uniform(-1, 1), draw.choice("ab"), draw.random()
        parameters = {"idle": idle, "x": x, "kind": kind, "same": 1}
        rows.append(row(n, x * x + (0.3 if kind == "a" else 0.0), parameters=parameters))
    found = dict(importance(rows))
    assert list(found) == ["x", "kind", "idle"]  # one that does not differ is not there
    assert found["x"] > 0.5  # though it does not only grow with x
    assert 0.1 < found["kind"] < 0.5
    assert found["idle"] < 0.05
    assert importance(rows[:7]) == []
    assert importance([row(n, 1.0) for n in range(20)]) == [("x", 0.0)]


def test_errors_that_differ_in_numbers_are_one_kind() -> None:
    failed = [row(n, state="ERROR", error=f"ValueError: no {n} at 0x{n:x}") for n in range(3)]
    other = row(9, state="ERROR", error="OSError: disk")
    kinds = errors_of([other, row(5, 1.0), *failed])
    assert [(text, len(group)) for text, group in kinds] == [
        ("ValueError: no 0 at 0x0", 3),
        ("OSError: disk", 1),
    ]


def test_a_page_of_many_trials_draws_the_best_and_some_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows_module, "ROWS", 10)
    rows = [row(n, float(n % 50)) for n in range(100)]
    drawn = shown(rows, "max")
    assert len(drawn) == 10
    assert sum(one.value is not None and one.value >= 47 for one in drawn) >= 5
    assert drawn[0].name == "f_0"
    assert shown(rows, "min")[0].name == "f_0"
    assert "10 of 100 trials are drawn" in render(about(), rows)


def test_a_page_shows_all_of_a_search_and_escapes_names() -> None:
    rows = [
        row(
            n,
            float(n),
            parameters={"rate": 10.0**-n, "<b>": "a&b" if n % 2 else None},
            curve=[(1.0, 0.0), (2.0, float(n))],
        )
        for n in range(10)
    ]
    rows.append(
        row(10, state="ERROR", name="<script>", error="ValueError: <i>", began=None, ended=None)
    )
    page = render(about(state="INTERRUPTED"), rows)
    for title in (
        "Trials over time",
        "Best so far (score)",
        "Parallel coordinates",
        "Importance of parameters",
        "Curves (score)",
        "Errors",
    ):
        assert f"<h2>{title}</h2>" in page
    assert "<script>" not in page
    assert "<b>" not in page.replace("<b>", "", page.count("</span><b>"))
    assert "&lt;script&gt;" in page
    assert "1x <code>ValueError: &lt;i&gt;</code>" in page
    assert 'href="./f_10/error.txt"' in page
    assert 'href="./f_9/"' in page
    assert page.count("<polyline") == 1 + 10 + 10  # the best so far, and two for each trial
    assert "http" not in page.replace("http-equiv", "")
    best = re.findall(r'<polyline class="curve" points="([^"]+)"', page)[0].split()
    heights = [float(point.split(",")[1]) for point in best]
    assert heights == sorted(heights, reverse=True)
    assert "has no metric" in render(about(metric=None, mode=None), rows)
    assert "<h2>" in render(about(), [])


def test_the_time_that_is_left() -> None:
    import time

    now = time.time()
    assert left_s(0, 10, now) is None
    assert left_s(5, None, now) is None
    assert left_s(5, 10, now - 100) == pytest.approx(100, abs=1)
    assert left_s(5, 10, now - 100, until=now + 3) == pytest.approx(3, abs=1)
    assert left_s(1, None, now, until=now - 3) == 0.0


def trials() -> list[Trial]:
    made = []
    for n, status in enumerate(("TERMINATED", "ERROR", "RUNNING", "PENDING")):
        trial = Trial("f", trial_id=f"t{n}", evaluated_params={"x": n / 7}, status=status)
        trial.last_result = {"score": n, "training_iteration": n, "time_total_s": 2.0}
        trial.error_text = "Traceback\nValueError: bad" if status == "ERROR" else ""
        made.append(trial)
    return made


def test_a_terminal_has_a_table_of_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    rich = pytest.importorskip("rich.console", reason="it draws the table")
    from heliostat.tune.view.live import LiveTable

    text = io.StringIO()
    console = rich.Console(file=text, force_terminal=True, width=100, color_system=None)
    live = LiveTable(1, "score", "max", 8, 60.0, console)
    try:
        live.show(type("Search", (), {"get_trials": staticmethod(trials)}))
        shown = text.getvalue()
    finally:
        live.close()
    assert "4 of 8 (1 RUNNING, 1 PENDING, 1 TERMINATED, 1 ERROR), about" in shown
    assert "score=3  f_t3  x=0.4286" in shown
    assert "1x ValueError: bad" in shown
    running = next(line for line in shown.splitlines() if re.search("│ +f_t2", line))
    assert running.split()[-7:] == ["f_t2", "0.2857", "2", "2.0", "s", "2", "│"]


def test_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    opened = choice.open_progress(1, "score", "max", 8, None)
    assert type(opened) is progress.Progress


def fails_at_two(config: dict[str, Any]) -> None:
    for n in range(3):
        tune.report({"score": config["x"] * n})
    if config["x"] == 2:
        raise ValueError("two is bad")


def test_a_search_leaves_its_page(fit: Any, tmp_path: Path) -> None:
    fit(fails_at_two, {"x": tune.grid_search([1, 2, 3])})
    page = (tmp_path / "search" / "search.html").read_text()
    assert "1x <code>ValueError: two is bad</code>" in page
    assert page.count('<polyline class="line') == 3 + 3  # curves, and parallel coordinates
    again = tune.Tuner.restore(str(tmp_path / "search"), fails_at_two, restart_errored=True)
    again.fit()
    page = (tmp_path / "search" / "search.html").read_text()
    assert page.count('<polyline class="line') == 3 + 3  # those of before are read from their files
