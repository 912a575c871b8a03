"""Sharded checkpoints: each parallelism, from one world size to another, after each kind of crash."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import FailureConfig, Result

from tests.helpers.harness import once

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.resume")


pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.heliostat_only("Ray leaves sharded checkpoints to the user"),
]

_SAMPLES, _EPOCHS = 96, 2


def plain_model() -> Any:
    """Dimensions that neither 3 nor 4 divides."""
    import torch

    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 1))


def optimizer_of(model: Any) -> Any:
    import torch

    return torch.optim.Adam(model.parameters(), lr=0.02)


def samples() -> Any:
    """Numbered samples."""
    import torch

    x = torch.randn(_SAMPLES, 6, generator=torch.Generator().manual_seed(1))
    return torch.arange(_SAMPLES), x, x.sum(1, keepdim=True)


def parallel(kind: str, model: Any) -> tuple[Any, Any]:
    """The model of this rank, and the mesh over which the samples are split (None: all ranks)."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    size = train.get_context().get_world_size()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    if kind == "ddp":
        return (torch.nn.parallel.DistributedDataParallel(model) if size > 1 else model), None
    if kind == "fsdp":
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=init_device_mesh("cpu", (size,)))
        return model, None
    if kind == "hsdp":
        mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("copies", "shards"))
        for part in (model[0], model[2], model):
            fully_shard(part, mesh=mesh)
        return model, None
    if kind == "tp":
        mesh = init_device_mesh("cpu", (1, size), mesh_dim_names=("data", "tensor"))
        return parallelize_module(model, mesh["tensor"], plan), mesh["data"]
    assert kind == "fsdp+tp"
    mesh = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    parallelize_module(model, mesh["tensor"], plan)
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh["data"])
    return model, mesh["data"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(crash: str) -> None:
    """From now on this process ends in the middle of its next checkpoint."""
    import torch.distributed.checkpoint as dcp
    from heliostat.train.storage.local import LocalStorage

    if crash == "write":
        dcp.FileSystemWriter.write_data = lambda *_, **__: die()
    elif crash == "finish":
        dcp.FileSystemWriter.finish = lambda *_, **__: die()
    elif crash == "upload":
        pairs = LocalStorage._pairs

        def first_pair_only(self: Any, *args: Any) -> Any:
            yield next(pairs(self, *args))
            die()

        LocalStorage._pairs = first_pair_only


def loop(config: dict[str, Any]) -> list[Any]:
    """Trains up to a step, with a checkpoint every other step; may die once on the way."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    rank, folder = train.get_context().get_world_rank(), config["folder"]
    model, mesh = parallel(config["kind"], plain_model())
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
    run = train.torch.resumable(model=model, optimizer=optimizer, schedule=schedule)
    begun = run.step
    loader = DataLoader(
        TensorDataset(*samples()),
        batch_size=4,
        shuffle=True,
        generator=torch.Generator().manual_seed(5),
    )
    victim, step, crash = config.get("crash", (-1, 0, ""))
    with Path(folder, f"seen{rank}").open("a", buffering=1) as seen:
        for number, x, y in run.batches(loader, epochs=_EPOCHS, mesh=mesh):
            loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            seen.write(json.dumps([run.epoch, run.step, number.tolist()]) + "\n")
            if rank == victim and run.step == step and once(folder, f"crash{step}"):
                if crash == "step":
                    die()
                die_at(crash)
            optimizer.step()
            schedule.step()
            if run.step % 2 == 1:
                run.report({"loss": loss.item(), "step": run.step})
            if run.step + 1 == config.get("until"):
                break
    return [begun, run.step, run.restored_from]


@pytest.fixture
def legs(fit: Any, tmp_path: Path) -> Callable[..., Result]:
    """``legs(kind, workers, until, crash=...)``: the run goes on with so many workers up to a step."""

    def leg(kind: str, workers: int, until: int | None, **more: Any) -> Result:
        options = {"failure_config": FailureConfig(max_failures=2), **more.pop("run", {})}
        return fit(
            loop,
            workers,
            torch=True,
            config={"folder": str(tmp_path), "kind": kind, "until": until, **more},
            scaling={"resources_per_worker": {"CPU": 0.5}},
            **options,
        )

    return leg


def judge(folder: Path, result: Result) -> None:
    """The last checkpoint, loaded into this process, has what one process learns from those samples."""
    import torch
    from torch.optim.lr_scheduler import StepLR

    # By step what each rank has read; steps that were made again after a crash are there once.
    taken: dict[int, dict[str, tuple[int, list[int]]]] = {}
    for path in folder.glob("seen*"):
        for line in path.read_text().splitlines():
            epoch, step, numbers = json.loads(line)
            again = taken.setdefault(step, {}).setdefault(path.name, (epoch, numbers))
            assert again == (epoch, numbers)
    assert sorted(taken) == list(range(len(taken)))
    counted = [
        (epoch, number)
        for ranks in taken.values()
        for epoch, number in {(e, n) for e, numbers in ranks.values() for n in numbers}
    ]
    assert sorted(counted) == [(e, n) for e in range(_EPOCHS) for n in range(_SAMPLES)]
    model = plain_model()
    optimizer = optimizer_of(model)
    schedule = StepLR(optimizer, 2, 0.9)
    _, x, y = samples()
    found = plain_model()
    found_optimizer = optimizer_of(found)
    checkpoint = result.get_best_checkpoint("step", "max")
    told = train.torch.load_checkpoint(checkpoint, model=found, optimizer=found_optimizer)
    for step in range(told["step"]):
        optimizer.zero_grad()
        for _, numbers in taken[step].values():  # each rank's mean weighs the same
            loss = (model(x[numbers]) - y[numbers]).square().mean() / len(taken[step])
            loss.backward()
        optimizer.step()
        schedule.step()
    for wanted, got in zip(model.parameters(), found.parameters(), strict=True):
        assert torch.allclose(wanted, got, atol=2e-4), (wanted, got)
    (group,), (same,) = optimizer.param_groups, found_optimizer.param_groups
    assert group["lr"] == pytest.approx(same["lr"])


@pytest.mark.contract("F9.20", "F9.31")
@pytest.mark.parametrize(
    ("chain", "crashes"),
    [
        (
            [("fsdp", 4), ("fsdp", 3), ("fsdp", 6)],
            [(0, 2, "step"), (2, 5, "write"), (1, 7, "upload")],
        ),
        (
            [("ddp", 4), ("ddp", 3), ("ddp", 6)],
            [(1, 3, "finish"), (0, 5, "upload"), (5, 6, "step")],
        ),
        ([("tp", 2), ("tp", 1), ("fsdp", 2)], [(1, 3, "write"), (0, 5, "step"), (0, 7, "finish")]),
        (
            [("fsdp+tp", 4), ("hsdp", 4), ("ddp", 3)],
            [(3, 1, "upload"), (0, 5, "finish"), (2, 7, "write")],
        ),
    ],
    ids=["fsdp", "ddp", "tp", "mixed"],
)
def test_state_goes_on_in_another_group(
    legs: Any, tmp_path: Path, chain: list[tuple[str, int]], crashes: list[tuple[int, int, str]]
) -> None:
    """The run is ended and goes on with other groups; in each a worker dies at some point."""
    made = 0
    for (kind, workers), crash, until in zip(chain, crashes, (4, 6, None), strict=True):
        result = legs(kind, workers, until, crash=crash)
        begun, ended, source = result.return_value
        assert (tmp_path / f"crash{crash[1]}").exists()
        assert begun >= made - made % 2
        assert ended >= begun
        assert source == ("storage" if begun else "")
        made = result.metrics["step"] + 1
    judge(tmp_path, result)


def _linear(config: dict[str, Any]) -> list[float]:
    """Trains on samples of a fixed order; returns the weights."""
    import torch
    from ray.train.torch import prepare_model, resumable
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(3)
    x = torch.randn(53, 3)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=config["batch"])
    model = prepare_model(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = resumable(model=model, optimizer=optimizer)
    for a, b in run.batches(loader, epochs=2, keep_batch=True):
        optimizer.zero_grad()
        (model(a) - b).square().mean().backward()
        optimizer.step()
    state = [p.flatten().tolist() for p in model.parameters()]
    return [run.step, *state[0], *state[1]]


@pytest.mark.contract("F9.24")
@pytest.mark.heliostat_only("resumable is Heliostat's own")
def test_a_kept_batch_trains_alike_with_any_number_of_workers(fit: Any) -> None:
    """Ten samples a step by one, two and three workers; two of these shares cannot be even."""
    found = {}
    for workers, cpus in ((1, 4), (2, 2), (3, 1.3)):
        scaling = {"resources_per_worker": {"CPU": cpus}}
        options = {"torch": True, "name": f"kept{workers}", "scaling": scaling}
        found[workers] = fit(_linear, (1, 5), config={"batch": 2}, **options).return_value
    assert found[1][0] == 12, "53 samples twice, ten a step, and the rest"
    assert found[2] == pytest.approx(found[1], abs=1e-5)
    assert found[3] == pytest.approx(found[1], abs=1e-5)
