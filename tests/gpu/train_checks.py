"""Training on a GPU: speed beside torchrun and a bare loop, NCCL, state, checkpoints, recovery."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu_kit import HERE, Bench, Row, at_least, at_most, check, holds, timed


def fit(bench: Bench, loop: Any, config: dict[str, Any] | None = None, failures: int = 0) -> Any:
    """The result of a trainer with one worker on the device."""
    from heliostat.train import FailureConfig, RunConfig
    from heliostat.train.torch import TorchTrainer

    return TorchTrainer(
        loop,
        train_loop_config={"device": bench.kind, **(config or {})},
        scaling_config=bench.scaling(),
        run_config=RunConfig(
            storage_path=str(bench.folder), failure_config=FailureConfig(max_failures=failures)
        ),
    ).fit()


def workload(config: dict[str, Any]) -> None:
    import workloads
    from heliostat import train
    from heliostat.train import torch as train_torch

    train.report(
        workloads.train(config["kind"], train_torch.get_device(), train_torch.prepare_model)
    )


def speed(bench: Bench, kind: str) -> list[Row]:
    """Steps a second in a trainer, beside torchrun and a bare loop."""
    import workloads

    bare = bench.plain("workloads.py", kind, bench.kind)
    run = [
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=1",
        "--master-port=0",
        "--rdzv-backend=c10d",
    ]
    torchrun = bench.plain(*run, "--rdzv-endpoint=localhost:0", "workloads.py", kind, bench.kind)
    bench.init()
    result = fit(bench, workload, {"kind": kind})
    ours = result.metrics
    falls = ours["last_loss"] < ours["first_loss"]
    return [
        at_least(
            "steps/s, beside torchrun", ours["steps_per_s"], "", torchrun["steps_per_s"], 0.97
        ),
        # The bare loop has no process group, so it shards nothing.
        at_least(
            "steps/s, beside a bare loop",
            ours["steps_per_s"],
            "",
            bare["steps_per_s"],
            0.85 if kind.endswith(workloads.SHARDED) else 0.97,
        ),
        holds("device", ours["device"], bench.device),
        holds("the loss falls", falls, True),
        holds(
            "first loss is the bare loop's",
            abs(ours["first_loss"] - bare["first_loss"]) < 0.05,
            True,
        ),
    ]


@check("train.vit", "ViT in bf16: TorchTrainer beside torchrun and a bare loop", limit_s=150)
def vit(bench: Bench) -> list[Row]:
    return speed(bench, "vit")


@check(
    "train.gpt", "transformer in bf16: TorchTrainer beside torchrun and a bare loop", limit_s=150
)
def gpt(bench: Bench) -> list[Row]:
    return speed(bench, "gpt")


def meet(config: dict[str, Any]) -> None:
    """One collective operation, timed from the start of the run."""
    import torch
    import torch.distributed as dist
    from heliostat import train
    from heliostat.train import torch as train_torch

    device = train_torch.get_device()
    ones = torch.ones(1 << 20, device=device)
    dist.all_reduce(ones)
    total = float(ones.sum().item())
    train.report(
        {"backend": dist.get_backend(), "sum": total, "device": str(device), "ended": time.time()}
    )


@check("train.nccl", "a process group with one rank: NCCL, and how long it takes to be there")
def nccl(bench: Bench) -> list[Row]:
    code = f"""
