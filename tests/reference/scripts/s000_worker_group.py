"""The notebook "Distributed Training with Ray Actors", cell by cell.

What a cell shows is printed as ``out[name]=repr``. Changed against the notebook: the configuration
(``cpu``: no GPU anywhere; ``gpu``: four logical GPUs, so gloo instead of nccl), because a machine
without GPUs has to run it; and the exercise is solved.
"""

import os
import socket
import sys
from collections import defaultdict
from typing import List

import ray
import torch
import torch.distributed as dist

# Import utility functions for the worker actor
from scripts.utils import (
    cleanup_impl,
    setup_torch_process_group_impl,
)

MODE = sys.argv[1]
BACKEND, DEVICE = "gloo", "cpu"
RESOURCES = {"gpu": {"num_gpus": 1}, "cpu": {"num_cpus": 1}}[MODE]


def show(name, value):
    print(f"out[{name}]={value!r}")


# Initialize Ray
ray.init(ignore_reinit_error=True, num_cpus=6, num_gpus=4 if MODE == "gpu" else 0)
# The cell can be run again
ray.init(ignore_reinit_error=True)


@ray.remote
class DistributedWorker:
    """A minimal Ray actor for distributed operations.

    This actor manages the worker lifecycle but delegates actual work
    to functions passed via the execute() method.
    """

    def __init__(self, rank: int, world_size: int):
        """Initialize the distributed worker with rank and world_size."""
        self.rank = rank
        self.world_size = world_size

    def setup_torch_process_group(
        self,
        backend: str,
        master_addr: str,
        master_port: int,
        timeout_s: int = 1800,
    ):
        """Initialize torch distributed process group on this worker."""
        return setup_torch_process_group_impl(
            self.rank, self.world_size, backend, master_addr, master_port, timeout_s
        )

    def execute(self, func, *args, **kwargs):
        """Execute a function on this worker that leverages torch.distributed."""
        return func(*args, **kwargs)

    def cleanup(self):
        """Clean up the distributed process group."""
        return cleanup_impl(self.rank)


def create_worker_group(num_workers: int, resources_per_worker: dict):
    return [
        DistributedWorker.options(**resources_per_worker).remote(
            rank=rank,
            world_size=num_workers,
        )
        for rank in range(num_workers)
    ]


# Create 2 test workers
test_workers = create_worker_group(
    num_workers=2,
    resources_per_worker=RESOURCES,
)


def share_cuda_visible_devices(workers: List):
    """Share CUDA_VISIBLE_DEVICES across workers on the same node."""

    # Step 1: Collect metadata from all workers using execute()
    metadata_list = ray.get([worker.execute.remote(get_worker_metadata) for worker in workers])

    # Step 2: Group workers by node
    node_to_workers = defaultdict(list)
    for worker_idx, (node_id, gpu_ids) in enumerate(metadata_list):
        node_to_workers[node_id].append(worker_idx)

    node_to_gpu_ids = defaultdict(set)
    for worker_idx, (node_id, gpu_ids) in enumerate(metadata_list):
        for gpu_id in gpu_ids:
            node_to_gpu_ids[node_id].add(str(gpu_id))

    # Step 3: Set CUDA_VISIBLE_DEVICES on each worker using execute()
    set_refs = []
    for node_id, worker_indices in node_to_workers.items():
        gpu_ids_str = ",".join(sorted(node_to_gpu_ids[node_id]))

        for worker_idx in worker_indices:
            set_ref = workers[worker_idx].execute.remote(
                set_worker_cuda_devices, rank=worker_idx, gpu_ids_str=gpu_ids_str
            )
            set_refs.append(set_ref)

    # Wait for all workers to complete setting CUDA_VISIBLE_DEVICES
    ray.get(set_refs)


def get_worker_metadata():
    """Get metadata about this worker (node_id and GPU IDs)."""
    node_id = ray.get_runtime_context().get_node_id()
    gpu_ids = ray.get_gpu_ids()
    return node_id, gpu_ids


def set_worker_cuda_devices(rank: int, gpu_ids_str: str):
    """Set CUDA_VISIBLE_DEVICES for this worker."""
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu_ids_str
    print(f"[Rank {rank}] Set CUDA_VISIBLE_DEVICES={gpu_ids_str}")
    return True


test_worker = test_workers[0]
show("test_worker", test_worker)

# Call execute.remote() to run the function on the worker
metadata_ref = test_worker.execute.remote(get_worker_metadata)
show("metadata_ref", metadata_ref)

# Get the actual result
show("metadata", ray.get(metadata_ref))

show("metadata_1", ray.get(test_workers[1].execute.remote(get_worker_metadata)))

metadata_refs = [worker.execute.remote(get_worker_metadata) for worker in test_workers]
show("metadata_refs", metadata_refs)

metadata_list = ray.get(metadata_refs)
show("metadata_list", metadata_list)

show(
    "visible_before",
    ray.get(
        [w.execute.remote(lambda: os.environ.get("CUDA_VISIBLE_DEVICES")) for w in test_workers]
    ),
)
share_cuda_visible_devices(test_workers)
show(
    "visible_after",
    ray.get(
        [w.execute.remote(lambda: os.environ.get("CUDA_VISIBLE_DEVICES")) for w in test_workers]
    ),
)


