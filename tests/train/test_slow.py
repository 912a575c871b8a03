"""A rank that is slower than the others: it is named, and replaced where that is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import train
from ray.cluster_utils import Cluster
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.replica")

from heliostat.train.torch import FaultTolerantConfig

pytestmark = [
    pytest.mark.heliostat_only("Ray does not look at the times of steps"),
]
OPTION = FailureConfig(slow_rank_factor=2, slow_rank_after_s=1)


@pytest.fixture(autouse=True)
def beats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers tell of their steps often."""
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.3")


def test_the_slowest_rank_is_named(
    fit: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A plain training function: nothing in it is made for that."""
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "lines")

    def loop() -> None:
        import torch
        from ray.train.torch import prepare_data_loader, prepare_model

        rank = train.get_context().get_world_rank()

        class Rows(torch.utils.data.Dataset[Any]):
            def __len__(self) -> int:
                return 48

            def __getitem__(self, index: int) -> Any:
                time.sleep(0.15 if rank == 1 else 0)
                return torch.ones(4)

        model = prepare_model(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for batch in prepare_data_loader(torch.utils.data.DataLoader(Rows(), batch_size=2)):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
        train.report({"a": 1})

    result = fit(loop, 3, torch=True)
    said = "rank 1 takes "
    shown = capfd.readouterr().err
    assert f"steps: {said}" in shown, shown
    assert "of its own for a step (most of it data, " in shown
    page = Path(result.page).read_text()
    assert page.count('class="phase"') >= 3
    assert f"R{said[1:]}" in page


@pytest.mark.usefixtures("quiet")
def test_waiting_for_a_dataset_is_seen_without_torch(fit: Any) -> None:
    import ray

    def slow(row: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.05)
        return row

    def loop() -> None:
        for batch in train.get_dataset_shard("train").iter_batches(
            batch_size=2, prefetch_batches=0
        ):
            train.report({"rows": len(batch["id"])})

    result = fit(loop, 1, trainer={"datasets": {"train": ray.data.range(16).map(slow)}})
    page = Path(result.page).read_text()
    assert "rank 0, data: " in page
    assert "rank 0, communication: " in page, "for the report"


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("reports", [True, False], ids=["reports", "saves-when-asked"])
def test_a_slow_rank_is_replaced_behind_the_next_checkpoint(
    fit: Any, tmp_path: Path, reports: bool
) -> None:
    """It costs no step, and counts as no failure."""

    def loop(config: dict[str, Any]) -> int:
        import torch

        rank, slow = train.get_context().get_world_rank(), tmp_path / "slow"
        is_slow = rank == 1 and not slow.exists()
        if is_slow:
            slow.write_text("")
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = train.torch.resumable(model=model, optimizer=optimizer)
        model = train.torch.prepare_model(model)
        with (tmp_path / f"rank-{rank}").open("a") as file:
            file.write(f"{os.getpid()} {run.step}\n")
        for _ in run.steps():
            time.sleep(0.3 if is_slow else 0)
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            # Until somebody has been replaced; then all know it by where they began.
            if run.step % 10 == 9 and config["reports"]:
                run.report({"step": run.step})
            if run.restored_from and run.step >= 200:
                break
        return run.step

    result = fit(loop, 3, torch=True, config={"reports": reports}, failure_config=OPTION)
    assert result.return_value >= 200
    starts = [
        [line.split() for line in (tmp_path / f"rank-{rank}").read_text().splitlines()]
        for rank in range(3)
    ]
    first, second = ({rows[n][1] for rows in starts} for n in (0, 1))
    assert first == {"0"}
    assert len(second) == 1, "all begin at the same step"
    assert int(second.pop()) > 0, "behind a checkpoint"
    assert starts[1][0][0] != starts[1][1][0], "another process"
    assert starts[0][0][0] == starts[0][1][0], "the same process"
    assert "slow rank" in repr(result)


@pytest.mark.usefixtures("quiet")
def test_what_a_rank_raises_as_all_are_told_to_end_is_no_failure(fit: Any, tmp_path: Path) -> None:
    """Such as that a peer, which has ended, is gone."""

    def loop() -> bool:
        rank, slow = train.get_context().get_world_rank(), tmp_path / "slow"
        if train.get_checkpoint() is not None and slow.exists():
            return True
        while True:
            time.sleep(0.3 if rank == 1 else 0)
            folder = tmp_path / f"from-{rank}"
            folder.mkdir(exist_ok=True)
            try:
                train.report({"a": 1}, checkpoint=train.Checkpoint.from_directory(folder))
            except BaseException as error:
                slow.write_text("")
                if rank == 2:
                    raise RuntimeError("the connection was closed by a peer") from error
                time.sleep(1)  # so that this one ends first
                raise

    assert fit(loop, 3, failure_config=OPTION).return_value is True


@pytest.mark.usefixtures("quiet")
def test_a_slow_rank_is_replaced_while_the_other_groups_go_on(
    ray_start: Any, tmp_path: Path
) -> None:
    def loop(config: dict[str, Any]) -> int:
        import torch

        rank, slow = train.get_context().get_world_rank(), tmp_path / "slow"
        is_slow = rank == 2 and not slow.exists()
        if is_slow:
            slow.write_text(str(os.getpid()))
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        run = train.torch.fault_tolerant(model=model, optimizer=optimizer)
        for _ in run.steps(200):
            time.sleep(0.3 if is_slow else 0.01)
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        with (tmp_path / f"rank-{rank}").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return run.step

    result = TorchTrainer(
        loop,
        train_loop_config={},
        torch_config=FaultTolerantConfig(),
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name="run", storage_path=str(tmp_path), failure_config=OPTION),
    ).fit()
    assert result.return_value == 200
    assert "slow rank" in repr(result)
    (ended,) = (tmp_path / "rank-2").read_text().split()
    assert ended != (tmp_path / "slow").read_text(), "another process"


@pytest.fixture
def spare_node(ray_down: None) -> Iterator[Cluster]:
    """A node for three workers, and one with room for another."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 3})
    cluster.add_node(num_cpus=1)
    cluster.connect()
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def loop_with_a_slow_machine(config: dict[str, Any]) -> None:
    """Rank 2 is slow on the first node that it is on."""
    import torch

    folder, rank = Path(config["folder"]), train.get_context().get_world_rank()
    here = ray.get_runtime_context().get_node_id()
    (folder / f"{rank}-on-{here}").touch()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if config["groups"]:
        run: Any = train.torch.fault_tolerant(model=model, optimizer=optimizer)
    else:
        run = train.torch.resumable(model=model, optimizer=optimizer)
        model = train.torch.prepare_model(model)
    is_slow = rank == 2 and len(list(folder.glob("2-on-*"))) == 1
    # Replica groups that are being replaced are waited for at the end.
    for step in run.steps(200 if config["groups"] else None):
        time.sleep(0.3 if is_slow else 0.01)
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if not config["groups"] and step >= 60 and run.restored_from:
            break


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("groups", "workers"),
    [(True, 3), (False, 3), (False, (2, 3))],
    ids=["replica-groups", "plain", "elastic"],
)
def test_who_takes_the_place_of_a_slow_rank_begins_on_another_node(
    spare_node: Cluster, tmp_path: Path, groups: bool, workers: int | tuple[int, int]
) -> None:
    """Its machine may be what is slow."""
    TorchTrainer(
        loop_with_a_slow_machine,
        train_loop_config={"folder": str(tmp_path), "groups": groups},
        torch_config=FaultTolerantConfig() if groups else None,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name="run", storage_path=str(tmp_path / "store"), failure_config=OPTION
        ),
    ).fit()
    on = {rank: len(list(tmp_path.glob(f"{rank}-on-*"))) for rank in range(3)}
    assert on == {0: 1, 1: 1, 2: 2}
