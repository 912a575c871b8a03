"""Runs on the workers: joining the process group, and leaving it so that no peer hangs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import heliostat as ray
from heliostat.train.group.address import free_address
from heliostat.train.group.ranks import Ranks
from heliostat.train.torch.sockets import sockets

# Rank 0's half of the meeting point, between `open_store` and `join`.
_opened: list[Any] = []
# The connections of the process group to its peers, by inode.
_connections: set[int] = set()
# The bound of its operations.
_timeout_s = [0.0]


def open_store(init_method: str, world_size: int, timeout_s: float) -> tuple[str, int]:
    """On rank 0: open the meeting point; returns its address and port."""
    leave()
    if init_method == "tcp":
        return free_address()
    from torch.distributed import TCPStore

    address = ray.util.get_node_ip_address()
    store = TCPStore(
        address,
        0,
        world_size,
        is_master=True,
        timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False,
    )
    _opened[:] = [store]
    return address, int(store.port)


def join(
    backend: str,
    init_method: str,
    timeout_s: float,
    world_size: int,
    rank: int,
    address: str,
    port: int,
    ranks: Ranks,
    gpu: bool,
) -> None:
    """Initialise ``torch.distributed`` here; all ranks have to do it together."""
    import torch
    import torch.distributed as dist

    _check(backend)
    if rank != 0:
        leave()
    os.environ.update(
        MASTER_ADDR=address,
        MASTER_PORT=str(port),
        RANK=str(rank),
        WORLD_SIZE=str(world_size),
        LOCAL_RANK=str(ranks.local_rank),
        LOCAL_WORLD_SIZE=str(ranks.local_world_size),
        NODE_RANK=str(ranks.node_rank),
        TORCH_NCCL_ASYNC_ERROR_HANDLING="1",
    )
    if gpu:
        from heliostat.train.torch.device import get_devices

        device = get_devices()[0]
        torch.cuda.set_device(device)
        os.environ["ACCELERATE_TORCH_DEVICE"] = str(device)
    else:
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    timeout = timedelta(seconds=timeout_s)
    _timeout_s[0] = timeout_s
    before = sockets()
    common: dict[str, Any] = {"rank": rank, "world_size": world_size, "timeout": timeout}
    if init_method == "tcp":
        dist.init_process_group(backend, init_method=f"tcp://{address}:{port}", **common)
    else:
        if rank == 0:
            store = _opened.pop()
        else:
            store = dist.TCPStore(
                address, port, world_size, is_master=False, timeout=timeout, wait_for_workers=False
            )
        dist.init_process_group(backend, store=store, **common)
    _connections.clear()
    _connections.update(set(sockets()) - set(before))


def _check(backend: str) -> None:
    """Raise ValueError for a backend that torch has not heard of (plug-ins bring more)."""
    import torch.distributed as dist

    known = [name for name in dist.Backend.backend_list if name != "undefined"]
    for part in backend.lower().split(","):
        if part.rpartition(":")[2] not in known:
            raise ValueError(
                f"TorchConfig(backend={backend!r}): torch knows {', '.join(known)} here. Choose one "
                "of them, or None for nccl with GPUs and gloo without."
            )


def leave() -> None:
    """Forget a process group of an earlier attempt, if there is one."""
    _opened.clear()
    import torch.distributed as dist

    if not dist.is_available():
        return
    if dist.is_initialized():
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
    # Groups are named by a count, which all ranks have to share: where making or destroying one was
    # interrupted, nothing has set it back, and the names are still taken.
    world = dist.distributed_c10d._world
    world.group_count = 0
    world.pg_names.clear()


@contextlib.contextmanager
def leaving_group_on_failure() -> Iterator[None]:
    """Close the connections when the training function fails: peers that wait for us see it."""
    from heliostat.train.torch import timing
    from heliostat.train.torch.stuck import explained

    timing.install()
    try:
        yield
    except BaseException as error:
        missing = explained(error, _timeout_s[0])
        abort()
        if missing is not None:
            raise missing from error
        raise


def abort() -> None:
    """Close the connections of the process group at once, without a word to the peers.

    Destroying the group is not enough: a `DistributedDataParallel` that was in use keeps it and
    its connections alive, and a peer that waits for us would wait until this process ends.
    """
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return
    for inode, descriptor in sockets().items():
        if inode in _connections:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as peer:
                # Only our half, and no listener: gloo ends the process when its own fails.
                if not peer.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    peer.shutdown(socket.SHUT_WR)
    _connections.clear()
    with contextlib.suppress(Exception):
        from torch.distributed import distributed_c10d

        distributed_c10d._abort_process_group()
    with contextlib.suppress(Exception):
        if dist.is_initialized():
            dist.destroy_process_group()
