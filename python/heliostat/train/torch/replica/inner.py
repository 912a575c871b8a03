"""What a training function with replica groups runs in: the process group of its own replica group."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

from heliostat.train.context import current_session
from heliostat.train.replicas.words import Seat
from heliostat.train.torch import process_group
from heliostat.train.worker.session import WorkerSession


@contextlib.contextmanager
def in_replica_group() -> Iterator[None]:
    """``torch.distributed`` spans this worker's group while the function runs."""
    session = current_session("FaultTolerantConfig")
    assert isinstance(session, WorkerSession)
    seat, number = session.assignment.seat, session.assignment.attempt
    assert seat is not None
    from heliostat.train.torch.replica.run import close_current

    process_group.leave()
    _choose_device(seat)
    try:
        dist.init_process_group(
            seat.backend,
            store=_store(seat, f"inner/{number}/{seat.group}/{seat.incarnation}"),
            rank=seat.shard,
            world_size=seat.size,
            timeout=timedelta(seconds=seat.timeout_s),
        )
        yield
    except BaseException:
        close_current(failed=True)
        process_group.abort()
        raise
    close_current(failed=False)


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
