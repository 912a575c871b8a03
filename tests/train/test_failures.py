"""What ends a run and what does not: exceptions, deaths, hung ranks, full disks, Ctrl-C."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import train
from ray.train import Checkpoint, ControllerError, FailureConfig, RunConfig, WorkerGroupError

from tests.helpers.harness import wait_until

pytestmark = [pytest.mark.usefixtures("quiet")]


@pytest.mark.contract("F9.02", "F9.09")
def test_an_exception_ends_the_run_and_names_the_rank(fit: Any) -> None:
    def loop() -> None:
        if train.get_context().get_world_rank() == 1:
            raise ValueError("broken loop")
        time.sleep(3600)

    with pytest.raises(WorkerGroupError, match="broken loop") as caught:
        fit(loop, 2)
    assert list(caught.value.worker_failures) == [1]
    assert isinstance(caught.value.worker_failures[1], ValueError)


@pytest.mark.contract("F9.02", "F9.09")
@pytest.mark.heliostat_only("Ray has another text")
def test_a_failure_is_printed_once(fit: Any) -> None:
    def loop() -> None:
        raise ValueError("broken loop")

    with pytest.raises(WorkerGroupError) as caught:
        fit(loop, 1)
    error = caught.value
    printed = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # The line that says what failed, then the traceback of the rank: its source line and its end.
    assert printed.count("broken loop") == 3
    assert "raised ValueError: broken loop" in printed
    assert "controller/attempt.py" not in printed


@pytest.mark.contract("F9.09", "F9.18")
@pytest.mark.heliostat_only("Ray has another text")
def test_a_failure_of_a_dataset_is_named_by_its_cause(
    fit: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "lines")

    def divided(row: dict[str, Any]) -> dict[str, Any]:
        return {"x": 1 / (row["id"] - 5)}

    def loop() -> None:
        for _ in train.get_dataset_shard("train").iter_batches():
            pass

    dataset = ray.data.range(20).map(divided)
    with pytest.raises(WorkerGroupError, match="ZeroDivisionError") as caught:
        fit(loop, 2, trainer={"datasets": {"train": dataset}})
    shown = [line for line in capfd.readouterr().err.splitlines() if "failure: rank" in line]
    assert len(shown) == 1
    assert "raised UserCodeException: divided failed on row" in shown[0]
    assert "Coordinator.take" not in shown[0]
    for part in str(caught.value).split("\nRank ")[1:]:
        assert part.count("in take\n    raise self._error") <= 1


@pytest.mark.contract("F9.02")
@pytest.mark.heliostat_only("Ray has another text")
@pytest.mark.parametrize("where", ["function", "config"])
def test_what_cannot_be_sent_to_the_workers_is_named(
    fit: Any, where: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "lines")
    lock = threading.Lock()

    def loop(config: dict[str, Any]) -> None:
        if where == "function":
            lock.acquire()

    def plain(config: dict[str, Any]) -> None:
        pass

    with pytest.raises(ControllerError) as caught:
        if where == "function":
            fit(loop, 1, config={})
        else:
            fit(plain, 1, config={"a": {"guard": lock}})
    text = str(caught.value)
    begin = "`loop`" if where == "function" else "The train_loop_config of `plain`"
    path = "lock" if where == "function" else "a.guard"
    assert text.startswith(
        f"TypeError: {begin} cannot be sent to the workers, because {path} (<unlo"
    )
    assert "Job" not in text
    assert f"failure: {text}" in capfd.readouterr().err


@pytest.mark.contract("F9.09")
def test_a_process_that_a_library_aborts_says_where_it_was(fit: Any) -> None:
    """As NCCL's watchdog does, from a thread of its own, when a collective operation has timed out."""

    def waits_for_its_peers() -> None:
        if train.get_context().get_world_rank() == 1:
            threading.Thread(target=ctypes.CDLL(None).abort).start()
        time.sleep(3600)

    def loop() -> None:
        waits_for_its_peers()

    with pytest.raises(WorkerGroupError, match="SIGABRT") as caught:
        fit(loop, 2)
    assert "in waits_for_its_peers" in str(caught.value)


