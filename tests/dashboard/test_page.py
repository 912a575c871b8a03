"""The page: that it is served, is no older than its sources, and shows what there is."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.helpers import harness
from tests.helpers.answer_types import differences
from tests.helpers.browser import BROWSER, opened
from tests.helpers.web import Head

pytestmark = [
    pytest.mark.contract("F6.05", "F6.26"),
    pytest.mark.heliostat_only("the page is our own"),
]

SOURCES = Path(__file__).parents[2] / "crates" / "helio-dashboard" / "page"


@pytest.fixture
def cookie(head: Head) -> dict[str, str]:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    entered = head.ask("POST", "/login", urlencode({"token": head.token}), form, token=False)
    return {"Cookie": entered.headers["set-cookie"].partition(";")[0]}


def test_the_page_was_built_from_its_sources() -> None:
    """What is served is committed; after a change of its sources: `npm ci && npm run build`."""
    names = ["index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts"]
    sources = [str(path.relative_to(SOURCES)) for path in (SOURCES / "src").rglob("*")]
    digest = hashlib.sha256()
    for name in sorted([*names, *sources]):
        path = SOURCES / name
        if path.is_file():
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    built = (SOURCES / "dist" / "sources.sha256").read_text().strip()
    assert built == digest.hexdigest(), (
        "run `npm ci && npm run build` in crates/helio-dashboard/page"
    )


def test_a_browser_gets_the_page(head: Head, cookie: dict[str, str]) -> None:
    page = head.ask("GET", "/", headers=cookie, token=False)
    assert page.status == 200
    assert "<noscript>" in page.text
    assert "default-src 'self'" in page.headers["content-security-policy"]
    parts = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(parts) == 2
    for part in parts:
        assert head.ask("GET", part, token=False).status == 401
        plain = head.ask("GET", part, headers=cookie, token=False)
        packed = head.ask("GET", part, headers={**cookie, "Accept-Encoding": "gzip"}, token=False)
        assert gzip.decompress(packed.body) == plain.body
    assert head.ask("GET", "/static/..%2fCargo.toml").status == 404


@pytest.mark.skipif(not BROWSER, reason="HELIOSTAT_BROWSER names no Chromium")
def test_a_real_browser_shows_the_cluster(head: Head) -> None:
    head.ask(
        "POST", "/api/jobs/", '{"entrypoint": "echo seen in the page", "submission_id": "shown"}'
    )
    with opened(head) as page:
        for part, text in (
            ("nodes", "head"),
            ("jobs", "shown"),
            ("jobs/shown", "seen in the page"),
            ("training", "No training run has been started"),
            ("actors", "No actors outside of libraries"),
            ("tasks", "Calls by function"),
            ("logs", "node.err"),
        ):
            page.goto(f"{head.url}/#/{part}")
            page.get_by_text(text).first.wait_for(timeout=60_000)


# Goes on until it is killed, and so does the upload of its checkpoint. Rank 1 is lost once.
TRAINS = """
import os, pathlib, signal, sys, tempfile, time, ray
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import FaultTolerantConfig, TorchTrainer

mark = pathlib.Path(sys.argv[1], "lost")

def loop():
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = train.torch.fault_tolerant(model=model, optimizer=optimizer)
    reported = False
    for step in run.steps():
        if step == 5 and train.get_context().get_world_rank() == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.01)
        if step > 5 and run.count == 2 and not reported:  # behind the same step on both
            reported = True
            train.report(
                {"loss": 0.25},
                train.Checkpoint.from_directory(tempfile.mkdtemp()),
                checkpoint_upload_mode=train.CheckpointUploadMode.ASYNC,
                checkpoint_upload_fn=lambda checkpoint, name: time.sleep(1000),
            )

TorchTrainer(
    loop,
    torch_config=FaultTolerantConfig(),
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(name="seen", storage_path=sys.argv[1],
                         failure_config=FailureConfig(max_failures=-1)),
).fit()
"""


@pytest.mark.skipif(not BROWSER, reason="HELIOSTAT_BROWSER names no Chromium")
def test_a_real_browser_shows_a_training_run_that_goes_on(head: Head, tmp_path: Path) -> None:
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}", "HELIOSTAT_TRAIN_VIEW": "off"}
    driver = harness.start_driver(tmp_path, TRAINS, args=[str(tmp_path)], env=env)
    try:
        with opened(head) as page:
            page.goto(f"{head.url}/#/training")
            page.get_by_role("heading", name="seen RUNNING").wait_for(timeout=120_000)
            bars = page.get_by_role("img", name="Times of a step, by rank")
            bars.get_by_text("rank 1", exact=True).wait_for(timeout=120_000)
            assert bars.locator("rect").count() == 2 * 6
            page.locator("p", has_text="2 of 2 in quorum").wait_for(timeout=120_000)
            table = page.get_by_role("table", name="Replacements")
            table.get_by_text("killed by signal 9").wait_for(timeout=120_000)
            back = table.get_by_role("row").filter(has_text="signal 9").locator("td").last
            back.get_by_text(re.compile(r"^\d[\d.]* m?s")).wait_for(timeout=120_000)
            table = page.get_by_role("table", name="Checkpoints")
            row = table.get_by_role("row").filter(has_text="report 1").filter(has_text="0, 1")
            row.get_by_text("uploading").wait_for(timeout=120_000)
            told = head.get("/api/v0/training")
            assert told["runs"][0]["seen"]["replacements"]
            assert differences(told, "Runs<TrainingRun>") == []
            driver.process.kill()
            driver.process.wait(120)
            page.get_by_role("heading", name="DRIVER ENDED").wait_for(timeout=120_000)
    finally:
        driver.process.kill()


# Two runs: the first one restarts once, the second one waits in its middle for a file.
REPORTS = """
import os, pathlib, signal, sys, tempfile, time, ray
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

