"""A worker's side of state in peers' memory: handing its parts to its keepers."""

from __future__ import annotations

import threading
from typing import Any

import heliostat as ray
from heliostat.train.errors import DamagedCheckpointError
from heliostat.train.memory.versions import Part, Version
from heliostat.train.worker.session import WorkerSession

# A part that cannot be fetched in so many seconds counts as lost.
_FETCH_S = 60.0


class Sender:
    """Hands over parts beside the training, one at a time."""

    def __init__(self, session: WorkerSession, rank: int, size: int) -> None:
        """Take this worker's parts as number ``rank`` of ``size``."""
        self._session = session
        self._rank, self._size = rank, size
        self._every: int = session.assignment.memory_every or 0
        self._keepers = session.assignment.keepers
        self._whole: Version | None = None
        self._sending: threading.Thread | None = None

    def is_due(self, step: int) -> bool:
        """Whether the state after ``step`` steps is to be kept."""
        return bool(self._every and self._keepers and step % self._every == 0)

    def begin(self, version: Version, header: bytes, reference: Any) -> None:
        """Begin to hand over a part that is in the object store."""
        self.wait()
        self._sending = threading.Thread(
            target=self._send, args=(version, header, reference), name="train-keep", daemon=True
        )
        self._sending.start()

    def _send(self, version: Version, header: bytes, reference: Any) -> None:
        """A keeper that is gone with its node is none: the next attempt makes another."""
        calls = [
            keeper.keep.remote(version, self._rank, self._size, header, [reference], self._whole)
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
            whole = self._session.memory_kept(version, self._rank, self._size)
            if whole is not None:  # what this rank has handed over since need not be whole
                self._whole = whole

    def wait(self) -> None:
        """Wait until what is under way is kept."""
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.join()


def fetch(copies: list[Part], whose: str) -> list[Any]:
    """The arrays of a part, from the copy that is nearest.

    Raises:
        DamagedCheckpointError: No copy is left.
    """
    here = ray.get_runtime_context().get_node_id()
    for copy in sorted(copies, key=lambda c: c.node_id != here):
        try:
            arrays: list[Any] = ray.get(copy.data[0], timeout=_FETCH_S)
        except Exception:  # gone with its keeper: there may be another copy
            continue
        return arrays
    raise DamagedCheckpointError(f"The part of {whose} of the state in memory is gone.")