@pytest.mark.contract("F9.09", "F9.17")
def test_a_restart_begins_from_the_latest_checkpoint(fit: Any, tmp_path: Path) -> None:
    died = tmp_path / "died"

    def loop() -> list[int]:
        checkpoint = train.get_checkpoint()
        first = 0
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                first = json.loads(Path(folder, "step.json").read_text()) + 1
        steps = []
        for step in range(first, 6):
            steps.append(step)
            with tempfile.TemporaryDirectory() as folder:
                found = None
                if train.get_context().get_world_rank() == 0:
                    Path(folder, "step.json").write_text(json.dumps(step))
                    found = Checkpoint.from_directory(folder)
                train.report({"step": step}, checkpoint=found)
            if step == 3 and train.get_context().get_world_rank() == 1 and not died.exists():
                died.write_text("")
                os._exit(1)
        return steps

    result = fit(loop, 2, failure_config=FailureConfig(max_failures=1))
    # What `report` returned from is never repeated.
    assert result.return_value == [4, 5]
    assert result.metrics == {"step": 5}


@pytest.mark.contract("F9.09")
def test_max_failures_is_a_limit(fit: Any, tmp_path: Path) -> None:
    count = tmp_path / "count"

    def loop() -> None:
        with count.open("a") as file:
            file.write("x")
        raise RuntimeError("again")

    with pytest.raises(WorkerGroupError, match="again"):
        fit(loop, 1, failure_config=FailureConfig(max_failures=2))
    assert count.read_text() == "xxx"


@pytest.mark.heliostat_only("Ray starts all workers anew")
def test_only_the_dead_worker_is_replaced(fit: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    died = tmp_path / "died"

    def loop() -> list[int]:
        import torch
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(torch.nn.Linear(4, 1))
        pids: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(pids, os.getpid())
        with (tmp_path / "pids").open("a") as file:
            if dist.get_rank() == 0:
                file.write(json.dumps(pids) + "\n")
        for step in range(20):
            model(torch.ones(2, 4)).sum().backward()
            if dist.get_rank() == 1 and step == 5 and not died.exists():
                died.write_text("")
                os._exit(1)
        return pids

    fit(loop, 3, torch=True, failure_config=FailureConfig(max_failures=1))
    first, second = (json.loads(line) for line in (tmp_path / "pids").read_text().splitlines())
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, False, True]


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("Ray waits without an end")
def test_a_hung_rank_is_named_with_its_stack(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "1.5")
    monkeypatch.setenv("HELIOSTAT_TRAIN_UNWIND_S", "1")

    def loop() -> None:
        def stuck_here() -> None:
            time.sleep(3600)

        if train.get_context().get_world_rank() == 1:
            stuck_here()
        train.report({"a": 1})

    with pytest.raises(WorkerGroupError) as caught:
        fit(loop, 2)
    text = str(caught.value)
    assert "Rank 1 did not arrive at report() number 1" in text
    assert "stuck_here" in text


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("Ray waits without an end")
def test_looking_after_a_rank_that_never_reported_does_not_restart_its_time(
    fit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOSTAT_TRAIN_SOLO_REPORT_S", "0.5")
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "3")

    def loop() -> None:
        if train.get_context().get_world_rank() == 1:
            time.sleep(300)
        train.report({"a": 1})

    with pytest.raises(WorkerGroupError, match=r"did not arrive at report\(\) number 1 after 3 s"):
        fit(loop, 2)


@pytest.mark.heliostat_only("Ray waits without an end")
def test_a_hung_rank_counts_as_a_failure(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "1")
    hung = tmp_path / "hung"

    def loop() -> str:
        if train.get_context().get_world_rank() == 1 and not hung.exists():
            hung.write_text("")
            time.sleep(300)
        train.report({"a": 1})
        return "done"

    result = fit(loop, 2, failure_config=FailureConfig(max_failures=1))
    assert result.return_value == "done"


