"""The process groups of one quorum: made anew for each, and cut at once when it breaks."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from heliostat.train.replicas.messages import Seat
from heliostat.train.torch.sockets import sockets

# How long a process group may take to be made before its members are taken for unreachable.
_MAKE_S = 20.0
_POLL_S = 0.0005
_DOOR_TRIES = 5


class BrokenRing(Exception):
    """A member of the quorum cannot be reached, or the quorum was given up."""


class Door:
    """The listener for the gloo connections of this process; one for all of its rings."""

    def __init__(self, host: str) -> None:
        self.port: int | None = None
        for _ in range(_DOOR_TRIES):
            before = set(_listeners())
            self.device = dist.ProcessGroupGloo.create_device(hostname=host)
            ports = [port for inode, port in _listeners().items() if inode not in before]
            if len(ports) == 1:  # else another thread has opened one at the same time
                self.port = ports[0]
                break

    def cut(self, others: set[int]) -> None:
        """Close the connections with the doors at the ports ``others``.

        ``abort`` of gloo lets operations under way go on to their timeout; so they end at once.
        """
        for descriptor in _connections(self.port, others):
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as peer:
                peer.shutdown(socket.SHUT_RDWR)


class Ring:
    """All ranks of a quorum, and this shard of all of its groups."""

    def __init__(
        self,
        prefix: str,
        quorum: int,
        groups: tuple[int, ...],
        seat: Seat,
        door: Door,
    ) -> None:
        """Connect to all members; returns when all of them have.

        Raises:
            RuntimeError: Some member did not come in time.
        """
        self.quorum = quorum
        self.groups = groups
        self._door = door
        self._is_cut = False
        self._timeout = timedelta(seconds=seat.timeout_s)
        store = dist.TCPStore(
            seat.store[0],
            seat.store[1],
            is_master=False,
            timeout=timedelta(seconds=_MAKE_S),
            wait_for_workers=False,
        )
        place = dist.PrefixStore(f"{prefix}/{quorum}", store)
        me = groups.index(seat.group)
        self.votes = self._gloo(
            dist.PrefixStore("votes", place), me * seat.size + seat.shard, len(groups) * seat.size
        )
        self.data: Any = self.votes
        shard = dist.PrefixStore(f"shard{seat.shard}", place)
        if seat.backend == "nccl":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = self._timeout
            self.data = dist.ProcessGroupNCCL(shard, me, len(groups), options)
        elif seat.size > 1:
            self.data = self._gloo(shard, me, len(groups))
        self._nccl = seat.backend == "nccl"

    def _gloo(self, store: Any, rank: int, size: int) -> Any:
        options = dist.ProcessGroupGloo._Options()
        options._devices = [self._door.device]
        options._timeout = self._timeout
        return dist.ProcessGroupGloo(store, rank, size, options)

    @property
    def is_cut(self) -> bool:
        """Whether it was given up."""
        return self._is_cut

    def allreduce(self, tensor: torch.Tensor) -> Any:
        """Begin to sum ``tensor`` over the groups; returns the work to wait for."""
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        return self.data.allreduce([tensor], options)

    def wait(self, works: list[Any]) -> None:
        """Wait until all works are done. Raises RuntimeError or BrokenRing when one cannot be."""
        for work in works:
            work.wait()
        if self._nccl and works:
            done = torch.cuda.Event()
            done.record()
            # NCCL itself does not tell of a peer that is gone: the coordinator does, and cuts.
            while not done.query():
                if self._is_cut:
                    raise BrokenRing("the quorum was given up")
                time.sleep(_POLL_S)
        if self._is_cut:
            raise BrokenRing("the quorum was given up")

    def vote(self, values: torch.Tensor) -> list[int]:
        """Sum ``values`` over all ranks: who returns from it knows that all have voted."""
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        self.votes.allreduce([values], options).wait()
        found: list[int] = values.tolist()
        return found

    def give_up(self) -> None:
        """Give the ring up: operations under way end with an error, once the door is cut."""
        self._is_cut = True
        if self._nccl:
            with contextlib.suppress(Exception):
                self.data.abort()


def _listeners() -> dict[int, int]:
    """Inode and port of each TCP socket that listens."""
    found = {}
    for inode, descriptor in sockets().items():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6) and one.getsockopt(
                socket.SOL_SOCKET, socket.SO_ACCEPTCONN
            ):
                found[inode] = int(one.getsockname()[1])
    return found


def _connections(own: int | None, others: set[int]) -> list[int]:
    """Descriptors of connections between the doors of members: they arrived here, or go there."""
    found = []
    for descriptor in sockets().values():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as one:
            if one.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                continue
            if one.getsockname()[1] == own or one.getpeername()[1] in others:
                found.append(descriptor)
    return found
