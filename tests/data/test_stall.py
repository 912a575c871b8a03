"""An execution that does not move says which operator waits for what (WHY-1)."""

from __future__ import annotations

import io
import logging
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import ray

CLUSTER = {"num_cpus": 4, "resources": {"room": 1}}

pytestmark = [
    pytest.mark.contract("F10.29"),
    pytest.mark.heliostat_only("Ray says so in other words"),
]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """``told(dataset, ends)`` executes it until something is told, then lets it end."""
    from heliostat.data.execute import stall

    monkeypatch.setattr(stall, "TOLD_AFTER_S", 1.0)

    def run(dataset: Any, ends: Path) -> str:
        found: list[Any] = []
        with caplog.at_level(logging.WARNING, logger="heliostat.data"):
            thread = threading.Thread(target=lambda: found.append(dataset.take_all()))
            thread.start()
            deadline = time.monotonic() + 60
            while not (lines := [r.getMessage() for r in caplog.records]):
                assert time.monotonic() < deadline, "nothing was told"
                time.sleep(0.05)
            ends.touch()
            thread.join(60)
        assert found
        return lines[0]

    return run


def waiting(ends: Path) -> Any:
    def wait(row: Any) -> Any:
        while row["id"] == 1 and not ends.exists():
            time.sleep(0.05)
        return row

    return wait


def test_a_function_that_hangs_is_named_and_so_is_what_waits_for_it(
    rd: Any, tmp_path: Path, told: Any
) -> None:
    ends = tmp_path / "ends"
    dataset = rd.range(8, override_num_blocks=4).map(waiting(ends)).sort("id")
    line = told(dataset, ends)
    assert re.search(r"nothing has moved for \d+ s", line), line
    assert "Sort waits for blocks of ReadRange->Map(wait): it needs all of them." in line
    said = r"ReadRange->Map\(wait\) waits for (a task|\d tasks, the oldest), begun \d+ s ago: Map\(wait\)"
    assert re.search(said, line), line


def test_actors_that_cannot_start_are_told_with_the_resource(
    rd: Any, tmp_path: Path, told: Any
) -> None:
    class Same:
        def __call__(self, batch: Any) -> Any:
            return batch

    holder = ray.remote(resources={"room": 1})(type("Holder", (), {"ready": lambda self: 1}))
    actor = holder.remote()
    ray.get(actor.ready.remote())
    ends = tmp_path / "ends"
    dataset = rd.range(4, override_num_blocks=2).map_batches(
        Same, compute=rd.ActorPoolStrategy(size=1), resources={"room": 1}
    )
    dataset.context.wait_for_min_actors_s = 0

    def free() -> None:
        deadline = time.monotonic() + 60
        while not ends.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        ray.kill(actor)

    thread = threading.Thread(target=free)
    thread.start()
    line = told(dataset, ends)
    thread.join()
    assert "MapBatches(Same) waits for the first of 1 actors of its pool: " in line
    assert "room" in line


def test_an_execution_that_moves_is_told_of_by_no_warning(
    rd: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heliostat.data.execute import executor

    monkeypatch.setattr(executor, "WAIT_S", 0.01)
    with caplog.at_level(logging.WARNING, logger="heliostat.data"):
        assert rd.range(100, override_num_blocks=20).map(lambda r: r).count() == 100
    assert not [r for r in caplog.records if "nothing has moved" in r.getMessage()]


def test_each_operator_says_its_rows_its_backlog_and_what_bounds_it() -> None:
    from heliostat.data.execute.physical import InputOperator, LimitOperator
    from heliostat.data.execute.progress import _line
    from heliostat.data.plan.operators import Bundle

    source = InputOperator((Bundle(None, 10, 2_000_000, None), Bundle(None, 5, 1_000_000, None)))
    limit = LimitOperator("Limit", source, 12)
    limit.inboxes[0].extend(source.outbox)
    assert limit.waits_for() == "waits for blocks of Input"
    said = _line(limit, 2.0)
    assert "backlog 2 blocks of 3.0 MB" in said
    assert said.endswith("bounded by its input")
    limit.over_budget = 1.0
    assert _line(limit, 2.0).endswith("bounded by memory")


def test_a_terminal_shows_a_bar_for_each_operator_and_no_line_wraps() -> None:
    console = pytest.importorskip("rich.console", reason="needs rich")
    from heliostat.data.execute.physical import InputOperator, LimitOperator
    from heliostat.data.execute.progress_bars import Bars
    from heliostat.data.plan.operators import Bundle

    source = InputOperator((Bundle(None, 10, 2_000_000, None), Bundle(None, 5, 1_000_000, None)))
    limit = LimitOperator("Limit" + "->Map(a_long_name)" * 9, source, 12)
    limit.inboxes[0].extend(source.outbox)
    limit.over_budget = 1.0

    def drawn(width: int) -> list[str]:
        screen = console.Console(width=width, record=True, file=io.StringIO(), color_system=None)
        screen.print(Bars("Dataset_1: 12 rows, 3.0 MB in 2 s (6 rows/s)" * 4, [limit], 2.0))
        return str(screen.export_text()).splitlines()

    for width, waiting in ((80, False), (120, True)):
        head, titles, row = drawn(width)
        assert head.startswith("Dataset_1: 12 rows")
        assert "bound by" in titles
        assert row.lstrip().startswith("Limit->Map")
        assert row.rstrip().endswith("memory")
        assert ("2 of 3.0 MB" in row) is waiting
