"""Runs over each other: `heliostat compare-runs`."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ray import train

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray compares no runs"),
]


def compare(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = str(Path(sys.executable).with_name("heliostat"))
    return subprocess.run(
        [command, "compare-runs", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def saved(folder: Path, run_folder: str, **content: Any) -> Path:
    """The folder of a run that has left this."""
    run = folder / run_folder
    run.mkdir(parents=True)
    (run / "reports.json").write_text(json.dumps(content))
    return run


def step(rank: int, data: float) -> list[Any]:
    return [rank, 100, [data, 0.02, 0.03, 0.01, 0.005, 0.0]]


def yesterday_and_today(folder: Path) -> list[Path]:
    about = {"name": "resnet", "state": "finished", "workers": 2}
    return [
        saved(
            folder / day,
            "resnet",
            **about,
            reports=[{"loss": 1 / (i + 1), "step": 10 * i} for i in range(5)],
            at_s=[i * period for i in range(5)],
            took_s=5 * period,
            steps=[step(0, data), step(1, 0.01)],
            checkpoints=[[1.0, 0.5], [2.0, 1.5]],
            failures=[],
        )
        for day, period, data in (("yesterday", 2.0, 0.01), ("today", 1.0, 0.11))
    ]


def test_a_run_of_yesterday_and_one_of_today(tmp_path: Path) -> None:
    out = tmp_path / "both.html"
    done = compare(*yesterday_and_today(tmp_path), "--out", out)
    assert done.returncode == 0, done.stderr
    rows = {line[:24].strip(): line[24:].split("  ") for line in done.stdout.splitlines()}
    rows = {
        title: [cell.strip() for cell in cells if cell.strip()] for title, cells in rows.items()
    }
    assert rows["took"] == ["10.0 s", "5.0 s", "0.50"]
    assert rows["reports a second"] == ["0.5", "1", "2.00"]
    assert rows["a step"] == ["75 ms", "125 ms", "1.67"]
    assert rows["a checkpoint on its way"] == ["1.0 s", "1.0 s", "1.00"]
    assert rows["of a step, data"] == ["10 ms", "60 ms", "6.00"]
    page = out.read_text()
    # Both are one chart, with a line for each, over the steps that were reported.
    (chart,) = re.findall(r"<figure><figcaption><b>loss</b>.*?</figure>", page)
    assert chart.count("<polyline") == 2
    assert 'text-anchor="end">40</text>' in chart
    # Each rank's bars stand under each other, on one scale.
    assert re.findall(r">(rank \d, \d)</text>", page) == [
        "rank 0, 1",
        "rank 0, 2",
        "rank 1, 1",
        "rank 1, 2",
    ]
    assert "rank 0, 2, data: 110 ms of 175 ms" in html.unescape(page)


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    one, two = yesterday_and_today(tmp_path)
    for arguments, says in (
        ([one], "give two to 6 runs"),
        ([one, tmp_path / "nothing"], "reports.json is not in it"),
        ([one, saved(tmp_path, "odd", steps=[[0, 1, [0.1]]])], "steps have other phases"),
    ):
        done = compare(*arguments, "--out", tmp_path / "out.html")
        assert done.returncode == 1
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
    (two / "reports.json").write_text("[1]")
    assert "not a JSON object" in compare(one, two).stderr


def test_a_run_of_an_older_version_and_names_from_elsewhere(tmp_path: Path) -> None:
    old = saved(
        tmp_path, "<b>old", reports=[{"loss": 1.0}, {"loss": float("nan")}], state="finished"
    )
    new = saved(tmp_path, "new", reports=[{"acc/uracy": 0.5}], name="<i>", state="failed")
    done = compare(old, new, "--out", tmp_path / "out.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out.html").read_text()
    assert "<b>" not in page.replace("<figcaption><b>", "")
    assert "&lt;b&gt;old" in page
    assert "<h2>Steps</h2>" not in page


def test_what_a_run_leaves_can_be_compared(fit: Any, tmp_path: Path) -> None:
    def loop(config: dict[str, Any]) -> None:
        for number in range(3):
            train.report({"loss": config["loss"] / (number + 1)})

    paths = [fit(loop, config={"loss": loss}, name=f"run{loss}").path for loss in (1, 2)]
    done = compare(*paths, "--out", tmp_path / "out.html")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +run1 +run2 +last / first$", done.stdout, re.M)
    assert re.search(r"^reports +3 +3$", done.stdout, re.M)
    assert "last: run1 0.3333, run2 0.6667" in (tmp_path / "out.html").read_text()
