"""A group in one process: a process group of ``torch.distributed`` beside the default one.

Rank 0 serves the store at which the ranks meet; its address stands in the cluster's key-value store
until the group ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import heliostat as ray
from heliostat import _heliostat
from heliostat.util import get_node_ip_address
from heliostat.util.collective.types import Backend, ReduceOp

_OPS = {
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
    ReduceOp.MIN: dist.ReduceOp.MIN,
    ReduceOp.MAX: dist.ReduceOp.MAX,
}
_LOOK_EVERY_S = 0.02


def _space() -> str:
    return f"collective:{ray.get_runtime_context().namespace}"


def declare(
    group: str, world_size: int, backend: Backend, timeout_ms: int, ranks: dict[str, int]
) -> bool:
    """Note which actors are a group; ``False`` when that name has one."""
    told = {"size": world_size, "backend": backend, "timeout_ms": timeout_ms, "ranks": ranks}
    key = f"declared/{group}".encode()
    return not _heliostat.kv_put(
        key, json.dumps(told).encode(), namespace=_space(), overwrite=False
    )


def declared(group: str) -> dict[str, Any] | None:
    """Return the declaration of the group, if this actor is one of it."""
    actor = ray.get_runtime_context().get_actor_id()
    found = _heliostat.kv_get(f"declared/{group}".encode(), namespace=_space())
    told: dict[str, Any] = json.loads(found) if found is not None else {"ranks": {}}
    return {**told, "rank": told["ranks"][actor]} if actor in told["ranks"] else None


class Group:
    """The ranks of a group meet when each makes one of these."""

    def __init__(
        self, name: str, world_size: int, rank: int, backend: Backend, timeout_ms: int
    ) -> None:
        self.name, self.world_size, self.rank, self.backend = name, world_size, rank, backend
        self._timeout = timedelta(milliseconds=timeout_ms)
        self._store = dist.PrefixStore(name, self._meet())
        self._group = self._join()

    def _meet(self) -> Any:
        key, space = f"store/{self.name}".encode(), _space()
        if self.rank == 0:
            host = get_node_ip_address()
            store = dist.TCPStore(
                host, 0, self.world_size, True, self._timeout, wait_for_workers=False
            )
            _heliostat.kv_put(key, f"{host} {store.port}".encode(), namespace=space)
            return store
        deadline = time.monotonic() + self._timeout.total_seconds()
        while time.monotonic() < deadline:
            place = _heliostat.kv_get(key, namespace=space)
            if place is not None:
                host, port = place.decode().split()
                # One that is over may have left its address.
                with contextlib.suppress(RuntimeError):
                    return dist.TCPStore(
                        host, int(port), self.world_size, False, timedelta(seconds=2)
                    )
            time.sleep(_LOOK_EVERY_S)
        raise RuntimeError(
            f"Rank {self.rank} of the collective group {self.name!r} waited "
            f"{self._timeout.total_seconds():g} s for rank 0, which has not come. Each of the "
            f"{self.world_size} ranks must call init_collective_group; `gloo_timeout` says how many "
            "milliseconds each waits."
        )

    def _join(self) -> Any:
        if self.backend == Backend.NCCL:
            return dist.ProcessGroupNCCL(self._store, self.rank, self.world_size, self._timeout)
        return dist.ProcessGroupGloo(self._store, self.rank, self.world_size, self._timeout)

    def close(self) -> None:
        """Leave; the group has no further use in any process."""
        if self.rank == 0:
            for kind in ("store", "declared"):
                _heliostat.kv_del(f"{kind}/{self.name}".encode(), namespace=_space())
        del self._group, self._store

    def check_rank(self, rank: int, other: bool = False) -> None:
        """Raise for a rank that the group has not, and for the own one where ``other`` is meant."""
        if rank < 0:
            raise ValueError(f"rank '{rank}' is negative.")
        if rank >= self.world_size:
            raise ValueError(f"rank '{rank}' must be less than world size '{self.world_size}'")
        if other and rank == self.rank:
            raise RuntimeError(f"The destination rank '{rank}' is self.")

    def allreduce(self, tensor: Any, op: ReduceOp) -> None:
        """Each rank gets the reduction of all."""
        with _contiguous(tensor) as (own,):
            self._group.allreduce([own], _OPS[op]).wait()

    def reduce(self, tensor: Any, dst_rank: int, op: ReduceOp) -> None:
        """Give one rank the reduction of all; the tensors of the others stay as they are."""
        if self.rank == dst_rank:
            with _contiguous(tensor) as (own,):
                self._group.reduce(own, dst_rank, _OPS[op]).wait()
        else:  # gloo reduces by halves in the given tensor
            self._group.reduce(_tensor(tensor).clone(), dst_rank, _OPS[op]).wait()

    def broadcast(self, tensor: Any, src_rank: int) -> None:
        """Each rank gets the tensor of one."""
        with _contiguous(tensor) as (own,):
            self._group.broadcast(own, src_rank).wait()

    def allgather(self, tensors: Sequence[Any], tensor: Any) -> None:
        """Each rank gets the tensors of all."""
        self._check_count(tensors)
        with _contiguous(*tensors) as own:
            self._group.allgather([list(own)], [_tensor(tensor).contiguous()]).wait()

    def reducescatter(self, tensor: Any, tensors: Sequence[Any], op: ReduceOp) -> None:
        """Each rank gets its part of the reduction of all lists."""
        self._check_count(tensors)
        given = [_tensor(each).contiguous() for each in tensors]
        with _contiguous(tensor) as (own,):
            if self.backend == Backend.NCCL:
                self._group.reduce_scatter(own, given, _OPS[op]).wait()
                return
            # Not every release of gloo scatters.
            reduced = torch.stack(given)
            self._group.allreduce([reduced], _OPS[op]).wait()
            own.copy_(reduced[self.rank])

    def send(self, tensor: Any, dst_rank: int) -> None:
        """Send to one rank, which receives."""
        self._group.send([_tensor(tensor).contiguous()], dst_rank, 0).wait()

    def recv(self, tensor: Any, src_rank: int) -> None:
        """Receive what one rank sends."""
        with _contiguous(tensor) as (own,):
            self._group.recv([own], src_rank, 0).wait()

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._group.barrier().wait()

    def _check_count(self, tensors: Sequence[Any]) -> None:
        if len(tensors) != self.world_size:
            raise RuntimeError(
                f"The length of the tensor list must be equal to the world size {self.world_size}, "
                f"not {len(tensors)}."
            )


def _written(value: Any) -> torch.Tensor:
    """A tensor over the same memory, for a result; an array of the object store leaves it first."""
    if isinstance(value, np.ndarray) and not value.flags.writeable and not _is_private(value):
        _leave_the_store(value)
    return _tensor(value)


def _tensor(value: Any) -> torch.Tensor:
    """A tensor over the same memory."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value if value.flags.writeable else _alias(value))
    raise RuntimeError(
        f"Unrecognized tensor type '{type(value)}'. Supported types are: np.ndarray, torch.Tensor."
    )


