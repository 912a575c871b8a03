"""A run that is looked at: checkpoints on their way, and the replica groups that take its steps."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray shows nothing of the kind"),
]


def record(workers: int = 4, **more: Any) -> Any:
    """A run with one attempt, begun at second 1000."""
    from heliostat.train.controller.record import AttemptRecord, RunRecord, WorkerSpan

    made = RunRecord("run", "r", "/runs/run", {}, started_at=1000.0, **more)
    made.attempts.append(AttemptRecord(0, 1000.0, workers, started_at=1001.0))
    made.attempt.workers = [
        WorkerSpan(rank, "10.0.0.1", "host", 100 + rank, 1001.0, False) for rank in range(workers)
    ]
    return made


def test_a_checkpoint_is_on_its_way_until_it_is_there_or_was_refused() -> None:
    from heliostat.train.messages import ReportedRow
    from heliostat.train.view.text import storing_text

    run = record(2)
    assert storing_text(run, 1002.0) == ""
    run.begin_storing(4, 1, 1002.0)
    assert storing_text(run, 1002.5) == "of report 5: rank 1, for 500 ms"
    run.begin_storing(4, 0, 1003.0)
    run.begin_storing(5, 0, 1004.0)
    assert (
        storing_text(run, 1005.0)
        == "of report 5: all ranks, for 3.0 s; of report 6: rank 0, for 1.0 s"
    )
    row = ReportedRow(4, 1005.0, {}, "checkpoint_4", publish_s=0.5)
    run.stored(4, row)
    assert row.in_flight_s == pytest.approx(3.5)
    run.stored(5)  # the storage has refused it
    assert storing_text(run, 1006.0) == ""
    plain = ReportedRow(6, 1007.0, {})
    run.stored(6, plain)
    assert plain.in_flight_s == 0.0


def quorums(run: Any, *rows: tuple[float, int, int | None, tuple[int, ...]]) -> Any:
    from heliostat.train.controller.record import QuorumRecord

    for at, number, step, groups in rows:
        run.quorums.append(QuorumRecord(at, 0, number, step, groups, of=2, size=2))
    return run


def lost(run: Any, at: float, rank: int, replaced_s: float | None = None) -> Any:
    from heliostat.train.controller.record import Failure

    failure = Failure(at, 0, [rank], f"rank {rank} died <hard>", "", went_on=True)
    failure.replaced_s = replaced_s
    run.failures.append(failure)
    return run


def test_who_takes_the_steps_is_said_while_the_run_goes_on() -> None:
    from heliostat.train.controller.page_row import explained
    from heliostat.train.view.replicas import quorum_text

    assert quorum_text(record(), 1002.0) == ""
    run = quorums(record(), (1002.0, 0, 0, (0, 1)))
    assert quorum_text(run, 1003.0) == "2 of 2 in quorum 0, from step 0 on"
    lost(quorums(run, (1010.0, 1, None, (0,))), 1010.0, rank=3)
    text = "1 of 2 in quorum 1; group 1 is being replaced, 2.0 s so far"
    assert quorum_text(run, 1012.0) == text
    assert "Replica groups: 1 of 2 in quorum 1; group 1 is being replaced" in explained(run)
    run.failures[0].replaced_s = 2.5
    quorums(run, (1012.5, 2, 80, (0, 1)))
    assert quorum_text(run, 1013.0) == "2 of 2 in quorum 2, from step 80 on"


def test_the_page_has_a_lane_for_each_replica_group() -> None:
    from heliostat.train.view.page import render
    from heliostat.train.view.replicas import replicas

    run = record(finished_at=1020.0)
    assert "Replica groups" not in render(run)
    quorums(run, (1002.0, 0, 0, (0, 1)), (1010.0, 1, None, (0,)), (1012.0, 2, 80, (0, 1)))
    lost(run, 1010.0, rank=3, replaced_s=2.0)
    page = replicas(run)
    assert page.count('text-anchor="end">group ') == 2
    assert "group 0: in quorum 0, 1, 2<" in page, "one bar for whoever stayed"
    assert page.count("group 1: ") == 3
    assert "group 1: not in quorum 1<" in page
    cells = "<td>10.0 s</td><td>1</td><td>rank 3</td><td>rank 3 died &lt;hard&gt;</td>"
    assert f"{cells}<td>in again after 2.0 s</td>" in page
    assert page in render(run)


def test_a_replaced_worker_is_in_the_lane_of_its_rank() -> None:
    from heliostat.train.controller.record import WorkerSpan
    from heliostat.train.view.timeline import timeline

    run = record(finished_at=1020.0)
    run.attempt.workers[1].end, run.attempt.workers[1].state = 1010.0, "died"
    run.attempt.workers.append(WorkerSpan(1, "10.0.0.1", "host", 200, 1012.0, False))
    page = timeline(run)
    assert re.findall(r">(rank \d)</text>", page) == [f"rank {rank}" for rank in range(4)]
    lane = [
        re.findall(r' (?:x|width)="([\d.]+)"', part)[:2]
        for part in page.split("<rect ")
        if 'y="53.0"' in part and 'class="start"' in part
    ]
    # 1000 s to 1020 s are 924 wide, from 70 on: the first starts within 1 s, the second from the death on.
    assert lane == [["70.0", "46.2"], ["532.0", "92.4"]]


def slow_upload(config: dict[str, Any]) -> None:
    """Rank 0 looks what is said of the run while both ranks' files are held up."""
    import tempfile

    from heliostat.experimental import internal_kv

    def said() -> str:
        keys = internal_kv._internal_kv_list(b"", namespace="_train_runs")
        texts = [internal_kv._internal_kv_get(key, namespace="_train_runs") for key in keys]
        return "".join(json.loads(text)["text"] for text in texts if text)

    gate = Path(config["gate"])

    def upload(checkpoint: Any, name: str) -> Any:
        while not gate.exists():
            time.sleep(0.02)
        return checkpoint

    rank = train.get_context().get_world_rank()
    train.report(
        {"step": 0},
        train.Checkpoint.from_directory(tempfile.mkdtemp()),
        checkpoint_upload_mode=train.CheckpointUploadMode.ASYNC,
        checkpoint_upload_fn=upload,
        delete_local_checkpoint_after_upload=False,
    )
    if rank == 0:
        deadline = time.monotonic() + 90
        while "Checkpoints on their way, of report 1: all ranks" not in said():
            assert time.monotonic() < deadline, said()
            time.sleep(0.1)
        gate.touch()


