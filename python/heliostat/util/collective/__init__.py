"""Collective calls among actors and tasks: ``allreduce`` and its kin, by gloo or NCCL through PyTorch.

Each process of a group calls :func:`init_collective_group`, or the driver declares actors as a group by
:func:`create_collective_group`; then each rank makes the same calls in the same order. Tensors are
PyTorch's, or arrays of numpy, and are written in place. A group is one of its namespace, and its name is
free again when rank 0 has called :func:`destroy_collective_group`.

Every call raises ``RuntimeError`` in a process that is in no such group, for a tensor of another kind, and
when another rank ends or does not come within the timeout of the group.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.core.platform.extras import expected
from heliostat.util.collective.types import Backend, ReduceOp

if TYPE_CHECKING:
    from heliostat.util.collective.group import Group

__all__ = [
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_group_handle",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_backend_available",
    "is_group_initialized",
    "nccl_available",
    "recv",
    "reduce",
    "reducescatter",
    "send",
]

TIMEOUT_MS = 30_000

_lock = threading.Lock()
_groups: dict[str, Group] = {}


def nccl_available() -> bool:
    """Whether PyTorch here has NCCL and a GPU for it.

    Examples:
        >>> from ray.util import collective
        >>> backend = "nccl" if collective.nccl_available() else "gloo"
        >>> collective.is_backend_available(backend)
        True
    """
    if importlib.util.find_spec("torch") is None:
        return False
    import torch.distributed

    return bool(torch.cuda.is_available() and torch.distributed.is_nccl_available())


def gloo_available() -> bool:
    """Whether PyTorch here has gloo.

    Examples:
        >>> from ray.util import collective
        >>> collective.gloo_available()
        True
    """
    if importlib.util.find_spec("torch") is None:
        return False
    import torch.distributed

    return bool(torch.distributed.is_available() and torch.distributed.is_gloo_available())


def is_backend_available(backend: str) -> bool:
    """Say whether a backend can be used here.

    Args:
        backend: ``"gloo"`` or ``"nccl"``.

    Returns:
        Whether it can; ``False`` for a name that is none.

    Examples:
        >>> from ray.util import collective
        >>> collective.is_backend_available("gloo"), collective.is_backend_available("pigeon")
        (True, False)
    """
    try:
        return nccl_available() if Backend(backend) == Backend.NCCL else gloo_available()
    except ValueError:
        return False


def _checked(backend: str) -> Backend:
    found = Backend(backend)
    if not is_backend_available(found):
        raise RuntimeError(
            f"The backend {backend!r} is not available here: "
            + (
                "it needs PyTorch with NCCL, and a GPU."
                if found == Backend.NCCL
                else "it needs PyTorch."
            )
        )
    return found


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = TIMEOUT_MS,
) -> None:
    """Join a group; waits for the others.

    Args:
        world_size: how many ranks there are.
        rank: this process's, from 0.
        backend: ``"gloo"`` or ``"nccl"``.
        group_name: the same in all ranks.
        gloo_timeout: how long to wait for others, now and in each call, in milliseconds.

    Raises:
        RuntimeError: this is not an actor or task, the process is in such a group, or others did not come.
        ValueError: the rank is not below the size, or there is no such backend.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... class Worker:
        ...     def sum(self, rank):
        ...         collective.init_collective_group(2, rank, backend="gloo")
        ...         mine = np.full(2, rank + 1.0)
        ...         collective.allreduce(mine)
        ...         return mine.tolist()
        >>> workers = [Worker.remote(), Worker.remote()]
        >>> ray.get([worker.sum.remote(rank) for rank, worker in enumerate(workers)])
        [[3.0, 3.0], [3.0, 3.0]]
    """
    if not ray.is_initialized() or ray.get_runtime_context().worker.mode != ray.WORKER_MODE:
        raise RuntimeError("The collective APIs shall be only used inside a Ray actor or task.")
    if not group_name:
        raise ValueError("group_name must be a text that is not empty.")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(
            f"rank {rank} is not one of a group of {world_size}: 0 to {world_size - 1}."
        )
    expected("torch", "Collective groups")
    found = _checked(backend)
    from heliostat.util.collective.group import Group

    with _lock:
        if group_name in _groups:
            raise RuntimeError("Trying to initialize a group a second time.")
        _groups[group_name] = Group(group_name, world_size, rank, found, gloo_timeout)


def create_collective_group(
    actors: Sequence[Any],
    world_size: int,
    ranks: Sequence[int],
    backend: str = Backend.NCCL,
    group_name: str = "default",
    gloo_timeout: int = TIMEOUT_MS,
) -> None:
    """Declare actors as a group: each joins at its first collective call.

    Args:
        actors: handles, one for each rank.
        world_size: how many there are.
        ranks: of each actor.
        backend: ``"gloo"`` or ``"nccl"``.
        group_name: by which the actors name the group in their calls.
        gloo_timeout: how long a rank waits for others, in milliseconds.

    Raises:
        RuntimeError: ranks and actors do not fit, or there is a group of that name.
        ValueError: there is no such backend.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... class Worker:
        ...     def sum(self, value):
        ...         mine = np.full(2, value)
        ...         collective.allreduce(mine, group_name="pair")
        ...         return mine.tolist()
        >>> workers = [Worker.remote(), Worker.remote()]
        >>> collective.create_collective_group(
        ...     workers, world_size=2, ranks=[0, 1], backend="gloo", group_name="pair"
        ... )
        >>> ray.get([workers[0].sum.remote(1.0), workers[1].sum.remote(2.0)])
        [[3.0, 3.0], [3.0, 3.0]]
    """
    if len(actors) != len(ranks) or len(actors) != world_size:
        raise RuntimeError(
            f"world_size={world_size}, {len(actors)} actors and {len(ranks)} ranks: each actor has one rank."
        )
    if sorted(ranks) != list(range(world_size)):
        raise RuntimeError(
            f"Ranks must be a permutation from 0 to {world_size - 1}. Got {list(ranks)}."
        )
    if not group_name:
        raise ValueError("group_name must be a text that is not empty.")
    expected("torch", "Collective groups")
    from heliostat.util.collective.group import declare

    members = {actor._actor_id.hex(): rank for actor, rank in zip(actors, ranks, strict=True)}
    if not declare(group_name, world_size, Backend(backend), gloo_timeout, members):
        raise RuntimeError("Trying to initialize a group twice.")


def destroy_collective_group(group_name: str = "default") -> None:
    """Leave a group; a process that is in none has nothing to do.

    Args:
        group_name: The group's name.

    Examples:
        >>> from ray.util import collective
        >>> collective.destroy_collective_group("a group that this process is not in")
    """
    with _lock:
        group = _groups.pop(group_name, None)
    if group is not None:
        group.close()


def is_group_initialized(group_name: str) -> bool:
    """Say whether this process has joined the group.

    Args:
        group_name: The group's name.

    Returns:
        Whether it has.

    Examples:
        >>> from ray.util import collective
        >>> collective.is_group_initialized("a group that this process is not in")
        False
    """
    return group_name in _groups


def get_group_handle(group_name: str = "default") -> Group:
    """The group of this process; a declared one is joined.

    Args:
        group_name: The group's name.

    Returns:
        The group.

    Raises:
        RuntimeError: this process is in no such group.

    Examples:
        >>> from ray.util import collective
        >>> def place():  # in an actor of the group
        ...     group = collective.get_group_handle("pair")
        ...     return group.rank, group.world_size
        >>> try:
        ...     collective.get_group_handle("pair")
        ... except RuntimeError:
        ...     print("a driver is in no group")
        a driver is in no group
    """
    group = _groups.get(group_name)
    if group is not None:
        return group
    if ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None:
        from heliostat.util.collective.group import declared

        found = declared(group_name)
        if found is not None:
            init_collective_group(
                found["size"], found["rank"], found["backend"], group_name, found["timeout_ms"]
            )
            return _groups[group_name]
    raise RuntimeError(f"The collective group '{group_name}' is not initialized in the process.")


def get_rank(group_name: str = "default") -> int:
    """This process's rank in the group.

    Args:
        group_name: The group's name.

    Returns:
        The rank, from 0; -1: this process is not in the group.

    Examples:
        >>> from ray.util import collective
        >>> collective.get_rank("a group that this process is not in")
        -1
    """
    return _groups[group_name].rank if group_name in _groups else -1


def get_collective_group_size(group_name: str = "default") -> int:
    """The number of ranks of the group.

    Args:
        group_name: The group's name.

    Returns:
        The number; -1: this process is not in the group.

    Examples:
        >>> from ray.util import collective
        >>> collective.get_collective_group_size("a group that this process is not in")
        -1
    """
    return _groups[group_name].world_size if group_name in _groups else -1


def allreduce(tensor: Any, group_name: str = "default", op: ReduceOp = ReduceOp.SUM) -> None:
    """Reduce the tensors of all ranks; each gets the result, in place.

    Args:
        tensor: A tensor or an array of this rank; of the same shape and type on all ranks.
        group_name: The group's name.
        op: How: ``ReduceOp.SUM`` (the default), ``PRODUCT``, ``MIN`` or ``MAX``.

    Raises:
        RuntimeError: This process is not in the group.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> from ray.util.collective.types import ReduceOp
        >>> @ray.remote
        ... def greatest(rank):
        ...     collective.init_collective_group(2, rank, backend="gloo", group_name="greatest")
        ...     mine = np.array([float(rank)])
        ...     collective.allreduce(mine, group_name="greatest", op=ReduceOp.MAX)
        ...     collective.destroy_collective_group("greatest")
        ...     return mine.tolist()
        >>> ray.get([greatest.remote(0), greatest.remote(1)])
        [[1.0], [1.0]]
    """
    get_group_handle(group_name).allreduce(tensor, op)


def barrier(group_name: str = "default") -> None:
    """Wait until all ranks are here.

    Args:
        group_name: The group's name.

    Raises:
        RuntimeError: This process is not in the group.

    Examples:
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... class Worker:
        ...     def meet(self, rank):  # of ranks 0 and 1
        ...         collective.init_collective_group(2, rank, backend="gloo")
        ...         collective.barrier()
        ...         return "both are here"
        >>> def main():
        ...     workers = [Worker.remote(), Worker.remote()]
        ...     return ray.get([worker.meet.remote(rank) for rank, worker in enumerate(workers)])
    """
    get_group_handle(group_name).barrier()


def reduce(
    tensor: Any, dst_rank: int = 0, group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Reduce the tensors of all ranks; one gets the result, in place.

    Args:
        tensor: A tensor or an array of this rank; of the same shape and type on all ranks.
        dst_rank: The rank that receives, from 0.
        group_name: The group's name.
        op: How: ``ReduceOp.SUM`` (the default), ``PRODUCT``, ``MIN`` or ``MAX``.

    Raises:
        RuntimeError: This process is not in the group.
        ValueError: There is no such rank.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... class Worker:
        ...     def sum(self, rank):  # of ranks 0 and 1
        ...         collective.init_collective_group(2, rank, backend="gloo")
        ...         mine = np.full(2, rank + 1.0)
        ...         collective.reduce(mine, dst_rank=0)
        ...         return mine.tolist() if rank == 0 else None
        >>> def main():  # [[3.0, 3.0], None]
        ...     workers = [Worker.remote(), Worker.remote()]
        ...     return ray.get([worker.sum.remote(rank) for rank, worker in enumerate(workers)])
    """
    group = get_group_handle(group_name)
    group.check_rank(dst_rank)
    group.reduce(tensor, dst_rank, op)