folder = pathlib.Path(sys.argv[1])

def loop(config):
    import torch
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    name, lost, gate = config["name"], folder / "lost", folder / "gate"
    begun = train.get_checkpoint()
    for step in range(0 if begun is None else 10, 20):
        if step == 15 and train.get_context().get_world_rank() == 1 and not lost.exists():
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while name == "today" and step == 12 and not gate.exists():
            time.sleep(0.02)
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        metrics = {"step": step, "loss": config["loss"] / (step + 1), "odd \\ud800": 1, "nan": float("nan")}
        with tempfile.TemporaryDirectory() as saved:
            kept = train.Checkpoint.from_directory(saved) if step == 9 else None
            train.report(metrics, kept)

for name, loss in (("yesterday", 1.0), ("today", 2.0)):
    TorchTrainer(
        loop,
        train_loop_config={"name": name, "loss": loss},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=sys.argv[1],
                             failure_config=FailureConfig(max_failures=1)),
    ).fit()
"""


@pytest.mark.skipif(not BROWSER, reason="HELIOSTAT_BROWSER names no Chromium")
def test_a_real_browser_shows_curves_and_two_runs_over_each_other(
    head: Head, tmp_path: Path
) -> None:
    env = {**head.env, "RAY_ADDRESS": f"127.0.0.1:{head.port}", "HELIOSTAT_TRAIN_VIEW": "off"}
    driver = harness.start_driver(tmp_path, REPORTS, args=[str(tmp_path)], env=env)
    try:
        with opened(head) as page:
            page.goto(f"{head.url}/#/training")
            # While it goes on: the curve up to the step that it waits at.
            page.get_by_role("heading", name="today RUNNING").wait_for(timeout=120_000)
            loss = page.locator("section.card", has=page.get_by_role("heading", name="loss"))
            loss.get_by_text("last 0.1667, min 0.1667, max 2").wait_for(timeout=120_000)
            (tmp_path / "gate").touch()
            page.get_by_role("heading", name="today FINISHED").wait_for(timeout=120_000)
            loss.get_by_text("last 0.1, min 0.1, max 2").wait_for(timeout=120_000)
            loss.get_by_role("img", name="loss over time").wait_for(timeout=120_000)
            page.get_by_text("last not finite, 20 NaN or infinite").wait_for(timeout=120_000)
            page.get_by_role("heading", name="odd ?").wait_for(timeout=120_000)
            for run in head.get("/api/v0/training")["runs"]:
                curves = head.get(f"/api/v0/training/{run['run_id']}/curves")
                assert differences(curves, "RunCurves") == []
            # The other run, which was restarted.
            page.get_by_role("link", name="yesterday").click()
            page.get_by_role("heading", name="yesterday FINISHED").wait_for(timeout=120_000)
            attempts = page.get_by_role("table", name="Attempts")
            first = attempts.get_by_role("row").filter(has_text="scratch")
            first.get_by_text("killed by signal 9").wait_for(timeout=120_000)
            second = attempts.get_by_role("row").filter(has_text="checkpoint_")
            second.wait_for(timeout=120_000)
            # Its ranks lead to their processes, one of which has taken the place of another.
            ranks = page.get_by_role("table", name="Ranks").locator("tbody tr")
            assert ranks.count() == 2
            lost = [text.split() for text in ranks.nth(1).locator("td").all_text_contents()]
            assert (lost[1], lost[4], lost[6]) == (["FINISHED"], ["10"], ["1"])
            ranks.nth(1).locator("a[href^='#/actors/']").wait_for(timeout=120_000)
            ranks.nth(1).locator("a[href^='#/workers/']").click()
            page.get_by_role("heading", name=re.compile(r"Process \d+ on")).wait_for(
                timeout=120_000
            )
            page.go_back()
            # Both over each other, the earlier one first.
            page.get_by_label("Compare yesterday with").select_option(index=1)
            page.get_by_role("heading", name="yesterday and today").wait_for(timeout=120_000)
            figures = page.get_by_role("table", name="Comparison")
            row = figures.get_by_role("row").filter(has_text="reports/s")
            assert re.search(r"\d\.\d\d$", row.inner_text())
            assert figures.get_by_role("row").filter(has_text="failures").inner_text().split() == [
                *("failures", "1", "0")
            ]
            loss.get_by_text("last 1: 0.05, 2: 0.1").wait_for(timeout=120_000)
            loss.get_by_role("img", name="loss over steps").wait_for(timeout=120_000)
            bars = page.get_by_role("img", name="Times of a step, by rank")
            assert bars.locator("text").all_text_contents() == [
                f"rank {rank}, {run}" for rank in range(2) for run in (1, 2)
            ]
            for width in (400, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                loss.get_by_role("img", name="loss over steps").wait_for(timeout=120_000)
                # The charts take their new width a frame later.
                fits = "width => document.documentElement.scrollWidth <= width"
                page.wait_for_function(fits, arg=width, timeout=120_000)
    finally:
        driver.process.kill()


def test_the_curves_of_a_run_that_nobody_knows(head: Head) -> None:
    answer = head.ask("GET", "/api/v0/training/nothing/curves")
    assert answer.status == 404
    assert answer.text == 'No run "nothing" has told of its metrics.'