def _alias(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A second array over the memory of one that is read-only, as all values of calls are.

    PyTorch warns of read-only arrays, although it only reads where the caller does.
    """
    if array.dtype.hasobject:
        return array  # which no tensor is made of; PyTorch says so
    low, high = _span(array)
    memory = (ctypes.c_char * max(high - low, 1)).from_address(low)
    return np.ndarray(array.shape, array.dtype, memory, array.ctypes.data - low, array.strides)


def _span(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The begin and end of the memory of an array's elements."""
    if not array.size:
        return array.ctypes.data, array.ctypes.data
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low = array.ctypes.data + sum(step for step in steps if step < 0)
    return low, array.ctypes.data + sum(step for step in steps if step > 0) + array.itemsize


def _is_private(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's memory is this process's own, and can be written."""
    begin, end = _span(array)
    with open("/proc/self/maps") as maps:
        for line in maps:
            place, rights, *_ = line.split()
            low, high = (int(part, 16) for part in place.split("-"))
            if low <= begin and end <= high:
                return rights.startswith("rw") and rights.endswith("p")
    return False


def _leave_the_store(array: np.ndarray[Any, Any]) -> None:
    """Give an array memory of its own, as unpickling would: what lies in the store never changes (SHM-1).

    Arrays that were made of it before keep the memory that they see.
    """
    before = array.base
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    content = array.tobytes("F" if is_fortran else "C")
    array.__setstate__((1, array.shape, array.dtype, is_fortran, content))
    # Views of this array hold it, and by it what they see.
    weakref.finalize(array, _let_go, before).atexit = False


def _let_go(_: Any) -> None: ...


@contextlib.contextmanager
def _contiguous(*values: Any) -> Any:
    """Tensors that the backend takes; what it writes is brought back."""
    tensors = [_written(value) for value in values]
    passed = [tensor.detach().contiguous() for tensor in tensors]
    yield tuple(passed)
    for tensor, result in zip(tensors, passed, strict=True):
        if result.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(result)
