"""The contract of a run's storage. Invariant **CKPT-1**: a checkpoint is visible whole or not.

Ranks upload their files into a *staging* place that only the attempt and the number of the report
name, so that no message is needed to agree on it. When all ranks have arrived, the coordinator
publishes: it moves the staged files to their final name, then records the checkpoint in the
snapshot. Only what the snapshot records is ever offered for a restart.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from typing import Any

MARKER_FILE = ".validate_storage_marker"
SNAPSHOT_FILE = "checkpoint_manager_snapshot.json"


class Storage(ABC):
    """The folder of one run. Objects are small and are sent to all workers.

    Attributes:
        path: The folder of the run.
        filesystem: The ``pyarrow.fs`` filesystem, None for the local disk.
    """

    def __init__(self, path: str, filesystem: Any | None, fsync: bool) -> None:
        self.path = path
        self.filesystem = filesystem
        self._fsync = fsync

    @property
    def name(self) -> str:
        """The name of the run."""
        return os.path.basename(self.path.rstrip("/"))

    # ---- the names by which Ray has them ----

    @property
    def experiment_dir_name(self) -> str:
        """The name of the run."""
        return self.name

    @property
    def experiment_fs_path(self) -> str:
        """The folder of the run."""
        return self.path

    @property
    def storage_fs_path(self) -> str:
        """The folder that holds the runs."""
        return os.path.dirname(self.path.rstrip("/"))

    @property
    def storage_filesystem(self) -> Any:
        """The ``pyarrow.fs`` filesystem, also of the local disk. Raises ImportError without pyarrow."""
        from pyarrow.fs import LocalFileSystem

        return self.filesystem or LocalFileSystem()

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """Return the path of the checkpoint of that name."""
        return self.join(checkpoint_name)

    # ---- files ----

    def join(self, *parts: str) -> str:
        """A path inside the folder of the run."""
        return "/".join((self.path.rstrip("/"), *parts))

    def prepare(self) -> None:
        """Create the folder and the marker file in it. Raises OSError when that is impossible."""
        self.write(MARKER_FILE, b"")

    def take_place(self) -> bool:
        """Whether no run has this folder, as far as can be told."""
        return not self.sees_marker()

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """For the time of a run. Raises ValueError where another one is seen to use the folder."""
        return contextlib.nullcontext()

    def sees_marker(self) -> bool:
        """Whether this node sees the marker that the driver wrote."""
        return self.read(MARKER_FILE) is not None

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """Content of a file of the run, None when there is no such file."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run so that a reader sees the old or the new content, whole."""

    @abstractmethod
    def upload(self, folder: str, stage: str, final: str) -> None:
        """Bring all files of a local folder to where ``publish(stage, final)`` expects them."""

    @abstractmethod
    def take(self, folder: str, stage: str, final: str) -> None:
        """Like ``upload``, and consume the local folder: its files may be moved."""

    @abstractmethod
    def publish(self, stage: str, final: str) -> None:
        """Give the staged files their final name."""

    @abstractmethod
    def retain(self, name: str, files: set[str]) -> None:
        """Remove what is in a folder of the run and not among ``files``, which are paths in it."""

    @abstractmethod
    def abandon(self, stage: str) -> None:
        """Remove what was brought for ``stage``, which will not be published."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a folder of the run, if it is there."""

    @abstractmethod
    def clear_staging(self) -> None:
        """Remove what interrupted uploads have left."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a folder of the run is there."""


def files_below(folder: str) -> list[str]:
    """The files of a local folder, as paths in it with slashes."""
    return [
        os.path.relpath(os.path.join(here, name), folder).replace(os.sep, "/")
        for here, _, names in os.walk(folder)
        for name in names
    ]
