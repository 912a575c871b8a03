"""One training function, four ways to spread a model over the workers.

python examples/parallelism.py                      # all of them, on CPUs
python examples/parallelism.py --only fully_shard --workers 4

- ddp: every worker has the whole model, gradients are averaged
- fsdp: FullyShardedDataParallel, parameters are sharded
- fully_shard: the same with the newer, composable API
- tensor: layers are split over the workers by a DeviceMesh

Heliostat sets up the process group; the strategies are PyTorch's own.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import heliostat as ray
from heliostat import train
from heliostat.train import RunConfig, ScalingConfig
from heliostat.train.torch import TorchConfig, TorchTrainer

STRATEGIES = ("ddp", "fsdp", "fully_shard", "tensor")


def make_model() -> Any:
    """Two layers with room to be split."""
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def spread(model: Any, strategy: str, workers: int) -> Any:
    """The model as the strategy wants it."""
    import torch

    device = train.torch.get_device()
    if strategy == "ddp":
        return train.torch.prepare_model(model)
    if strategy == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model.to(device), device_id=device)
    if strategy == "fully_shard":
        from torch.distributed.fsdp import fully_shard

        model = model.to(device)
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        fully_shard(model)
        return model
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh(device.type, (workers,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return parallelize_module(model.to(device), mesh, plan)


def train_loop_per_worker(config: dict[str, Any]) -> None:
    """The same loop for every strategy."""
    import torch
    import torch.distributed as dist
    from sklearn.datasets import load_digits

    torch.manual_seed(0)
    size = train.get_context().get_world_size()
    strategy = config["strategy"]
    model = spread(make_model(), strategy, size)
    if dist.get_rank() == 0:
        local = sum(_local(p).numel() for p in model.parameters())
        print(f"{strategy}: rank 0 of {size} holds {local} parameters", flush=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    digits = load_digits()
    x = torch.tensor(digits.data / 16, dtype=torch.float32)
    y = torch.tensor(digits.target)
    if strategy != "tensor":  # with tensor parallelism all ranks see the same rows
        x, y = x[dist.get_rank() :: size], y[dist.get_rank() :: size]
    device = train.torch.get_device()
    x, y = x.to(device), y.to(device)
    for epoch in range(config["epochs"]):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        train.report({"loss": loss.item(), "epoch": epoch})


def _local(parameter: Any) -> Any:
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


def main() -> None:
    """Train once with each strategy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=STRATEGIES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gpu", action="store_true", help="one GPU for each worker")
    parser.add_argument("--storage", help="folder for the runs; default ~/ray_results")
    options = parser.parse_args()

    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1))
    for strategy in [options.only] if options.only else STRATEGIES:
        result = TorchTrainer(
            train_loop_per_worker,
            train_loop_config={"strategy": strategy, "epochs": 20},
            # nccl with GPUs, gloo without; operations give up after half an hour.
            torch_config=TorchConfig(timeout_s=1800),
            scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=options.gpu),
            run_config=RunConfig(storage_path=options.storage),
        ).fit()
        assert result.metrics is not None
        print(f"{strategy}: loss {result.metrics['loss']:.4f}")
    ray.shutdown()


if __name__ == "__main__":
    main()
