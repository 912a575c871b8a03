"""Training beside the others: the page shows what was measured, and a round compares its own figures only."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.helpers.modules import loaded

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/performance.md"

pytestmark = pytest.mark.heliostat_only("it is our page")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = loaded(ROOT / "bench/train/side_by_side.py")
    yield module
    for name in ("core", "history", "page"):
        sys.modules.pop(name, None)


def round_of(load: float, **found: dict[str, Any]) -> dict[str, Any]:
    about = {"date": "2026-11-26", "commit": "abc", "machine": "m", "load": load}
    return {**about, "found": {name.replace("_", " "): one for name, one in found.items()}}


def deaths(ours: float, theirs: float) -> dict[str, dict[str, float]]:
    return {
        "deaths_groups": {"next_step_s": ours, "all_in_s": 2.0},
        "deaths_torchft": {"next_step_s": theirs, "all_in_s": 1.0},
    }


def test_the_page_shows_what_was_measured(bench: Any) -> None:
    rounds = bench.read()
    found = re.search(
        r"<!-- training -->\n(.*)\n<!-- end of training -->", PAGE.read_text(), re.DOTALL
    )
    assert found is not None
    assert found[1] == bench.text(rounds)
    assert PAGE.with_name(bench.PICTURE).read_text() == bench.picture(rounds)
    for one in rounds:
        assert set(one["found"]) <= set(bench.PROGRAMS)


def test_a_ratio_is_of_one_round_and_above_one_where_ours_is_better(bench: Any) -> None:
    rounds = [
        round_of(
            number,
            **deaths(0.1, theirs),
            ddp_heliostat={"steps_per_s": 30.0, "start_to_first_step_s": 2.0},
            ddp_torchrun={"steps_per_s": 20.0, "start_to_first_step_s": 3.0},
            # What has failed is not compared.
            report_heliostat={"seconds_per_call": {"0MB_rank0": {"median": 0.001}}},
            report_ray={"error": "it took more than 300 s"},
        )
        for number, theirs in enumerate((0.5, 2.0, 1.0), 3)
    ]
    table = bench.text(rounds)
    assert "at a load of 3 to 5" in table
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    cells = {row.split(" | ")[0].strip("| "): row.strip("| ").split(" | ")[1:] for row in rows}
    assert set(cells) == {
        "steps of a ViT, DDP on 2 workers",
        "program's start to the first step",
        "death to the others' next step, replica groups",
        "death to all groups' next step",
    }
    assert cells["steps of a ViT, DDP on 2 workers"][-1] == "**1.50** (3: 1.50 to 1.50)"
    pause = cells["death to the others' next step, replica groups"]
    assert pause[2:] == ["Ray with torchft", "1.00", "**10.00** (3: 5.00 to 20.00)"]
    assert cells["death to all groups' next step"][-1].startswith("**0.5")
    drawn = ElementTree.fromstring(bench.picture(rounds))
    dots = drawn.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == len(cells) + len(bench.COLOURS)


def test_a_program_that_hangs_or_fails_is_written_down(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = {
        "good": ("x", "-c", "print('RESULT {\"a\": 1}')"),
        "bad": ("x", "-c", "raise SystemExit('the cause')"),
        "hangs": ("x", "-c", "import time; time.sleep(1000)"),
    }
    monkeypatch.setattr(bench, "PROGRAMS", programs)
    pythons = {"x": sys.executable}
    assert bench.run("good", pythons, 60) == {"a": 1}
    assert bench.run("bad", pythons, 60) == {"error": "the cause"}
    assert bench.run("hangs", pythons, 1) == {"error": "it took more than 1 s"}


def test_a_death_is_judged_by_steps_that_were_taken_in_spite_of_it(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "bench/train"))
    try:
        module = loaded(ROOT / "bench/train/deaths.py")
    finally:
        sys.path.remove(str(ROOT / "bench/train"))
        sys.modules.pop("common", None)
    (tmp_path / "death.json").write_text(json.dumps({"t": 100.0, "step": 65, "pid": 7}))
    (tmp_path / "steps-1-7").write_text("99.9 64\n100.0 65\n")
    # Rank 0 ends the step of the death itself, waits, and begins anew in another process.
    (tmp_path / "steps-0-6").write_text("99.9 64\n100.01 65\n")
    (tmp_path / "steps-0-8").write_text("103.0 60\n103.1 61\n103.7 66\n")
    (tmp_path / "steps-1-9").write_text("103.2 60\n103.3 61\n")
    found = module.judge(str(tmp_path))
    assert found["next_step_s"] == pytest.approx(3.0)
    assert found["all_in_s"] == pytest.approx(3.2)
    assert (found["steps_again"], found["last_step"]) == (2, 66)