@pytest.mark.contract("F15.10", "F9.09")
def test_a_worker_that_hangs_as_a_whole_counts_as_dead(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S", "1.5")
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")
    tries = tmp_path / "tries"

    def loop() -> str:
        if train.get_context().get_world_rank() == 1:
            with tries.open("a") as file:
                file.write(f"{os.getpid()} ")
            if len(tries.read_text().split()) == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(3)  # longer than the limit: it is no limit for functions that take their time
        return "done"

    result = fit(loop, 2, failure_config=FailureConfig(max_failures=1))
    assert result.return_value == "done"
    first, _ = tries.read_text().split()
    wait_until(lambda: not Path(f"/proc/{first}").exists())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    options = ["-t", "tmpfs", "-o", "size=2m", "none", str(disk)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk to fill")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.mark.contract("F9.09", "F9.15")
@pytest.mark.heliostat_only("Ray forgets it")
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_full_disk(fit: Any, tmp_path: Path, small_disk: Path, restarts: int) -> None:
    """It counts as a failure; what was saved before stays whole, and the run goes on from there."""

    def loop(config: dict[str, Any]) -> list[int]:
        checkpoint, first = train.get_checkpoint(), 0
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                assert Path(folder, "model").stat().st_size == 600_000
                first = int(Path(folder, "step").read_text()) + 1
        with (tmp_path / "starts").open("a") as file:
            file.write(f"{first} ")
        for step in range(first, config["steps"]):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "model").write_bytes(bytes(600_000))
                Path(folder, "step").write_text(str(step))
                train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
        return list(range(first, config["steps"]))

    options = {"storage_path": str(small_disk)}
    with pytest.raises(WorkerGroupError, match="No space left on device") as caught:
        fit(
            loop,
            1,
            config={"steps": 9},
            failure_config=FailureConfig(max_failures=restarts),
            **options,
        )
    assert isinstance(caught.value.worker_failures[0], OSError)
    starts = (tmp_path / "starts").read_text().split()
    assert starts == ["0", *["3"] * restarts]
    run = small_disk / "run"
    assert len(list(run.glob("checkpoint_2*"))) == 3
    # With room again the same run goes on; nothing half done is in its way.
    for old in sorted(run.glob("checkpoint_2*"))[:2]:
        shutil.rmtree(old)
    result = fit(loop, 1, config={"steps": 5}, **options)
    assert result.return_value == [3, 4]
    assert [m["step"] for _, m in result.best_checkpoints] == [2, 3, 4]


@pytest.mark.contract("F9.02", "F9.10")
@pytest.mark.heliostat_only("Ray writes no page")
def test_a_disk_that_is_full_at_the_end(
    fit: Any, small_disk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """There is no page then, which is said; the result is there, and nothing is left half done."""
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "lines")

    def loop() -> str:
        train.report({"a": 1})
        with (small_disk / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return "full"

    result = fit(loop, 1, storage_path=str(small_disk))
    assert (result.return_value, result.metrics, result.page) == ("full", {"a": 1}, None)
    assert "the page of the run was not written: OSError(28" in capfd.readouterr().err
    assert not list((small_disk / "run").glob("*.tmp"))


@pytest.mark.heliostat_only("Ray says FileNotFoundError: [Errno 2]")
def test_a_checkpoint_folder_that_vanished(fit: Any, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")

    def loop() -> None:
        train.report({"a": 1}, checkpoint=Checkpoint.from_directory(gone))

    with pytest.raises(WorkerGroupError, match="does not exist"):
        fit(loop, 1)


@pytest.mark.contract("F9.15")
@pytest.mark.heliostat_only("Ray fails where it first uses what it was given")
def test_a_checkpoint_that_is_a_path(fit: Any) -> None:
    def loop() -> None:
        train.report({"loss": 1.0}, checkpoint="/tmp/model")

    with pytest.raises(WorkerGroupError, match=r"Checkpoint\.from_directory"):
        fit(loop)


@pytest.mark.contract("F9.10")
@pytest.mark.heliostat_only("Ray takes what is gone for the latest checkpoint")
def test_checkpoints_of_an_earlier_run_that_are_gone(
    fit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def loop() -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = train.get_checkpoint()
            old = int(Path(found.path, "n").read_text()) if found else 0
            Path(folder, "n").write_text(str(old + 1))
            train.report({"old": old}, checkpoint=train.Checkpoint.from_directory(folder))

    kept = fit(loop, 1).checkpoint.path
    assert fit(loop, 1).metrics == {"old": 1}
    latest = max(p for p in (tmp_path / "run").glob("checkpoint_2*"))
    shutil.rmtree(latest)
    assert fit(loop, 1).metrics == {"old": 1}
    assert f"are gone: {latest.name}. It goes on from {Path(kept).name}" in caplog.text


@pytest.mark.heliostat_only("Ray ends the run")
def test_a_lost_coordinator_is_replaced(fit: Any, tmp_path: Path) -> None:
    """The snapshot in the storage holds everything that a run needs to go on."""
    killed = tmp_path / "killed"

    def loop() -> int:
        checkpoint = train.get_checkpoint()
        first = 0
        if checkpoint is not None:
            with checkpoint.as_directory() as folder:
                first = int(Path(folder, "step").read_text()) + 1
        for step in range(first, 3):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "step").write_text(str(step))
                train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder))
            if step == 1 and not killed.exists():
                killed.write_text("")
                from heliostat.train import context

                ray.kill(context._session._coordinator)
                time.sleep(30)
        return first

    assert fit(loop, 1).return_value == 2


def fit_without(fit: Any, limit: int, says: str | None = None) -> None:
    """A run that loses its coordinator ends well without a limit for that, and with one says why it ends."""

    def loop() -> int:
        train.report({"a": 1})
        return 7

    failures = FailureConfig(controller_failure_limit=limit)
    if limit < 0:
        assert fit(loop, 2, failure_config=failures).return_value == 7
    else:
        with pytest.raises(ControllerError, match=says):
            fit(loop, 2, failure_config=failures)


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("the moment is one inside of the controller")
@pytest.mark.parametrize("limit", [-1, 0])
def test_a_coordinator_that_is_lost_as_an_attempt_begins(
    fit: Any, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """It is replaced, and counts against its own limit: no worker has failed."""
    from heliostat.train.controller.run import TrainRun

    begin, killed = TrainRun._run_group, []

    def begin_without(run: TrainRun, number: int, size: int) -> Any:
        if not killed:
            killed.append(number)
            ray.kill(run._coordinator)
        return begin(run, number, size)

    monkeypatch.setattr(TrainRun, "_run_group", begin_without)

    fit_without(fit, limit)


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("the moment is one inside of the controller")
@pytest.mark.parametrize("limit", [-1, 2])
def test_a_coordinator_that_is_lost_while_the_storage_is_away(
    fit: Any, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """The run waits for its storage, and each look counts against the limit of such failures."""
    from heliostat.train.controller import pauses, run

    begin, opens, away = run.TrainRun._run_group, run.open_run, []

    def begin_without(self: run.TrainRun, number: int, size: int) -> Any:
        if not away:
            ray.kill(self._coordinator)
        return begin(self, number, size)

    def open_later(storage: Any, config: RunConfig) -> Any:
        away.append(storage)
        if len(away) <= 2:
            raise ValueError("The disk is full.") from OSError(errno.ENOSPC, "full")
        return opens(storage, config)

    monkeypatch.setattr(run.TrainRun, "_run_group", begin_without)
    monkeypatch.setattr(run, "open_run", open_later)
    monkeypatch.setattr(pauses, "_FIRST_S", 0.01)

    fit_without(fit, limit, "The disk is full")
    if limit < 0:
        assert len(away) == 3


@pytest.mark.contract("F9.09")
@pytest.mark.heliostat_only("Ray begins again at once")
def test_a_function_that_fails_again_and_again_is_given_time(
    fit: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where storage is away, restarts without a pause are used up before it is back."""
    from heliostat.train.controller.run import TrainRun

    pauses: list[float] = []
    monkeypatch.setattr(TrainRun, "_pause", lambda run, seconds, why: pauses.append(seconds))

    def loop() -> None:
        tried = len(list(tmp_path.glob("try-*"))) + 1
        tmp_path.joinpath(f"try-{tried}").touch()
        if tried == 2:
            train.report({"a": 1})
        if tried < 6:
            raise OSError("the storage is away")

    fit(loop, 1, failure_config=FailureConfig(max_failures=-1))
    assert pauses == [0.0, 0.0, 1.0, 2.0]


@pytest.mark.contract("F9.02")
def test_threads_train_side_by_side_in_a_session_that_they_begin(
    run_driver: Any, tmp_path: Path
) -> None:
    script = f"""
import threading
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

found = {{}}

def go(n):
    def loop():
        train.report({{"n": n}})
    run = RunConfig(name=f"run-{{n}}", storage_path={str(tmp_path)!r})
    trainer = DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=1), run_config=run)
    found[n] = trainer.fit().metrics["n"]

threads = [threading.Thread(target=go, args=(n,)) for n in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(f"found={{sorted(found.items())}}")
"""
    assert run_driver(script).check().value("found") == "[(0, 0), (1, 1)]"


@pytest.mark.contract("F9.02")
def test_ctrl_c_ends_the_run(start_driver: Any, tmp_path: Path) -> None:
    started = tmp_path / "started"
    script = f"""
import pathlib
import time
import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

def loop():
    pathlib.Path({str(started)!r}).write_text("")
    time.sleep(100)

ray.init(num_cpus=2)
try:
    DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="x", storage_path={str(tmp_path)!r}),
    ).fit()
except KeyboardInterrupt:
    print("ended=by hand", flush=True)
"""
    driver = start_driver(script)
    wait_until(started.exists, what="the training function")
    os.kill(driver.pid, signal.SIGINT)
    assert driver.finish().value("ended") == "by hand"