def broadcast(tensor: Any, src_rank: int = 0, group_name: str = "default") -> None:
    """Give every rank the tensor of one, in place.

    Args:
        tensor: A tensor or an array of this rank; of the same shape and type on all ranks.
        src_rank: The rank that sends, from 0.
        group_name: The group's name.

    Raises:
        RuntimeError: This process is not in the group.
        ValueError: There is no such rank.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... def weights(rank):
        ...     collective.init_collective_group(2, rank, backend="gloo", group_name="weights")
        ...     mine = np.full(2, 7.0) if rank == 0 else np.zeros(2)
        ...     collective.broadcast(mine, src_rank=0, group_name="weights")
        ...     collective.destroy_collective_group("weights")
        ...     return mine.tolist()
        >>> ray.get([weights.remote(0), weights.remote(1)])[1]
        [7.0, 7.0]
    """
    group = get_group_handle(group_name)
    group.check_rank(src_rank)
    group.broadcast(tensor, src_rank)


def allgather(tensor_list: list[Any], tensor: Any, group_name: str = "default") -> None:
    """Fill a list, one tensor a rank, with the tensors of all ranks.

    Args:
        tensor_list: As many tensors as the group has ranks; they are overwritten.
        tensor: A tensor or an array of this rank; of the same shape and type on all ranks.
        group_name: The group's name.

    Raises:
        RuntimeError: This process is not in the group.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... def gathered(rank):
        ...     collective.init_collective_group(2, rank, backend="gloo", group_name="gathered")
        ...     everything = [np.zeros(1), np.zeros(1)]
        ...     collective.allgather(everything, np.array([rank + 1.0]), group_name="gathered")
        ...     collective.destroy_collective_group("gathered")
        ...     return [tensor.tolist() for tensor in everything]
        >>> ray.get([gathered.remote(0), gathered.remote(1)])[1]
        [[1.0], [2.0]]
    """
    get_group_handle(group_name).allgather(tensor_list, tensor)


