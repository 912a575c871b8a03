"""Checkpoints that travel as objects, where a search's storage is not a disk.

Where trials take over from each other, the process that has made a checkpoint hands its files on, too. On
the same node the next one reads them out of the object store's memory, on another one they come from that
node; nothing is downloaded from the storage, which has them all the same.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heliostat.train.checkpoint import Checkpoint

if TYPE_CHECKING:
    import numpy as np

# LIMIT-1: what a checkpoint may have, in bytes, to be handed on; larger ones are read from the storage.
LARGEST = 1 << 30


@dataclass(frozen=True)
class Packed:
    """The files of a checkpoint.

    Attributes:
        path: Where it lies in the storage.
        files: By their paths below the checkpoint's folder, as arrays of bytes: a reader on the same
            node sees them where they are.
    """

    path: str
    files: dict[str, np.ndarray[Any, Any]]


def packed(folder: str, path: str) -> Packed | None:
    """The files of a folder; None where they are too large, or the folder has other things than files."""
    import numpy as np

    names, total = [], 0
    for here, folders, files in os.walk(folder):
        if any(os.path.islink(os.path.join(here, name)) for name in (*folders, *files)):
            return None
        if not files and not folders and here != folder:
            return None  # an empty folder
        for name in files:
            whole = os.path.join(here, name)
            total += os.path.getsize(whole)
            names.append(os.path.relpath(whole, folder))
        if total > LARGEST:
            return None
    return Packed(path, {name: np.fromfile(os.path.join(folder, name), np.uint8) for name in names})


class HandedCheckpoint(Checkpoint):
    """A checkpoint in a storage, whose files are here."""

    def __init__(self, packed: Packed, filesystem: object) -> None:
        super().__init__(packed.path, filesystem)
        self._packed = packed

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        target = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="checkpoint_")
        target = os.path.abspath(os.path.expanduser(target))
        os.makedirs(target, exist_ok=True)
        for name, data in self._packed.files.items():
            whole = os.path.join(target, name)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, "wb") as file:
                file.write(data.data)
        return target

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
            yield self.to_directory(folder)

    def __reduce__(self) -> tuple[object, ...]:
        """Elsewhere it is one of the storage."""
        return Checkpoint, (self.path, self._filesystem)
