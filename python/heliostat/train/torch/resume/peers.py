"""This rank's side of state in peers' memory: handing parts to keepers, and taking them back."""

from __future__ import annotations

from typing import Any

import torch

import heliostat as ray
from heliostat.train.memory.sender import Sender, fetch
from heliostat.train.memory.versions import MemoryOffer, Version
from heliostat.train.torch.resume import files
from heliostat.train.torch.resume.background import Copier
from heliostat.train.torch.resume.pinned import PinnedCopies
from heliostat.train.torch.resume.shards import Header, MemoryReader, as_bytes, part
from heliostat.train.torch.resume.view import settled
from heliostat.train.worker.session import WorkerSession


class Giver:
    """Hands this rank's part to its keepers every so many steps."""

    def __init__(self, session: WorkerSession, copier: Copier) -> None:
        assignment = session.assignment
        self._assignment = assignment
        self._copier = copier
        self._sender = Sender(session, assignment.world_rank, assignment.world_size)
        self._pinned = PinnedCopies()

    def is_due(self, step: int) -> bool:
        """Whether the state after ``step`` steps is to be kept."""
        return self._sender.is_due(step)

    def give(self, step: int, flat: dict[str, Any], stepped: set[int]) -> None:
        """Begin to hand over the state; the copy is done before an optimizer's next step."""
        self.wait()  # one at a time
        assignment = self._assignment
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
            self._sender.begin(version, header.dump(), reference)

        self._copier.start(copy, copied)

    def wait(self) -> None:
        """Wait until what is under way is kept."""
        self._copier.wait()
        self._sender.wait()


def take(offer: MemoryOffer, flat: dict[str, Any]) -> None:
    """Fill ``flat`` in place from memory, however it was sharded.

    Raises:
        DamagedCheckpointError: A part is gone meanwhile.
        CheckpointMismatchError: It is the state of another model.
    """
    headers = {rank: Header.load(copies[0].header) for rank, copies in offer.parts.items()}

    def fetched(rank: int) -> list[Any]:
        return fetch(offer.parts[rank], f"rank {rank}")

    reader = MemoryReader(headers, fetched)
    files.load(flat, reader, "The state in peers' memory")
    flat.update((name, value) for name, value in reader.values().items() if name in flat)