def test_a_checkpoint_that_is_uploaded_is_seen_before_it_is_there(fit: Any, tmp_path: Path) -> None:
    result = fit(slow_upload, config={"gate": str(tmp_path / "gate")})
    page = Path(result.page).read_text()
    assert 'class="flight"' in page
    assert "<th>in flight" in page


def killed_once(config: dict[str, Any]) -> None:
    import torch

    model = torch.nn.Linear(4, 1)
    run = train.torch.fault_tolerant(model=model)
    mark, rank = Path(config["mark"]), train.get_context().get_world_rank()
    for step in run.steps():  # all ranks leave it after the same step: they see the same counts
        if rank == 1 and step == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        model.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        if step > 3 and run.count == 2:
            break


def test_a_group_that_is_replaced_is_a_gap_in_its_lane(ray_start: Any, tmp_path: Path) -> None:
    result = TorchTrainer(
        killed_once,
        train_loop_config={"mark": str(tmp_path / "mark")},
        torch_config=train.torch.FaultTolerantConfig(),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path),
            failure_config=FailureConfig(max_failures=-1),
        ),
    ).fit()
    page = Path(result.page).read_text()
    assert "<h2>Replica groups</h2>" in page
    lanes = [line for line in page.split("<title>") if line.startswith("group ")]
    one = [line.partition("<")[0] for line in lanes if line.startswith("group 1:")]
    assert [line.startswith("group 1: not in") for line in one] == [False, True, False], one
    assert sum(line.startswith("group 0:") for line in lanes) == 1
    assert "<td>in again after " in page


def test_what_the_head_is_told_is_plain_data() -> None:
    from heliostat.train.controller.seen import seen
    from heliostat.train.messages import ReportedRow
    from heliostat.train.steps.messages import PHASES, StepTimes

    fresh = seen(record())
    assert fresh["quorum"] is None
    assert [row["reported_at"] for row in fresh["ranks"]] == [None] * 4
    assert fresh["checkpoints"] == fresh["storing"] == fresh["times"] == fresh["replacements"] == []
    run = lost(quorums(record(), (1002.0, 7, 30, (0,))), 1010.0, rank=3)
    run.step_times = [StepTimes(rank, 9, (0.1 * rank,) * len(PHASES)) for rank in range(100)]
    run.begin_storing(3, 1, 1005.0)
    metrics = {"loss": 0.5, "nan": float("nan"), "text": "x", "deep": {"er": 1}}
    run.add_report(ReportedRow(0, 1004.0, metrics, "checkpoint_0", in_flight_s=1.5))
    found = json.loads(json.dumps(seen(run), allow_nan=False))
    assert found["metrics"] == {"loss": 0.5, "deep/er": 1.0}
    assert found["quorum"] == {"number": 7, "step": 30, "groups": [0], "of": 2}
    assert found["replacements"] == [
        {"at": 1010.0, "group": 1, "title": "rank 3 died <hard>", "replaced_s": None}
    ]
    assert found["storing"] == [{"report": 3, "ranks": [1], "since": 1005.0}]
    assert found["checkpoints"] == [{"name": "checkpoint_0", "at": 1004.0, "in_flight_s": 1.5}]
    ranks = [times["rank"] for times in found["times"]]
    assert ranks == list(range(36, 100)), "the slowest ranks are shown"


def test_the_head_is_told_of_the_process_of_each_rank() -> None:
    from heliostat.train.controller.record import AttemptRecord, WorkerSpan
    from heliostat.train.controller.seen import seen
    from heliostat.train.messages import WorkerInfo

    run = record(100)
    run.attempt.workers[98].state = "died"
    # Rank 1 has a new process, the others go on in theirs.
    run.attempts.append(AttemptRecord(1, 1020.0, 100, started_at=1021.0))
    assert seen(run)["ranks"][-1]["state"] == "died", (
        "until the next ones run, the last ones are shown"
    )
    for rank in range(100):
        info = WorkerInfo("n1", "10.0.0.1", "host", 500 + rank, [], f"w{rank}", f"a{rank}")
        run.attempt.workers.append(WorkerSpan.of(rank, info, rank == 1))
    run.attempt.workers[99].state = "failed"
    run.reported.update({0: (7, 1030.0)})
    ranks = {row.pop("rank"): row for row in json.loads(json.dumps(seen(run)["ranks"]))}
    assert list(ranks) == [*range(63), 99], "those that have failed, and the first ones"
    assert ranks[0] == {
        "state": "running",
        "node_id": "n1",
        "host": "host",
        "pid": 500,
        "worker_id": "w0",
        "actor_id": "a0",
        "reports": 7,
        "reported_at": 1030.0,
        "restarts": 0,
    }
    assert (ranks[1]["restarts"], ranks[1]["reported_at"]) == (1, None)
