"""Four workers, one process group: broadcast and all-reduce between Heliostat actors.

The pattern under every distributed trainer: actors hold a rank each, the driver brings them
together with ``torch.distributed``, and any function runs on all of them at once.

    python examples/worker_group.py
    python examples/worker_group.py --workers 2 --gpus-per-worker 1
"""

from __future__ import annotations

import argparse
import os
import socket
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import heliostat as ray
import torch
import torch.distributed as dist

VALUES = [100.0, 200.0, 300.0, 400.0, 500.0]


@ray.remote
class Worker:
    """One rank: it joins the process group and runs whatever function it is sent."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size

    def join(self, backend: str, address: str, port: int) -> None:
        dist.init_process_group(
            backend=backend,
            init_method=f"tcp://{address}:{port}",
            rank=self.rank,
            world_size=self.world_size,
            timeout=timedelta(minutes=2),
        )
        print(f"[rank {self.rank}] in the process group")

    def execute(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()


def node_and_gpus() -> tuple[str, list[Any]]:
    return ray.get_runtime_context().get_node_id(), ray.get_gpu_ids()


def show_gpus(ids: str) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ids


def address_and_port() -> tuple[str, int]:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), probe.getsockname()[1]


def broadcast(rank: int, device: str) -> torch.Tensor:
    tensor = torch.tensor(VALUES, device=device) if rank == 0 else torch.zeros(5, device=device)
    dist.broadcast(tensor, src=0)
    return tensor.cpu()


def all_reduce(rank: int, device: str) -> torch.Tensor:
    tensor = torch.tensor([float(rank)], device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    return tensor.cpu()


def share_gpus(workers: list[Any]) -> None:
    """Let each worker see every GPU of its machine, for fast transfers between them."""
    found = ray.get([w.execute.remote(node_and_gpus) for w in workers])
    of_node: dict[str, set[str]] = defaultdict(set)
    for node, gpus in found:
        of_node[node].update(map(str, gpus))
    ray.get(
        [
            worker.execute.remote(show_gpus, ",".join(sorted(of_node[node])))
            for worker, (node, _) in zip(workers, found, strict=True)
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--gpus-per-worker", type=float, default=0)
    options = parser.parse_args()

    began = time.perf_counter()

    def progress(what: str) -> None:
        print(f"{time.perf_counter() - began:6.2f} s  {what}")

    on_gpu = options.gpus_per_worker > 0 and torch.cuda.is_available()
    backend, device = ("nccl", "cuda") if on_gpu else ("gloo", "cpu")
    # More ranks than cores is fine for a demonstration: CPUs are counted, not pinned.
    ray.init(num_cpus=max(options.workers, os.cpu_count() or 1), ignore_reinit_error=True)
    progress("cluster started")

    resources = {"num_gpus": options.gpus_per_worker} if on_gpu else {"num_cpus": 1}
    workers = [
        Worker.options(**resources).remote(rank=rank, world_size=options.workers)
        for rank in range(options.workers)
    ]
    if on_gpu:
        share_gpus(workers)
    address, port = ray.get(workers[0].execute.remote(address_and_port))
    progress(f"{options.workers} workers started; rank 0 waits at {address}:{port}")

    ray.get([worker.join.remote(backend, address, port) for worker in workers])
    progress(f"process group formed ({backend})")

    tensors = ray.get(
        [worker.execute.remote(broadcast, rank, device) for rank, worker in enumerate(workers)]
    )
    for rank, tensor in enumerate(tensors):
        print(f"          rank {rank}: {tensor.tolist()}")
    if not all(torch.equal(tensors[0], tensor) for tensor in tensors):
        raise SystemExit("broadcast failed: the tensors differ")
    progress("broadcast done: every rank holds the tensor of rank 0")

    sums = ray.get(
        [worker.execute.remote(all_reduce, rank, device) for rank, worker in enumerate(workers)]
    )
    expected = sum(range(options.workers))
    if any(total.item() != expected for total in sums):
        raise SystemExit(f"all-reduce failed: {sums} instead of {expected}")
    progress(f"all-reduce done: every rank holds {expected}")

    ray.get([worker.leave.remote() for worker in workers])
    ray.shutdown()
    progress("finished")


if __name__ == "__main__":
    main()
