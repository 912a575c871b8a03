"""State in peers' memory: what a restart takes from where, whoever died."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from heliostat.train.memory.versions import Part, Progress, Version, latest_whole
from ray import train
from ray.cluster_utils import Cluster
from ray.train import CheckpointConfig, FailureConfig, Result, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

from tests.helpers.harness import wait_until

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.resume")


pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray keeps no state in memory"),
]


def test_only_a_whole_version_is_offered() -> None:
    """Whatever parts are lost: what is offered has all ranks, and nothing later has."""
    for seed in range(200):
        chance = random.Random(seed)
        sizes = {Version(step, step // 3): chance.randint(1, 4) for step in range(6)}
        parts = [
            Part(version, rank, size, f"node{keeper}", b"", [])
            for version, size in sizes.items()
            for rank in range(size)
            for keeper in (rank % 2, (rank + 1) % 2)
            if chance.random() < 0.7
        ]
        chance.shuffle(parts)
        offer = latest_whole(parts)
        whole = [
            version
            for version, size in sizes.items()
            if {p.rank for p in parts if p.version == version} == set(range(size))
        ]
        if not whole:
            assert offer is None
            continue
        assert offer is not None
        assert offer.version == max(whole)
        assert sum(map(len, offer.parts.values())) == sum(p.version == offer.version for p in parts)


def test_ranks_that_are_ahead_do_not_count_for_the_others() -> None:
    progress = Progress()
    first, second = Version(10, 0), Version(20, 0)
    assert progress.kept(first, 0, 2) is None
    assert progress.kept(second, 0, 2) is None
    assert progress.kept(first, 1, 2) == first
    assert progress.kept(second, 1, 2) == second
    assert progress.kept(Version(15, 0), 0, 2) == second


def loop(config: dict[str, Any]) -> list[Any]:
    """Steps with a state that says how it came about; waits at a step for the test to kill somebody."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    context = train.get_context()
    rank, size, folder = context.get_world_rank(), context.get_world_size(), config["folder"]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Linear(7, 1))
    if config["kind"] == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
    elif size > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    run = train.torch.resumable(model=model, optimizer=optimizer)
    begun = [run.step, run.restored_from, size]
    losses = []
    for step in run.steps(config["until"]):
        loss = model(torch.ones(2, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step == 3:
            run.report({"step": step})
        if step == config["waits"] and not Path(folder, "killed").exists():
            run._giver.wait()  # as a step that takes its time
            Path(folder, f"pid{rank}").write_text(str(os.getpid()))
            threading.Event().wait(120)
    return [begun, losses]


def losses_of(steps: int) -> list[float]:
    """What one process sees."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Linear(7, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        loss = model(torch.ones(2, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture(scope="module")
def nodes(cluster_with_torch: Cluster) -> Cluster:
    """A head with the driver; each new node for workers imports torch."""
    return cluster_with_torch


def keepers() -> dict[str, int]:
    """Process ids of the living keepers, by node."""
    from ray.util.state import list_actors

    found = list_actors(filters=[("state", "=", "ALIVE")], detail=True)
    return {a.node_id: a.pid for a in found if a.class_name == "Keeper"}


@pytest.mark.contract("F9.09")
@pytest.mark.parametrize(
    ("kind", "victims", "workers", "wanted"),
    [
        ("ddp", "worker", 2, [8, "memory", 2]),
        ("fsdp", "keeper", 2, [8, "memory", 2]),
        ("fsdp", "keepers", 2, [4, "storage", 2]),
        ("fsdp", "node", (1, 2), [8, "memory", 1]),
        ("fsdp", "node and keeper", (1, 2), [4, "storage", 1]),
    ],
)
def test_where_the_state_comes_from(
    nodes: Cluster, tmp_path: Path, kind: str, victims: str, workers: Any, wanted: list[Any]
) -> None:
    """kill -9 of workers, of a node, of those who hold the copies; from storage only if all are gone."""
    while len(nodes.worker_nodes) < 2:
        nodes.add_node(num_cpus=1)
    machines = list(nodes.worker_nodes)
    wait_until(lambda: not keepers(), what="the end of the keepers of the run before")

    def kill() -> None:
        wait_until(
            lambda: all((tmp_path / f"pid{r}").exists() for r in range(2)),
            what="workers",
        )
        places = keepers()
        assert len(places) == 2
        (tmp_path / "killed").write_text("")
        pids = [int((tmp_path / f"pid{r}").read_text()) for r in range(2)]
        lost = machines[1].node_id
        if "keepers" in victims:
            for pid in places.values():
                os.kill(pid, signal.SIGKILL)
        elif victims == "keeper":
            os.kill(places[lost], signal.SIGKILL)
        elif "and keeper" in victims:
            os.kill(next(p for n, p in places.items() if n != lost), signal.SIGKILL)
        if "node" in victims:
            nodes.remove_node(machines[1], allow_graceful=False)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        result: Result = TorchTrainer(
            loop,
            train_loop_config={"folder": str(tmp_path), "kind": kind, "waits": 8, "until": 12},
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(
                name="run",
                storage_path=str(tmp_path),
                failure_config=FailureConfig(max_failures=2),
                checkpoint_config=CheckpointConfig(memory_every_n_steps=2),
            ),
        ).fit()
    finally:
        killer.join()
    begun, losses = result.return_value
    assert begun == wanted
    assert losses == pytest.approx(losses_of(12)[begun[0] :], rel=1e-4)


def test_workers_have_imported_what_takes_the_state_back(nodes: Cluster, tmp_path: Path) -> None:
    """They do so while they start, so that a restart takes the state back at once."""

    def loop() -> bool:
        import sys

        return "heliostat.train.torch.resume.run" in sys.modules

    while not nodes.worker_nodes:
        nodes.add_node(num_cpus=1)
    result: Result = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name="run",
            storage_path=str(tmp_path),
            checkpoint_config=CheckpointConfig(memory_every_n_steps=1),
        ),
    ).fit()
    assert result.return_value is True
