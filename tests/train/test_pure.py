"""The parts without any process: rounds, ranks, the record of checkpoints, pages, lines."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

pytest.importorskip("heliostat.train")

from heliostat.train.controller.interrupts import Interrupts
from heliostat.train.controller.record import AttemptRecord, Failure, RunRecord, WorkerSpan
from heliostat.train.coordinator.attempt import looks_blocked_in_collective
from heliostat.train.coordinator.checkpoint_book import CheckpointBook
from heliostat.train.coordinator.rendezvous import Rendezvous
from heliostat.train.group.ranks import order_by_node, ranks_of
from heliostat.train.messages import ReportedRow
from heliostat.train.view.lines import LineView
from heliostat.train.view.page import render


def test_a_round_completes_when_all_are_there() -> None:
    """TRAIN-BARRIER-1."""
    meeting = Rendezvous(3)
    for rank in (0, 2):
        round_ = meeting.arrive(rank, 0, None, 0.0)
        assert not meeting.is_complete(round_)
    assert meeting.missing(round_) == [1]
    assert meeting.is_complete(meeting.arrive(1, 0, None, 0.0))


def test_a_rank_that_has_left_counts_as_arrived() -> None:
    """TRAIN-BARRIER-1."""
    meeting = Rendezvous(3)
    meeting.arrive(0, 0, None, 0.0)
    assert meeting.leave(1) == []
    (done,) = meeting.leave(2)
    assert done.index == 0
    meeting.close(done)
    assert meeting.is_complete(meeting.arrive(0, 1, None, 0.0))


def test_an_excused_rank_is_not_waited_for() -> None:
    """TRAIN-BARRIER-1."""
    meeting = Rendezvous(2)
    meeting.arrive(0, 0, None, 0.0)
    assert [r.index for r in meeting.excuse([1])] == [0]


def test_nobody_arrives_twice() -> None:
    meeting = Rendezvous(2)
    meeting.arrive(0, 0, None, 0.0)
    with pytest.raises(ValueError, match="twice"):
        meeting.arrive(0, 0, None, 0.0)
    with pytest.raises(ValueError, match="not in a group"):
        meeting.arrive(5, 0, None, 0.0)


def test_ranks_of_a_node_are_consecutive() -> None:
    nodes = ["a", "b", "a", "b"]
    assert order_by_node(nodes, [None] * 4) == [0, 2, 1, 3]
    ranks = ranks_of(["a", "a", "b", "b"])
    assert [(r.world_rank, r.local_rank, r.node_rank) for r in ranks] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 0, 1),
        (3, 1, 1),
    ]
    assert {r.local_world_size for r in ranks} == {2}


def test_survivors_keep_their_ranks() -> None:
    # Ranks 0 and 2 are there, the last one is new and takes rank 1.
    assert order_by_node(["a", "a", "a"], [0, 2, None]) == [0, 2, 1]


def test_the_snapshot_is_read_back() -> None:
    book = CheckpointBook(num_to_keep=2, score_attribute="a/b", score_order="min")
    for i, score in enumerate([0.5, 0.1, 0.9]):
        book.reports = i + 1
        dropped = book.add(f"c{i}", {"a": {"b": score}}, i)
    assert dropped == []
    assert [e.name for e in book.ranked()] == ["c2", "c0", "c1"]
    copy = CheckpointBook()
    copy.load(book.to_json())
    assert copy.entries == book.entries
    assert copy.latest is not None
    assert copy.latest.name == "c2"
    with pytest.raises(ValueError, match="cannot be read"):
        copy.load(b'{"a": 1}')


def test_a_checkpoint_that_workers_may_begin_from_is_kept_beside_the_others() -> None:
    book = CheckpointBook(num_to_keep=1)
    book.add("a", {}, 0)
    book.held = "a"
    assert book.add("b", {}, 1) == []
    assert book.add("c", {}, 2) == ["b"]
    assert book.release() == ["a"]
    assert [e.name for e in book.entries] == ["c"]
    assert book.leaving == ["b", "a"]


def test_a_snapshot_that_ray_wrote() -> None:
    data = {
        "ray_version": "2.60.0",
        "checkpoint_results": [
            {"version": 0, "checkpoint_dir_name": "checkpoint_b", "metrics": {"loss": 1.0}},
            {"version": 0, "checkpoint_dir_name": "checkpoint_a", "metrics": {"loss": 0.5}},
        ],
        "checkpoint_report_indices": [1, 0],
        "latest_checkpoint_result": {
            "version": 0,
            "checkpoint_dir_name": "checkpoint_b",
            "metrics": {"loss": 1.0},
        },
        "current_report_index": 2,
    }
    book = CheckpointBook()
    book.load(json.dumps(data).encode())
    assert [e.name for e in book.entries] == ["checkpoint_a", "checkpoint_b"]
    assert book.reports == 2


@pytest.mark.parametrize(
    ("frame", "blocked"),
    [
        ('File "/x/torch/distributed/distributed_c10d.py", line 1, in all_reduce', True),
        ('File "/x/torch/autograd/graph.py", line 1, in _engine_run_backward', True),
        ('File "/x/torch/nn/parallel/distributed.py", line 1, in _sync_buffers', True),
        ('File "/x/torch/nn/parallel/distributed.py", line 1, in forward', False),
        ('File "/x/heliostat/train/torch/replica/ring.py", line 1, in vote', True),
        ('File "/x/torch/nn/functional.py", line 1, in linear', False),
        ('File "/home/me/loop.py", line 1, in evaluate', False),
    ],
)
def test_who_waits_in_a_collective(frame: str, blocked: bool) -> None:
    stack = f'  File "/home/me/loop.py", line 3, in loop\n    x\n  {frame}\n    y\n'
    assert looks_blocked_in_collective(stack) is blocked


@pytest.mark.contract("F9.02")
def test_the_third_interrupt_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    before = signal.getsignal(signal.SIGINT)
    with Interrupts():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert codes == []
        signal.raise_signal(signal.SIGINT)
    assert codes == [128 + signal.SIGINT]
    assert "press Ctrl-C once more" in sys.stderr.getvalue()
    assert signal.getsignal(signal.SIGINT) is before


def a_record(reports: int = 5) -> RunRecord:
    record = RunRecord("digits", "id", "/runs/digits", {"lr": 0.1}, started_at=1000.0)
    attempt = AttemptRecord(0, 1000.0, 2, started_at=1001.0)
    attempt.workers = [
        WorkerSpan(0, "10.0.0.1", "host", 11, 1001.0, False, 1009.0, "ended"),
        WorkerSpan(1, "10.0.0.1", "host", 12, 1001.0, False, 1005.0, "died"),
    ]
    record.attempts.append(attempt)
    for i in range(reports):
        name = f"checkpoint_{i}" if i % 2 == 0 else None
        metrics = {"loss": 1.0 / (i + 1), "name": "<b>", "nested": {"a": i}}
        record.add_report(ReportedRow(i, 1001.0 + i, metrics, name))
    record.failures.append(Failure(1005.0, 0, [1], "rank 1 died <", "the & stack", 2.0))
    record.state, record.finished_at = "finished", 1010.0
    return record


class Check(HTMLParser):
    """Every tag that has to be closed is closed, in order; nothing comes from outside."""

    VOID = ("meta", "br", "line", "circle", "rect", "path", "polyline", "text", "th", "tr", "td")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            assert name not in ("src", "href"), f"{tag} {name}={value}"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("reports", [0, 1, 5, 5000])
def test_the_page_is_complete_and_self_contained(reports: int) -> None:
    page = render(a_record(reports))
    check = Check()
    check.feed(page)
    assert check.open == []
    assert "http" not in page.replace("http-equiv", "")
    assert "rank 1 died &lt;" in page
    assert "the &amp; stack" in page
    assert "<svg" in page
    if reports:
        assert "nested/a" in page
        assert "checkpoint_0" in page
    assert len(page) < 500_000


def test_lines_for_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    record = a_record()
    view = LineView(record)
    view.start()
    view.attempt_started()
    view.reported(record.reports[-1])
    view.failed(record.failures[0], "failure 1", "restarting from the latest checkpoint")
    view.finish()
    text = out.getvalue()
    assert "2 workers on 10.0.0.1 ready in 1.0 s" in text
    assert re.search(r"report 5  loss=0\.2", text)
    assert "restarting from the latest checkpoint" in text


def test_the_latest_report_stands_before_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    record = a_record()
    view = LineView(record)
    view.reported(record.reports[0])
    view.failed(record.failures[0], "failure 1", "giving up")
    view.finish()
    text = out.getvalue()
    assert text.count("report 5") == 1
    assert text.index("report 5") < text.index("failure: ")


def test_the_live_view() -> None:
    rich = pytest.importorskip("rich.console")
    from heliostat.train.view.live import LiveView

    view: Any = LiveView(a_record())
    console = rich.Console(file=io.StringIO(), width=120)
    console.print(view._draw())
    text = console.file.getvalue()
    assert "rank" in text
    assert "died" in text
    assert "loss=0.2" in text
