"""The surroundings of a training function with replica groups: the process group of its own replica
group.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

import heliostat as ray
from heliostat.train.context import current_session
from heliostat.train.replicas.messages import Seat
from heliostat.train.torch import process_group, timing
from heliostat.train.worker.session import WorkerSession

# The store of this worker's replica group, kept as long as the process.
_own_store: list[dist.TCPStore] = []


@contextlib.contextmanager
def in_replica_group() -> Iterator[None]:
    """``torch.distributed`` spans this worker's group while the function runs."""
    session = current_session("FaultTolerantConfig")
    assert isinstance(session, WorkerSession)
    seat, number = session.assignment.seat, session.assignment.attempt
    assert seat is not None
    from heliostat.train.torch.replica.run import close_current
    from heliostat.train.torch.stuck import explained

    timing.install()
    process_group.leave()
    _choose_device(seat)
    if seat.environment:
        _look_like_torchrun(seat, f"group/{number}/{seat.group}/{seat.incarnation}")
    try:
        dist.init_process_group(
            seat.backend,
            store=_store(seat, f"inner/{number}/{seat.group}/{seat.incarnation}"),
            rank=seat.shard,
            world_size=seat.size,
            timeout=timedelta(seconds=seat.timeout_s),
        )
        yield
    except BaseException as error:
        missing = explained(error, seat.timeout_s)
        close_current(failed=True)
        process_group.abort()
        if missing is not None:
            raise missing from error
        raise
    close_current(failed=False)


def _look_like_torchrun(seat: Seat, key: str) -> None:
    """Set the variables that libraries with replica groups of their own look for: each group has a
    store.
    """
    meeting = dist.TCPStore(*seat.store, is_master=False, wait_for_workers=False)
    if seat.shard == 0:
        host = ray.util.get_node_ip_address()
        _own_store[:] = [dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)]
        meeting.set(key, f"{host} {_own_store[0].port}")
    host, port = meeting.get(key).decode().split()
    os.environ.update(
        seat.environment,
        MASTER_ADDR=host,
        MASTER_PORT=port,
        RANK=str(seat.shard),
        WORLD_SIZE=str(seat.size),
    )


def _store(seat: Seat, prefix: str) -> dist.Store:
    if seat.size == 1:
        return dist.HashStore()
    store = dist.TCPStore(*seat.store, is_master=False, wait_for_workers=False)
    return dist.PrefixStore(prefix, store)


def _choose_device(seat: Seat) -> None:
    """With GPUs each worker sees its own one only."""
    if seat.backend == "nccl":
        os.environ["HELIOSTAT_TRAIN_GPU_INDICES"] = "0"
        torch.cuda.set_device(0)
