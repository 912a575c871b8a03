"""Collective operations that wait for a rank which does not come."""

from __future__ import annotations

import html
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchConfig, TorchTrainer

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.replica")

from heliostat.train.torch import FaultTolerantConfig

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray gives the error of the library, of one rank"),
]


def test_a_collective_that_times_out_names_who_is_missing(fit: Any) -> None:
    def loop() -> None:
        import torch
        import torch.distributed as dist

        def stuck_here() -> None:
            time.sleep(3600)

        def waits_here() -> None:
            dist.all_reduce(torch.ones(1))

        if train.get_context().get_world_rank() == 1:
            stuck_here()
        waits_here()

    with pytest.raises(WorkerGroupError) as caught:
        fit(loop, 3, torch=True, trainer={"torch_config": TorchConfig(timeout_s=3)})
    text = str(caught.value)
    assert "Rank 1 did not join a collective operation within 3 s" in text
    assert "ranks 0, 2 wait there" in text
    assert "stuck_here" in text
    assert text.count("waits_here") >= 2


def test_a_rank_that_hangs_is_replaced_while_the_others_train(
    ray_start: Any, tmp_path: Path
) -> None:
    def loop(config: dict[str, Any]) -> int:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        rank = train.get_context().get_world_rank()
        for step in run.steps(10):
            hung = tmp_path / "hung"
            if rank == 2 and step == 3 and not hung.exists():
                hung.write_text("")
                time.sleep(3600)
            model(torch.ones(2, 4)).sum().backward()
        return run.step

    result = TorchTrainer(
        loop,
        train_loop_config={},
        torch_config=FaultTolerantConfig(timeout_s=3),
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(
            name="run", storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=2)
        ),
    ).fit()
    assert result.return_value == 10


def again(fit: Any, tmp_path: Path, stick: Any, **options: Any) -> tuple[Any, str]:
    """A run of two ranks, of which rank 1 hangs once before its fourth step; what its page says."""
    once = tmp_path / "once"

    def loop() -> int:
        import torch
        from ray.train.torch import prepare_model
        from torch.utils.data import DataLoader, Dataset

        rank = train.get_context().get_world_rank()

        class Rows(Dataset[Any]):
            def __len__(self) -> int:
                return 32

            def __getitem__(self, index: int) -> Any:
                if stick == "loader" and rank == 1 and index > 12 and not once.exists():
                    once.write_text("")
                    time.sleep(3600)
                return torch.ones(4)

        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = train.torch.resumable(model=model, optimizer=optimizer)
        wrapped = prepare_model(model)
        with (tmp_path / f"began-{rank}").open("a") as file:
            file.write(f"{run.step} ")
        loader = DataLoader(Rows(), batch_size=2, num_workers=1 if stick == "loader" else 0)
        for batch in run.batches(loader):
            if run.step == 3 and rank == 1 and stick != "loader" and not once.exists():
                once.write_text("")
                while not list((tmp_path / "run").glob("checkpoint_2*")):  # it is stored beside
                    time.sleep(0.02)
                stick()
            optimizer.zero_grad()
            wrapped(batch).sum().backward()
            optimizer.step()
            if run.step == 1:
                run.report({"step": run.step})
        return run.step

    result = fit(
        loop,
        2,
        torch=True,
        trainer={"torch_config": TorchConfig(timeout_s=5)},
        failure_config=FailureConfig(max_failures=1),
        **options,
    )
    assert result.return_value == 8
    return result, html.unescape(Path(result.page).read_text())


def holds_the_lock() -> None:
    """In C, for ever: no other thread of the process runs any more."""
    re.match(r"(a+)+b", "a" * 64)


def stops() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_rank_that_holds_the_interpreters_lock_shows_its_stack(fit: Any, tmp_path: Path) -> None:
    _, page = again(fit, tmp_path, holds_the_lock)
    assert "Rank 1 did not join a collective operation" in page
    found = page.partition("What rank 1 is doing:")[2].partition("What rank 0 is doing:")[0]
    assert "in holds_the_lock" in found
    assert "in match" in found
    assert "in loop" in found.partition("in holds_the_lock")[0], "the innermost call last"
    # It went on behind its checkpoint.
    assert (tmp_path / "began-0").read_text() == "0 2 "


def test_a_rank_that_is_stopped_is_called_so(fit: Any, tmp_path: Path) -> None:
    _, page = again(fit, tmp_path, stops)
    found = page.partition("What rank 1 is doing:")[2].partition("What rank 0 is doing:")[0]
    assert re.search(r"it is stopped \(SIGSTOP, .*; `kill -CONT \d+` lets it go on\)", found)


def test_the_process_of_a_data_loader_that_hangs_shows_its_stack(fit: Any, tmp_path: Path) -> None:
    _, page = again(fit, tmp_path, "loader")
    found = page.partition("What rank 1 is doing:")[2].partition("What rank 0 is doing:")[0]
    own, _, its = found.partition("What its process ")
    assert "in _get_data" in own
    assert "in __getitem__" in its


def test_missing_ranks_are_named_long_before_the_time_is_over(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collective goes on once they come: nothing has failed."""
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_WARN_INTERVAL_S", "1")
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")
    named = tmp_path / "named"

    def loop() -> str:
        import torch
        import torch.distributed as dist

        def late_here() -> None:
            while not named.exists():
                time.sleep(0.1)

        if train.get_context().get_world_rank() == 1:
            late_here()
        dist.all_reduce(torch.ones(1))
        return "done"

    from heliostat.train.controller.run import TrainRun

    note = TrainRun._note

    def heard(run: TrainRun, text: str) -> None:
        note(run, text)
        if "has not joined a collective operation in which ranks 0, 2 wait" in text:
            named.write_text(text)

    monkeypatch.setattr(TrainRun, "_note", heard)
    assert fit(loop, 3, torch=True).return_value == "done"
    assert "late_here" in named.read_text()
    assert named.read_text().startswith("Rank 1 has not joined")


@pytest.mark.parametrize("waits", ["in python", "in a collective"])
def test_a_rank_that_does_not_return_though_the_others_have_is_named(
    fit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    """The end of a run hangs: who is the last, and where, is said again and again; it may come after all."""
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_WARN_INTERVAL_S", "1")
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")
    named = tmp_path / "named"

    def loop() -> int:
        import torch
        import torch.distributed as dist

        def last_here() -> None:
            if waits == "in a collective":
                dist.all_reduce(torch.ones(1))  # which the others have not called
            while not named.exists():
                time.sleep(0.1)

        rank = train.get_context().get_world_rank()
        train.report({"rank": rank})
        if rank == 1:
            last_here()
        return rank

    from heliostat.train.controller.run import TrainRun

    note = TrainRun._note

    def heard(run: TrainRun, text: str) -> None:
        note(run, text)
        first = not named.exists()  # a later one may find the rank on its way out
        if first and "which ranks 0, 2 left at least 1 s ago" in text:
            named.write_text(text)

    monkeypatch.setattr(TrainRun, "_note", heard)
    torch = {"torch_config": TorchConfig(timeout_s=20)}
    if waits == "in python":
        assert fit(loop, 3, torch=True, trainer=torch).return_value == 0
    else:
        with pytest.raises(WorkerGroupError):
            fit(loop, 3, torch=True, trainer=torch)
    assert named.read_text().startswith("Rank 1 has not returned from the training function")
    assert "last_here" in named.read_text()
