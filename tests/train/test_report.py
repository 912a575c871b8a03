"""`report`: the barrier, what it accepts, and what arrives in the result."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import Checkpoint, WorkerGroupError

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.contract("F9.15")
def test_report_waits_for_all_ranks(fit: Any, tmp_path: Path) -> None:
    late = tmp_path / "late"

    def loop() -> bool:
        if train.get_context().get_world_rank() == 1:
            time.sleep(1.0)
            late.touch()
        train.report({"a": 1})
        return late.exists()

    assert fit(loop, 2).return_value


@pytest.mark.contract("F9.15")
@pytest.mark.heliostat_only("metrics without a checkpoint are lost on Ray")
def test_metrics_without_a_checkpoint(fit: Any) -> None:
    def loop() -> None:
        for epoch in range(3):
            train.report({"loss": 1.0 / (epoch + 1), "epoch": epoch})

    result = fit(loop, 2)
    assert result.metrics == {"loss": 1 / 3, "epoch": 2}
    assert result.checkpoint is None
    assert result.best_checkpoints == []
    assert list(result.metrics_dataframe[["epoch", "loss"]].tail(2)["epoch"]) == [1, 2]
    with pytest.raises(KeyError):
        result.metrics_dataframe[["accuracy"]]


@pytest.mark.contract("F9.15", "F9.05")
def test_with_checkpoints_the_frame_has_a_row_for_each(fit: Any) -> None:
    def loop() -> None:
        for epoch in range(3):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "epoch").write_text(str(epoch))
                train.report({"epoch": epoch}, checkpoint=Checkpoint.from_directory(folder))

    result = fit(loop, 2)
    assert result.metrics == {"epoch": 2}
    assert list(result.metrics_dataframe["epoch"]) == [0, 1, 2]
    assert [m["epoch"] for _, m in result.best_checkpoints] == [0, 1, 2]


@pytest.mark.contract("F9.15")
@pytest.mark.heliostat_only("Ray hangs")
def test_report_on_rank_0_only(fit: Any) -> None:
    def loop() -> None:
        if train.get_context().get_world_rank() == 0:
            for epoch in range(3):
                with tempfile.TemporaryDirectory() as folder:
                    Path(folder, "epoch").write_text(str(epoch))
                    train.report({"loss": 0.0}, checkpoint=Checkpoint.from_directory(folder))

    result = fit(loop, 3)
    assert result.metrics == {"loss": 0.0}
    assert len(result.best_checkpoints) == 3


@pytest.mark.contract("F9.15")
@pytest.mark.heliostat_only("Ray hangs")
def test_report_on_rank_0_only_inside_a_distributed_loop(
    fit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other ranks wait in an all-reduce for the rank that waits in `report` for them."""
    pytest.importorskip("torch")
    monkeypatch.setenv("HELIOSTAT_TRAIN_SOLO_REPORT_S", "0.5")

    def loop() -> int:
        import torch
        import torch.distributed as dist

        for epoch in range(3):
            dist.all_reduce(torch.ones(1))
            if dist.get_rank() == 0:
                train.report({"epoch": epoch})
        return epoch

    result = fit(loop, 2, torch=True)
    assert result.return_value == 2
    assert result.metrics == {"epoch": 2}


@pytest.mark.contract("F9.15")
def test_tensors_are_refused(fit: Any) -> None:
    pytest.importorskip("torch")

    def loop() -> None:
        import torch

        train.report({"loss": torch.tensor(1.0)})

    with pytest.raises(WorkerGroupError) as caught:
        fit(loop, 1)
    assert isinstance(caught.value.worker_failures[0], ValueError)


@pytest.mark.contract("F9.15", "F9.16", "F9.17")
def test_outside_of_a_training_function() -> None:
    with pytest.raises(RuntimeError):
        train.report({"a": 1})
    with pytest.raises(RuntimeError, match="cannot be used outside"):
        train.get_context()