def reducescatter(
    tensor: Any, tensor_list: list[Any], group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Reduce the lists of all ranks, one tensor a rank; each rank gets its own one in ``tensor``.

    Args:
        tensor: What is overwritten with this rank's part.
        tensor_list: As many tensors as the group has ranks.
        group_name: The group's name.
        op: How: ``ReduceOp.SUM`` (the default), ``PRODUCT``, ``MIN`` or ``MAX``.

    Raises:
        RuntimeError: This process is not in the group.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... class Worker:
        ...     def sum(self, rank):  # of ranks 0 and 1
        ...         collective.init_collective_group(2, rank, backend="gloo")
        ...         mine = np.zeros(1)
        ...         collective.reducescatter(mine, [np.full(1, rank + 1.0), np.full(1, rank + 10.0)])
        ...         return mine.tolist()
        >>> def main():  # [[3.0], [21.0]]
        ...     workers = [Worker.remote(), Worker.remote()]
        ...     return ray.get([worker.sum.remote(rank) for rank, worker in enumerate(workers)])
    """
    get_group_handle(group_name).reducescatter(tensor, tensor_list, op)


def send(tensor: Any, dst_rank: int, group_name: str = "default") -> None:
    """Send a tensor to one rank, which calls :func:`recv`.

    Args:
        tensor: A tensor or an array of this rank; of the same shape and type on all ranks.
        dst_rank: The rank that receives, from 0.
        group_name: The group's name.

    Raises:
        RuntimeError: This process is not in the group, or the rank is its own.
        ValueError: There is no such rank.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... def exchange(rank):
        ...     collective.init_collective_group(2, rank, backend="gloo", group_name="post")
        ...     letter = np.array([5.0 if rank == 0 else 0.0])
        ...     if rank == 0:
        ...         collective.send(letter, dst_rank=1, group_name="post")
        ...     else:
        ...         collective.recv(letter, src_rank=0, group_name="post")
        ...     collective.destroy_collective_group("post")
        ...     return letter.tolist()
        >>> ray.get([exchange.remote(0), exchange.remote(1)])[1]
        [5.0]
    """
    group = get_group_handle(group_name)
    group.check_rank(dst_rank, other=True)
    group.send(tensor, dst_rank)


def recv(tensor: Any, src_rank: int, group_name: str = "default") -> None:
    """Receive in place what one rank sends.

    Args:
        tensor: What is overwritten; of the shape and type of what is sent.
        src_rank: The rank that sends, from 0.
        group_name: The group's name.

    Raises:
        RuntimeError: This process is not in the group, or the rank is its own.
        ValueError: There is no such rank.

    Examples:
        >>> import numpy as np
        >>> import ray
        >>> from ray.util import collective
        >>> @ray.remote
        ... class Worker:
        ...     def talk(self, rank):  # of ranks 0 and 1
        ...         collective.init_collective_group(2, rank, backend="gloo")
        ...         mine = np.array([7.0 - rank])
        ...         if rank == 0:
        ...             collective.send(mine, dst_rank=1)
        ...         else:
        ...             collective.recv(mine, src_rank=0)
        ...         return mine.tolist()
        >>> def main():  # [[7.0], [7.0]]
        ...     workers = [Worker.remote(), Worker.remote()]
        ...     return ray.get([worker.talk.remote(rank) for rank, worker in enumerate(workers)])
    """
    group = get_group_handle(group_name)
    group.check_rank(src_rank, other=True)
    group.recv(tensor, src_rank)
