"""What a user sees while a run goes on: in a terminal, in a log, and at the end."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ray import train

from tests.helpers.harness import clean_env

pytestmark = pytest.mark.heliostat_only("Ray shows nothing of the kind")

SCRIPT = """
import os
import pathlib
import sys
import tempfile
import time
import ray
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

folder = sys.argv[1]
died = pathlib.Path(folder, "died")

def loop():
    rank = train.get_context().get_world_rank()
    for step in range(4):
        if step == 2 and rank == 1 and not died.exists():
            died.write_text("")
            print("this rank ends here", flush=True)
            os.kill(os.getpid(), 9)
        with tempfile.TemporaryDirectory() as found:
            train.report({"loss": 1 / (step + 1)}, checkpoint=Checkpoint.from_directory(found))
        time.sleep(0.3)

ray.init(num_cpus=2)
result = DataParallelTrainer(
    loop,
    scaling_config=ScalingConfig(num_workers=2),
    run_config=RunConfig(
        name="seen", storage_path=folder, failure_config=FailureConfig(max_failures=1)
    ),
).fit()
print(result)
"""


def in_a_terminal(tmp_path: Path) -> str:
    """Everything that the script wrote to a terminal, with its control sequences."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ours, theirs = pty.openpty()
    env = clean_env({"TERM": "xterm-256color", "COLUMNS": "110", "LINES": "40"})
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    written, deadline = b"", time.monotonic() + 50
    try:
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    written += os.read(ours, 1 << 16)
                except OSError:  # the terminal's other end is closed
                    break
        assert process.wait(60) == 0, written.decode(errors="replace")
    finally:
        process.kill()
        os.close(ours)
    return written.decode(errors="replace")


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


def test_the_live_view_in_a_terminal(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    raw = in_a_terminal(tmp_path)
    assert "\x1b[1A" in raw, "nothing was drawn over"
    text = plain(raw)
    # While it runs: workers, pace, metrics, checkpoints ...
    for rank in range(2):
        assert re.search(rf"│ +{rank} +\S+ +\d+ +running +│", text)
    assert re.search(r"│ reports +2, [\d.]+/s|│ reports +2, one every", text)
    assert "loss=0.5" in text
    assert re.search(r"│ checkpoints +2, latest checkpoint_\S+, \d.* ago", text)
    # ... the failure with its cause, and that the run has got over it.
    assert re.search(r"rank 1 \(pid \d+ on \S+\) died: killed by signal 9 \(SIGKILL\)", text)
    # That its row says so, too, is seen only if a frame is drawn before the next worker has its place.
    assert "back after" in text
    # What workers print stands above it, in lines of its own.
    assert re.search(r"\(TrainWorker pid=\d+\) this rank ends here\n", text)
    # At the end the panel stays, and the page is named.
    end = text[text.rindex("╭") :]
    assert "finished after" in end
    assert "1 restart" in end
    page = re.search(r"page of the run: (\S+)", end)
    assert page is not None
    assert Path(page[1]).exists()
    assert "Result(" in end


def test_lines_without_a_terminal(run_driver: Any, tmp_path: Path) -> None:
    done = run_driver(SCRIPT, args=[str(tmp_path)]).check()
    assert "\x1b[" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("train ")]
    assert len(lines) < 20, done.stderr
    text = "\n".join(lines)
    for part in (
        "run seen in",
        "2 workers on",
        "report 1  loss=1",
        "failure: rank 1",
        "killed by signal 9",
        "restarting from the latest checkpoint",
        "(1 kept), from checkpoint_",
        "finished after",
        "page of the run: ",
    ):
        assert part in text, done.stderr
    # The result: the run in one look.
    for part in ("1 restart", "metrics     loss=0.25", "checkpoint  /", "page        /"):
        assert part in done.stdout


def test_a_run_outlives_its_terminal(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads what is shown may go away: a closed window, `| head`, a full disk."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    def loop() -> None:
        for step in range(3):
            train.report({"step": step})

    for stream in (Gone(), None):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            result = fit(loop, 1, name=f"to-{stream is None}")
        assert result.metrics == {"step": 2}
    page = Path(result.path).parent / "to-False" / "run.html"
    assert "the view of the run ended: BrokenPipeError" in page.read_text()


def test_a_narrow_terminal_and_names_with_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    from heliostat.train.controller.record import AttemptRecord, RunRecord, WorkerSpan
    from heliostat.train.messages import ReportedRow
    from heliostat.train.view.live import LiveView
    from rich.console import Console

    record = RunRecord(name="[bold]run[/]", run_id="r", path="/runs", config={}, state="running")
    record.attempts.append(AttemptRecord(0, time.time(), 64))
    record.attempt.workers = [
        WorkerSpan(rank, "10.0.0.1", "host", 100 + rank, time.time(), False) for rank in range(64)
    ]
    record.add_report(ReportedRow(0, time.time(), {"[red]loss[/b]": 1.5}, "/a/[/b]"))
    for width in (24, 50, 110):
        shown = io.StringIO()
        view = LiveView(record)
        view._console = Console(file=shown, width=width, height=200)
        view.finish()
        lines = shown.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        text = "".join(line.strip("│ ") for line in lines)
        for part in ("[bold]", "[red]loss[/b]=1.5", "/a/[/b]", "running"):
            assert part in text, shown.getvalue()
        assert ("10.0.0.1" in text) == (width >= 60)
        assert "52 more" in text
