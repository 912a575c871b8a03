"""The history of `make bench`: the page shows what the file has, and a measurement adds a line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.helpers.modules import loaded

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/performance.md"

pytestmark = pytest.mark.heliostat_only("it is our history")


@pytest.fixture(scope="module")
def history() -> Any:
    return loaded(ROOT / "bench/history.py")


def section(page: str) -> str:
    found = re.search(r"<!-- history -->\n(.*)\n<!-- end of history -->", page, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_page_shows_what_the_file_has(history: Any) -> None:
    measured = history.read()
    assert section(PAGE.read_text()) == history.table(measured)
    assert PAGE.with_name(history.PICTURE).read_text() == history.picture(measured)
    for one in measured:
        assert set(one) == {"date", "commit", "machine", "versions", "means", "rows"}
        assert set(one["means"]) <= {"all", *history.COLOURS}


@pytest.mark.parametrize("number", [1, 2, 50])
def test_any_number_of_measurements_makes_a_picture(history: Any, number: int) -> None:
    means = {"all": 10.0, "tasks": 1000.0, "disk": 0.5}
    one = {"date": "2026-11-21", "commit": "abc", "machine": "m", "means": means, "rows": {}}
    root = ElementTree.fromstring(history.picture([one] * number))
    dots = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == min(number, history.LATEST) * len(means)
    assert history.table([one] * number).count("\n") == 1 + min(number, history.LATEST)


def test_a_measurement_adds_a_line(history: Any, tmp_path: Path) -> None:
    page, kept, table = (tmp_path / name for name in ("page.md", "history.jsonl", "table.json"))
    marks = [f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in ("ratios", "history")]
    page.write_text("\n".join(marks))
    kept.write_text((ROOT / "bench/history.jsonl").read_text())
    before = history.read(kept)
    rows = {"tasks sync": {"unit": "1/s", "A": 10.0, "B": 50.0, "ratio": 5.0}}
    table.write_text(json.dumps({"rows": rows, "geometric_mean": {"all": 5.0, "tasks": 5.0}}))
    options = {"page": page, "table": table, "versions": "A and B", "history": kept}
    command = [sys.executable, ROOT / "bench/page.py"]
    command += [part for name, value in options.items() for part in (f"--{name}", value)]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    *others, last = history.read(kept)
    assert others == before
    assert last["rows"] == {"tasks sync": [10.0, 50.0, 5.0]}
    assert last["means"] == {"all": 5.0, "tasks": 5.0}
    assert f"| `{last['commit']}` |" in section(page.read_text())
    assert page.with_name(history.PICTURE).exists()