import json, time, torch, torch.distributed as dist
began = time.time()
dist.init_process_group({bench.pick("nccl", "gloo")!r}, init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
ones = torch.ones(1 << 20, device={bench.device!r})
dist.all_reduce(ones)
ones.sum().item()
print(json.dumps({{"seconds": time.time() - began}}))
dist.destroy_process_group()
"""
    alone, plain = timed(lambda: bench.plain("-c", code))
    bench.init()
    began = time.time()
    found = fit(bench, meet).metrics
    return [
        holds("backend", found["backend"], bench.pick("nccl", "gloo")),
        holds("sum of ones over one rank", found["sum"], float(1 << 20)),
        holds("device", found["device"], bench.device),
        at_most("fit() to the first all_reduce", found["ended"] - began, "s", alone + 8, alone),
        Row("process group and all_reduce alone", round(plain["seconds"], 3), "s"),
    ]


def devices(config: dict[str, Any]) -> None:
    """What a training function is given: devices, a prepared model, a prepared loader."""
    import torch
    from heliostat import train
    from heliostat.train import torch as train_torch
    from torch.utils.data import DataLoader, TensorDataset

    device = train_torch.get_device()
    model = train_torch.prepare_model(torch.nn.Linear(4, 2))
    rows = torch.arange(4096, dtype=torch.float32).reshape(1024, 4)
    loader = DataLoader(TensorDataset(rows), batch_size=64, pin_memory=device.type == "cuda")
    total, places = 0.0, set()
    for (batch,) in train_torch.prepare_data_loader(loader):
        total += float(batch.sum().item())
        places.add(str(batch.device))
        model(batch)
    current = torch.cuda.current_device() if device.type == "cuda" else 0
    train.report(
        {
            "device": str(device),
            "devices": len(train_torch.get_devices()),
            "current": current,
            "model": str(next(model.parameters()).device),
            "loader": sorted(places),
            "total": total,
        }
    )


@check("train.devices", "get_device, prepare_model and prepare_data_loader")
def given(bench: Bench) -> list[Row]:
    bench.init()
    found = fit(bench, devices).metrics
    return [
        holds("get_device", found["device"], bench.device),
        holds("get_devices", found["devices"], 1),
        holds("the current device", found["current"], 0),
        holds("prepare_model", found["model"], bench.device),
        holds("prepare_data_loader", found["loader"], [bench.device]),
        holds("sum of its batches", found["total"], float(4096 * 4095 // 2)),
    ]


def model_of_state(device: Any) -> Any:
    import torch

    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 8)).to(device)


def one_step(model: Any, device: Any) -> None:
    """An optimizer with state on the device, and weights that are not the first ones."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model(torch.ones(4, 256, device=device)).sum().backward()
    optimizer.step()


def checksum(state: dict[str, Any]) -> float:
    return sum(float(tensor.double().abs().sum().item()) for tensor in state.values())


def wrapped(config: dict[str, Any]) -> None:
    """DDP and FSDP2 around a model on the device; their full state goes into a checkpoint."""
    import torch
    from heliostat import train
    from heliostat.train import torch as train_torch
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    device = train_torch.get_device()
    model = model_of_state(device)
    if config["way"] == "ddp":
        model = DistributedDataParallel(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh

        for part in (*model, model):
            fully_shard(part, mesh=init_device_mesh(device.type, (1,)))
    one_step(model, device)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(full, Path(folder, "model.pt"))
        train.report(
            {"sum": checksum(full), "places": sorted({str(t.device) for t in full.values()})},
            checkpoint=train.Checkpoint.from_directory(folder),
        )


def state(bench: Bench, way: str) -> list[Row]:
    import torch

    bench.init()
    result = fit(bench, wrapped, {"way": way})
    alone = model_of_state(torch.device("cpu"))
    one_step(alone, torch.device("cpu"))
    with result.checkpoint.as_directory() as folder:
        loaded = torch.load(Path(folder, "model.pt"), map_location="cpu", weights_only=True)
    names_and_shapes = {name: tuple(tensor.shape) for name, tensor in loaded.items()}
    expected = {name: tuple(tensor.shape) for name, tensor in alone.state_dict().items()}
    read, written = checksum(loaded), result.metrics["sum"]
    alike = all(
        torch.allclose(loaded[name], tensor, atol=1e-4)
        for name, tensor in alone.state_dict().items()
    )
    return [
        holds("where its tensors were", result.metrics["places"], [bench.device]),
        holds("names and shapes are the model's", names_and_shapes == expected, True),
        holds("the driver reads what the worker wrote", abs(written - read) < 1e-6 * read, True),
        holds("one step is the same as on a CPU", alike, True),
    ]


@check("train.ddp", "a checkpoint of GPU tensors from DistributedDataParallel")
def ddp(bench: Bench) -> list[Row]:
    return state(bench, "ddp")


@check("train.fsdp2", "a checkpoint of GPU tensors from fully_shard (FSDP2)")
def fsdp2(bench: Bench) -> list[Row]:
    return state(bench, "fsdp2")


def interrupted(config: dict[str, Any]) -> None:
    """Kills itself once, with a context and memory on the device; goes on from its checkpoint."""
    import torch
    from heliostat import train
    from heliostat.train import torch as train_torch

    device = train_torch.get_device()
    ballast = torch.ones(config["bytes"] // 4, device=device)
    began = 0
    if (checkpoint := train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            tensor = torch.load(Path(folder, "step.pt"), weights_only=True)
        assert tensor.device == device, tensor.device
        began = int(tensor.item()) + 1
    mark = Path(config["mark"])
    for step in range(began, 6):
        with tempfile.TemporaryDirectory() as folder:
            torch.save(torch.tensor(step, device=device), Path(folder, "step.pt"))
            now = {
                "step": step,
                "began": began,
                "time": time.time(),
                "sum": float(ballast[:8].sum()),
            }
            train.report(now, checkpoint=train.Checkpoint.from_directory(folder))
        if step == 3 and not mark.exists():
            mark.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)


@check("train.recovery", "a training worker with a CUDA context is killed", limit_s=120)
def recovery(bench: Bench) -> list[Row]:
    bench.init()
    mark = bench.folder / "mark"
    size = bench.pick(4 << 30, 4 << 20)
    result = fit(bench, interrupted, {"mark": str(mark), "bytes": size}, failures=1)
    times = result.metrics_dataframe.set_index("step")["time"]
    began = int(result.metrics["began"])
    code = f"import torch; torch.zeros(1, device={bench.device!r})"
    fresh, _ = timed(lambda: subprocess.run([sys.executable, "-c", code], cwd=HERE, check=True))
    seconds = float(times.loc[began].max()) - float(mark.read_text())
    return [
        holds("last step", result.metrics["step"], 5),
        holds("went on behind a checkpoint", began in (3, 4), True),
        at_most("death to the next step", seconds, "s", fresh + 10, fresh),
    ]