def get_address_and_port():
    """Get the IP address and an available port."""
    ip_address = ray.util.get_node_ip_address()

    # Find an available port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.bind(("", 0))
        s.listen(1)
        port = s.getsockname()[1]

    return ip_address, port


rank_0 = test_workers[0]
show("rank_0", rank_0)

address_ref = rank_0.execute.remote(get_address_and_port)
show("address_ref", address_ref)

show("address", ray.get(address_ref))


def setup_torch_distributed(workers: List, backend: str = "gloo", timeout_s: int = 1800):
    """Set up torch distributed process group across all workers."""
    # Step 1: Get master address and port from rank 0 worker using execute()
    master_addr, master_port = ray.get(workers[0].execute.remote(get_address_and_port))

    # Step 2: Initialize process group on all workers in parallel
    setup_refs = [
        worker.setup_torch_process_group.remote(
            backend=backend,
            master_addr=master_addr,
            master_port=master_port,
            timeout_s=timeout_s,
        )
        for worker in workers
    ]

    # Step 3: Wait for all to complete (synchronization barrier)
    ray.get(setup_refs)


setup_torch_distributed(test_workers, backend=BACKEND)

# Check if distributed is initialized on worker 0
check_ref = test_workers[0].execute.remote(lambda: dist.is_initialized())
show("check_ref", check_ref)

show("is_initialized", ray.get(check_ref))


def run_distributed_broadcast(workers: List, device: str, src_rank: int = 0):
    """Run a broadcast operation across all workers."""
    world_size = len(workers)

    # Execute broadcast on all workers in parallel using execute()
    broadcast_refs = [
        worker.execute.remote(
            broadcast_tensor, rank=rank, world_size=world_size, device=device, src_rank=src_rank
        )
        for rank, worker in enumerate(workers)
    ]

    # Wait for completion
    tensors = ray.get(broadcast_refs)

    # Display results
    for rank, tensor in enumerate(tensors):
        print(f"  Rank {rank}: {tensor.tolist()}")

    # Verify all tensors match
    all_same = all(torch.equal(tensors[0], t) for t in tensors)
    assert all_same, "Broadcast failed: tensors do not match!"


def broadcast_tensor(rank: int, world_size: int, device: str, src_rank: int = 0):
    """Participate in a broadcast operation from src_rank to all workers."""
    if not dist.is_initialized():
        raise RuntimeError("Process group not initialized!")

    # Create tensor
    if rank == src_rank:
        tensor = torch.tensor([100.0, 200.0, 300.0, 400.0, 500.0], device=device)
        print(f"[Rank {rank}] Broadcasting tensor: {tensor.tolist()}")
    else:
        tensor = torch.zeros(5, device=device)
        print(f"[Rank {rank}] Before broadcast: {tensor.tolist()}")

    # Perform the broadcast
    dist.broadcast(tensor, src=src_rank)

    print(f"[Rank {rank}] After broadcast: {tensor.tolist()}")
    return tensor.cpu()


run_distributed_broadcast(test_workers, device=DEVICE, src_rank=0)


def cleanup_workers(workers: List):
    """Clean up worker actors."""
    cleanup_refs = [worker.cleanup.remote() for worker in workers]
    ray.get(cleanup_refs)


cleanup_workers(test_workers)

if MODE == "gpu":
    # Two of the four GPUs belong to the test workers: they come back with the last handle
    del test_workers, test_worker, rank_0

# Configuration
num_workers = 4

# Create workers
workers = create_worker_group(
    num_workers=num_workers,
    resources_per_worker=RESOURCES,
)

# Setup GPU visibility (if using GPUs)
if MODE == "gpu":
    share_cuda_visible_devices(workers)
    show(
        "visible_of_four",
        ray.get(
            [
                w.execute.remote(lambda: (ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"]))
                for w in workers
            ]
        ),
    )

# Initialize PyTorch Distributed
setup_torch_distributed(workers, backend=BACKEND)

# Run distributed operation
run_distributed_broadcast(workers, device=DEVICE, src_rank=0)


def allreduce_tensor(rank: int, world_size: int, device: str):
    """Perform an all-reduce (sum) operation."""
    # Create tensor with this worker's rank
    tensor = torch.tensor([float(rank)], device=device)
    print(f"[Rank {rank}] Before all-reduce: {tensor.item()}")

    # All-reduce sums values from all workers
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)

    print(f"[Rank {rank}] After all-reduce: {tensor.item()}")
    return tensor.cpu()


# Test it using execute()
world_size = len(workers)
allreduce_refs = [
    worker.execute.remote(allreduce_tensor, rank, world_size, DEVICE)
    for rank, worker in enumerate(workers)
]
tensors = ray.get(allreduce_refs)
# For 4 workers with ranks 0,1,2,3: sum = 0+1+2+3 = 6
show("allreduce", [t.tolist() for t in tensors])

# Cleanup
cleanup_workers(workers)
show("after_cleanup", ray.get(workers[0].execute.remote(lambda: dist.is_initialized())))
print("finished=yes")