@pytest.mark.heliostat_only("numpy values break Ray's snapshot")
def test_numpy_values_become_numbers(fit: Any) -> None:
    np = pytest.importorskip("numpy")

    def loop() -> None:
        train.report({"loss": np.float32(0.5), "hist": np.arange(3), "n": {"a": np.float64(2)}})

    metrics = fit(loop, 1).metrics
    assert metrics == {"loss": 0.5, "hist": [0, 1, 2], "n": {"a": 2}}
    assert type(metrics["n"]["a"]) is float  # though numpy's is a float, too


@pytest.mark.heliostat_only("Ray accepts what it cannot store")
def test_metrics_that_cannot_be_stored(fit: Any) -> None:
    def loop() -> None:
        train.report({"model": {"weights": object()}})

    with pytest.raises(WorkerGroupError, match="'model/weights' is of type object"):
        fit(loop, 1)


@pytest.mark.contract("F9.14")
@pytest.mark.heliostat_only("on Ray that runs the first generation of Train")
def test_the_keys_of_the_first_generation(fit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TRAIN_V2_ENABLED", "0")

    def loop(config: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            train.report({"loss": 0.5}, checkpoint=Checkpoint.from_directory(folder))

    metrics = fit(loop, 2, config={"lr": 0.1}).metrics
    assert set(metrics) == {
        "loss", "timestamp", "checkpoint_dir_name", "should_checkpoint", "done",
        "training_iteration", "trial_id", "date", "time_this_iter_s", "time_total_s", "pid",
        "hostname", "node_ip", "config", "time_since_restore", "iterations_since_restore",
    }  # fmt: skip
    assert metrics["checkpoint_dir_name"] == "checkpoint_000000"
    assert metrics["config"] == {"train_loop_config": {"lr": 0.1}}
    assert (metrics["training_iteration"], metrics["done"]) == (1, False)


@pytest.mark.contract("F9.21")
def test_barrier_and_broadcast(fit: Any) -> None:
    def loop() -> str:
        from ray.train.collective import barrier, broadcast_from_rank_zero

        rank = train.get_context().get_world_rank()
        got = broadcast_from_rank_zero(f"from {rank}")
        barrier()
        assert got == "from 0"
        return got

    assert fit(loop, 3).return_value == "from 0"


@pytest.mark.heliostat_only("Ray waits without an end")
def test_ranks_that_wait_for_each_other_in_different_calls(fit: Any) -> None:
    def loop() -> None:
        from ray.train.collective import barrier

        if train.get_context().get_world_rank() == 0:
            train.report({"a": 1})
        else:
            barrier()

    with pytest.raises(WorkerGroupError, match=r"rank 0 in report\(\); rank 1 in collective"):
        fit(loop, 2)


def uneven(config: dict[str, Any]) -> None:
    """Rank 1 reports once more, in the middle or at the end, with files where ``config`` says so."""
    rank = train.get_context().get_world_rank()
    for step in range(4):
        again = rank == 1 and step == config["again"]
        for _ in range(2 if again else 1):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, f"of-{rank}").write_text(str(step))
                saved = Checkpoint.from_directory(folder) if config["saves"] else None
                train.report({"step": step, "rank": rank}, checkpoint=saved)


@pytest.mark.contract("F9.08", "F9.15")
@pytest.mark.heliostat_only("Ray says nothing, or waits for the report that does not come")
@pytest.mark.parametrize(
    ("again", "saves", "says"),
    [
        (
            1,
            True,
            "One checkpoint has files of different steps: rank 1 of step 1, rank 0 of step 2.",
        ),
        (1, False, "Rank 1 reported more often than rank 0, which has returned."),
        (3, True, "Rank 1 reported more often than rank 0, which has returned."),
        (None, True, ""),
    ],
)
def test_ranks_that_report_differently_often_are_told_so(
    fit: Any, again: int | None, saves: bool, says: str
) -> None:
    """Reports are matched by their number; nothing is lost, and the run comes to its end."""
    result = fit(uneven, config={"again": again, "saves": saves})
    page = Path(result.page).read_text()
    assert page.count("call report() equally often") == bool(says)
    assert says in page
    assert (result.metrics["step"], len(result.best_checkpoints)) == (
        3,
        (4 + (again is not None)) * saves,
    )
