"""Training that does not stop, on a GPU: replica groups over NCCL, FSDP2 that resumes, state in memory."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from gpu_kit import Bench, Row, at_least, at_most, check, holds, timed
from train_checks import speed

STEPS = 8
DIES_BEHIND = 5  # steps; the state of the step before is kept


@check(
    "train.fsdp2_speed",
    "transformer in bf16 under fully_shard (FSDP2): TorchTrainer beside torchrun and a bare loop",
    limit_s=150,
)
def fsdp2_speed(bench: Bench) -> list[Row]:
    return speed(bench, "gpt_fsdp2")


def steps_of_groups(config: dict[str, Any]) -> None:
    """Takes steps as a replica group, and tells over what they were averaged."""
    import torch
    from heliostat import train
    from heliostat.train import torch as train_torch

    torch.manual_seed(0)
    device = train_torch.get_device()
    model = torch.nn.Linear(64, 64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = train_torch.fault_tolerant(model=model, optimizer=optimizer)
    for _ in run.steps(STEPS):
        loss = model(torch.ones(8, 64, device=device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    group = run._link.ring().data
    train.report(
        {
            "kind": type(group).__name__,
            "device": str(next(model.parameters()).device),
            "loss": loss.item(),
            "step": run.step,
        }
    )


@check("train.nccl_groups", "a replica group that averages over NCCL", limit_s=90)
def nccl_groups(bench: Bench) -> list[Row]:
    import torch
    from heliostat.train import RunConfig
    from heliostat.train.torch import FaultTolerantConfig, TorchTrainer

    bench.init()
    found = (
        TorchTrainer(
            steps_of_groups,
            torch_config=FaultTolerantConfig(),
            scaling_config=bench.scaling(),
            run_config=RunConfig(storage_path=str(bench.folder)),
        )
        .fit()
        .metrics
    )
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = model(torch.ones(8, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [
        holds("averages over", found["kind"], bench.pick("ProcessGroupNCCL", "ProcessGroupGloo")),
        holds("device", found["device"], bench.device),
        holds("steps", found["step"], STEPS),
        holds("its loss is a bare loop's", abs(found["loss"] - loss.item()) < 1e-4, True),
    ]


def sharded(width: int, device: Any) -> tuple[Any, Any]:
    """A model under fully_shard, and an optimizer that has state already."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4))).to(device)
    mesh = init_device_mesh(device.type, (1,))
    for part in (*model, model):
        fully_shard(part, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def one_step(model: Any, optimizer: Any, width: int, device: Any) -> None:
    import torch

    loss = model(torch.ones(4, width, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def checksum(model: Any) -> float:
    return sum(float(p.to_local().double().abs().sum().item()) for p in model.parameters())


def resumed(config: dict[str, Any]) -> None:
    """Takes steps whose state is kept, dies once, goes on from what was kept."""
    import torch
    from heliostat import train
    from heliostat.train import torch as train_torch

    device, width = train_torch.get_device(), config["width"]
    model, optimizer = sharded(width, device)
    began = time.perf_counter()
    run = train_torch.resumable(model=model, optimizer=optimizer)
    first, source = run.step, run.restored_from
    restored_s = time.perf_counter() - began
    mark = Path(config["mark"])
    for step in run.steps(STEPS):
        one_step(model, optimizer, width, device)
        if not config["in_memory"] and step + 1 < STEPS:
            run.report({"step": step})
        if step + 1 == DIES_BEHIND and not mark.exists():
            # Returns when what was saved is stored; the copy in memory is handed over by then.
            train.get_all_reported_checkpoints()
            run._giver.wait()
            mark.write_text("dead")
            os.kill(os.getpid(), signal.SIGKILL)
    whole = checksum(model)
    again, second = sharded(width, device)
    for _ in range(STEPS):
        one_step(again, second, width, device)
    places = {str(p.to_local().device) for p in model.parameters()}
    places |= {
        str(value.to_local().device)
        for values in optimizer.state.values()
        for value in values.values()
        if isinstance(value, torch.Tensor) and hasattr(value, "to_local")
    }
    run.report(
        {
            "first": first,
            "source": source,
            "restored_s": restored_s,
            "places": sorted(places),
            "alike": abs(whole - checksum(again)) < 1e-6 * whole,
            "last": run.step,
        }
    )


def goes_on(bench: Bench, in_memory: bool) -> list[Row]:
    from heliostat.train import CheckpointConfig, FailureConfig, RunConfig
    from heliostat.train.torch import TorchTrainer

    bench.init()
    width = bench.pick(4096, 64)
    found = (
        TorchTrainer(
            resumed,
            train_loop_config={
                "width": width,
                "in_memory": in_memory,
                "mark": str(bench.folder / "mark"),
            },
            scaling_config=bench.scaling(),
            run_config=RunConfig(
                storage_path=str(bench.folder),
                failure_config=FailureConfig(max_failures=1),
                checkpoint_config=CheckpointConfig(
                    num_to_keep=2, memory_every_n_steps=1 if in_memory else None
                ),
            ),
        )
        .fit()
        .metrics
    )
    size = 4 * width * (width + 1) * 4 * 3  # parameters, and two moments of each
    return [
        holds("its state came from", found["source"], "memory" if in_memory else "storage"),
        holds("went on behind a step", found["first"] in (DIES_BEHIND - 1, DIES_BEHIND), True),
        holds("steps", found["last"], STEPS),
        holds("where the state is", found["places"], [bench.device]),
        holds("weights are those of a run without a death", found["alike"], True),
        at_most("restored", found["restored_s"], "s", 2 + size / 0.5e9),
    ]


@check(
    "train.fsdp2_resumes", "FSDP2 is killed and goes on from its sharded checkpoint", limit_s=120
)
def fsdp2_resumes(bench: Bench) -> list[Row]:
    return goes_on(bench, in_memory=False)


@check(
    "train.memory", "FSDP2 is killed and goes on from the copy of its state in memory", limit_s=120
)
def memory(bench: Bench) -> list[Row]:
    return goes_on(bench, in_memory=True)


def kept(config: dict[str, Any]) -> None:
    """Seconds of steps whose state is copied into memory, and of steps without."""
    import torch
    from heliostat import train
    from heliostat.train import torch as train_torch

    device, width = train_torch.get_device(), config["width"]
    model, optimizer = sharded(width, device)
    one_step(model, optimizer, width, device)
    run = train_torch.resumable(model=model, optimizer=optimizer)
    ends, period = [], config["period"]
    for _ in run.steps(6 * period):
        for _ in range(config["work"]):  # what a step computes beside which the state is copied
            one_step(model, optimizer, width, device)
        if device.type == "cuda":
            torch.cuda.synchronize()
        ends.append(time.perf_counter())
    took = [b - a for a, b in zip(ends, ends[1:], strict=False)]
    # took[i] is step i + 1; the copy is made beside the steps that are multiples of the period.
    with_copy = sorted(took[i - 1] for i in range(2 * period, len(ends), period))
    without = sorted(t for i, t in enumerate(took, 1) if i % period == period // 2)
    train.report(
        {
            "with": with_copy[len(with_copy) // 2],
            "without": without[len(without) // 2],
        }
    )


@check(
    "train.pinned", "what a copy of the state adds to a step, beside a copy through pinned memory"
)
def pinned(bench: Bench) -> list[Row]:
    import torch
    from heliostat.train import CheckpointConfig, RunConfig
    from heliostat.train.torch import TorchTrainer

    bench.init()
    width = bench.pick(4096, 64)
    found = (
        TorchTrainer(
            kept,
            train_loop_config={"width": width, "period": 4, "work": bench.pick(20, 1)},
            scaling_config=bench.scaling(),
            run_config=RunConfig(
                storage_path=str(bench.folder),
                checkpoint_config=CheckpointConfig(memory_every_n_steps=4),
            ),
        )
        .fit()
        .metrics
    )
    size = 4 * width * (width + 1) * 4 * 3
    there = torch.ones(size // 4, device=bench.device)
    host = torch.empty(size // 4, pin_memory=not bench.is_rehearsal)

    def copy() -> None:
        host.copy_(there, non_blocking=True)
        bench.synchronize()

    copy()
    floor = min(timed(copy)[0] for _ in range(3))
    added = max(found["with"] - found["without"], 1e-6)
    return [
        Row("the state", round(size / 1e6, 1), "MB"),
        at_least(
            "GB/s for which the step waits", size / added / 1e9, "GB/s", size / floor / 1e9, 0.1
        ),
    ]
