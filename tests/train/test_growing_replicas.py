"""Replica groups with ``num_workers=(min, max)``: they join and leave while the others train."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import train
from ray.cluster_utils import Cluster, ClusterNode
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from tests.helpers.harness import wait_until
from tests.helpers.shared import cluster as shared

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.replica")

from heliostat.train.torch import FaultTolerantConfig

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray needs torchft"),
]

# A deadline against a hang.
WITHIN_S = 120


class Seen:
    """How many groups took each step; a newcomer takes it with the state."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def state_dict(self) -> dict[str, Any]:
        return {"counts": self.counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.counts = list(state["counts"])

    @property
    def changes(self) -> list[int]:
        """The counts, each once in a row."""
        counts = self.counts
        return [n for i, n in enumerate(counts) if i == 0 or n != counts[i - 1]]


def loop_of_changes(config: dict[str, Any]) -> dict[str, Any]:
    """Trains until the number of groups has changed as ``config["changes"]`` says, on all ranks alike."""
    import torch

    folder, rank = Path(config["folder"]), train.get_context().get_world_rank()
    torch.manual_seed(rank)
    model, seen, told = torch.nn.Linear(4, 1), Seen(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = train.torch.fault_tolerant(model=model, optimizer=optimizer, seen=seen)
    train.on_world_size_change(lambda before, now: told.append([before, now]))
    for step in run.steps():
        loss = (model(torch.ones(2, 4)) - step - run.index).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.counts.append(run.count)
        (folder / f"count{run.count}").touch()
        train.report({"step": step, "count": run.count})
        if seen.changes == config["changes"]:
            break
    weights = model.weight.detach().double().sum().item()
    (folder / f"weights{rank}").write_text(str(weights))
    return {"counts": seen.counts, "told": told, "weights": weights}


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``growing((min, max), changes, beside, **FaultTolerantConfig options)``; ``beside()`` in a thread."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def growing(
        workers: tuple[int, int],
        changes: list[int],
        beside: Callable[[], None],
        loop: Callable[..., Any] = loop_of_changes,
        failures: int = 0,
        **options: Any,
    ) -> Any:
        thread = threading.Thread(target=beside)
        thread.start()
        try:
            return TorchTrainer(
                loop,
                train_loop_config={"folder": str(tmp_path), "changes": changes},
                torch_config=FaultTolerantConfig(**options),
                scaling_config=ScalingConfig(num_workers=workers),
                run_config=RunConfig(
                    name="run",
                    storage_path=str(tmp_path),
                    failure_config=FailureConfig(max_failures=failures),
                ),
            ).fit()
        finally:
            thread.join()

    return growing


def page_of(result: Any) -> str:
    return (Path(result.path) / "run.html").read_text()


def weights_of(folder: Path) -> set[float]:
    """The sums of the weights with which the ranks have ended."""
    return {round(float(path.read_text()), 9) for path in folder.glob("weights*")}


class Other:
    """Takes room."""

    def is_there(self) -> bool:
        return True


def taking(cpus: int) -> Any:
    """An actor that holds so many CPUs."""
    other = ray.remote(Other).options(num_cpus=cpus).remote()
    assert ray.get(other.is_there.remote())
    return other


@pytest.mark.contract("F9.24")
def test_a_group_joins_within_the_run_when_there_is_room(
    ray_start: Any, growing: Any, tmp_path: Path
) -> None:
    """No attempt ends for it: who was there takes every step, and the newcomers have their state."""
    other = taking(2)

    def make_room() -> None:
        wait_until((tmp_path / "count2").exists, within=WITHIN_S, what="steps of two groups")
        ray.kill(other)

    result = growing((1, 3), [2, 3], make_room)
    counts = result.return_value["counts"]
    assert result.metrics == {"step": len(counts) - 1, "count": 3}
    assert result.return_value["told"] == [[2, 3]]
    assert len(list(tmp_path.glob("weights*"))) == 3
    assert len(weights_of(tmp_path)) == 1
    page = page_of(result)
    assert "replica group 2 joins from step" in page
    assert "the group grows after its next" not in page


@pytest.mark.contract("F9.24")
def test_a_group_of_several_workers_joins_as_a_whole(
    ray_start: Any, growing: Any, tmp_path: Path
) -> None:
    """Three of four CPUs are free: one group of two trains, and the second comes with the fourth.

    Until then nothing is held for it: others may have the third.
    """
    other = taking(1)

    def loop(config: dict[str, Any]) -> dict[str, Any]:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        folder, seen = Path(config["folder"]), Seen()
        model = torch.nn.Linear(4, 2)
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        run = train.torch.fault_tolerant(model=model, optimizer=optimizer, seen=seen)
        for _ in run.steps():
            optimizer.zero_grad()
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
            seen.counts.append(run.count)
            (folder / f"count{run.count}").touch()
            if seen.changes == config["changes"]:
                break
        weights = model.weight.full_tensor().double().sum().item()  # type: ignore[attr-defined]
        rank = train.get_context().get_world_rank()
        (folder / f"weights{rank}").write_text(str(weights))
        return {"size": dist.get_world_size()}

    def make_room() -> None:
        wait_until((tmp_path / "count1").exists, within=WITHIN_S, what="steps of one group")
        another = taking(1)
        ray.kill(other)
        ray.kill(another)

    result = growing((2, 4), [1, 2], make_room, loop, workers_per_replica=2)
    assert result.return_value == {"size": 2}
    assert len(list(tmp_path.glob("weights*"))) == 4
    assert len(weights_of(tmp_path)) == 1


@pytest.mark.contract("F9.24")
def test_a_group_is_not_begun_in_half_when_its_room_went_to_somebody_else(
    ray_start: Any, growing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job takes one of four CPUs after the controller has counted them."""
    from heliostat.train.controller import sizes

    others: list[Any] = []
    look = sizes.room_now

    def late(wanted: dict[str, float]) -> int:
        seen = look(wanted)
        if not others and seen >= 4:
            others.append(taking(1))
        return seen

    monkeypatch.setattr(sizes, "room_now", late)

    def loop(config: dict[str, Any]) -> int:
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        model = torch.nn.Linear(4, 2)
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        run = train.torch.fault_tolerant(model=model)
        for _ in run.steps(3):
            model(torch.ones(2, 4)).square().mean().backward()
        return train.get_context().get_world_size()

    result = growing((2, 4), [], lambda: None, loop, workers_per_replica=2)
    assert len(others) == 1
    assert result.return_value == 2


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    """A cluster whose nodes stay for the next test: each imports torch for its first worker."""
    shared.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        cluster.connect()
        yield cluster
        ray.shutdown()
        cluster.shutdown()


def only_node(cluster: Cluster) -> ClusterNode:
    """The one node beside the head, where the test before has left it."""
    if not cluster.worker_nodes:
        cluster.add_node(num_cpus=1)
    (node,) = cluster.worker_nodes
    return node


@pytest.mark.contract("F9.24", "F9.09")
def test_a_run_shrinks_with_a_node_and_grows_with_another(
    nodes: Cluster, growing: Any, tmp_path: Path
) -> None:
    node = only_node(nodes)

    def take_and_give() -> None:
        wait_until((tmp_path / "count2").exists, within=WITHIN_S, what="steps of two groups")
        nodes.remove_node(node, allow_graceful=False)
        wait_until((tmp_path / "count1").exists, within=WITHIN_S, what="steps of one group")
        nodes.add_node(num_cpus=1)

    result = growing((1, 2), [2, 1, 2], take_and_give, failures=1)
    counts = result.return_value["counts"]
    # Rank 0 was there all the time, and took each step once.
    assert result.metrics["step"] == len(counts) - 1
    assert result.return_value["told"] == [[2, 1], [1, 2]]
    assert len(weights_of(tmp_path)) == 1


@pytest.mark.contract("F9.24", "F9.09")
def test_the_end_does_not_wait_for_a_group_that_has_no_room(
    nodes: Cluster, growing: Any, tmp_path: Path
) -> None:
    node = only_node(nodes)

    def take() -> None:
        wait_until((tmp_path / "count2").exists, within=WITHIN_S, what="steps of two groups")
        nodes.remove_node(node, allow_graceful=False)

    result = growing((1, 2), [2, 1], take, failures=1)
    assert result.return_value["counts"][-1] == 1
    assert "being replaced" in page_of(result)


# ---- what is refused ----


def test_sizes_and_data_that_cannot_grow_are_refused() -> None:
    def trainer(workers: Any, datasets: Any = None, **options: Any) -> TorchTrainer:
        return TorchTrainer(
            lambda: None,
            torch_config=FaultTolerantConfig(**options),
            scaling_config=ScalingConfig(num_workers=workers),
            datasets=datasets,
        )

    with pytest.raises(ValueError, match=r"multiple of 2, such as \(2, 4\)"):
        trainer((2, 5), workers_per_replica=2)
    with pytest.raises(ValueError, match="makes 1 replica groups of 2, fewer than min_replicas=2"):
        trainer((2, 8), workers_per_replica=2, min_replicas=2)
    with pytest.raises(ValueError, match=r"datasets with FaultTolerantConfig and num_workers=\(1"):
        trainer((1, 4), {"train": lambda: None})
