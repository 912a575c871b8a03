"""This rank's side of state in peers' memory: handing parts to keepers, and taking them back."""

from __future__ import annotations

import threading
from typing import Any

import torch

import heliostat as ray
from heliostat.train.errors import DamagedCheckpointError
from heliostat.train.memory.versions import MemoryOffer, Version
from heliostat.train.torch.resume import files
from heliostat.train.torch.resume.background import Copier
from heliostat.train.torch.resume.pinned import PinnedCopies
from heliostat.train.torch.resume.shards import Header, MemoryReader, as_bytes, part
from heliostat.train.torch.resume.view import settled
from heliostat.train.worker.session import WorkerSession

# A part that cannot be fetched in so many seconds counts as lost.
_FETCH_S = 60.0


class Giver:
    """Hands this rank's part to its keepers every so many steps."""

    def __init__(self, session: WorkerSession, copier: Copier) -> None:
        assignment = session.assignment
        self._session = session
        self._copier = copier
        self._every: int = assignment.memory_every or 0
        self._keepers = assignment.keepers
        self._whole: Version | None = None
        self._sending: threading.Thread | None = None
        self._pinned = PinnedCopies()

    def is_due(self, step: int) -> bool:
        """Whether the state after ``step`` steps is to be kept."""
        return bool(self._every and self._keepers and step % self._every == 0)

    def give(self, step: int, flat: dict[str, Any], stepped: set[int]) -> None:
        """Begin to hand over the state; the copy is done before an optimizer's next step."""
        self.wait()  # one at a time
        assignment = self._session.assignment
        header, tensors = part(settled(flat, stepped), assignment.world_rank, assignment.world_size)
        version = Version(step, assignment.attempt)
        pinned = self._pinned.begin({str(place): tensor for place, tensor in enumerate(tensors)})
        copied: list[torch.cuda.Event] = []
        if pinned is not None:
            tensors, copied = list(pinned[0].values()), pinned[1]

        def copy() -> None:
            for event in copied:
                event.synchronize()
            reference = ray.put([as_bytes(tensor) for tensor in tensors])
            self._sending = threading.Thread(
                target=self._send, args=(version, header, reference), name="train-keep", daemon=True
            )
            self._sending.start()

        self._copier.start(copy, copied)

    def _send(self, version: Version, header: Header, reference: Any) -> None:
        """A keeper that is gone with its node is none: the next attempt makes another."""
        assignment, data = self._session.assignment, header.dump()
        rank, size = assignment.world_rank, assignment.world_size
        calls = [
            keeper.keep.remote(version, rank, size, data, [reference], self._whole)
            for keeper in self._keepers
        ]
        kept = 0
        for call in calls:
            try:
                ray.get(call)
                kept += 1
            except Exception:  # also that this process is about to end
                continue
        if kept:
            whole = self._session.memory_kept(version)
            if whole is not None:  # what this rank has handed over since need not be whole
                self._whole = whole

    def wait(self) -> None:
        """Wait until what is under way is kept."""
        self._copier.wait()
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.join()


def take(offer: MemoryOffer, flat: dict[str, Any]) -> None:
    """Fill ``flat`` in place from memory, however it was sharded.

    Raises:
        DamagedCheckpointError: A part is gone meanwhile.
        CheckpointMismatchError: It is the state of another model.
    """
    here = ray.get_runtime_context().get_node_id()
    headers = {rank: Header.load(copies[0].header) for rank, copies in offer.parts.items()}

    def fetch(rank: int) -> list[Any]:
        for copy in sorted(offer.parts[rank], key=lambda c: c.node_id != here):
            try:
                arrays: list[Any] = ray.get(copy.data[0], timeout=_FETCH_S)
            except Exception:  # gone with its keeper: there may be another copy
                continue
            return arrays
        raise DamagedCheckpointError(f"The part of rank {rank} of the state in memory is gone.")

    reader = MemoryReader(headers, fetch)
    files.load(flat, reader, "The state in peers' memory")
    flat.update((name, value) for name, value in reader.values().items() if name in flat)
