"""Asynchronous sharded checkpoints of a rank: copied beside the step, written beside the training."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.staging import AsyncStager

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.storage.base import Storage
from heliostat.train.torch.resume import files
from heliostat.train.torch.resume.background import Copier
from heliostat.train.torch.resume.pinned import PinnedCopies, room_for
from heliostat.train.torch.resume.view import local, replaced, settled


class _Stager(AsyncStager):  # type: ignore[misc]  # torch's modules here have no types
    """Copies into memory that is kept for the next time, in the copier's thread."""

    def __init__(self, copier: Copier) -> None:
        self._copier = copier
        self._kept: dict[str, torch.Tensor] = {}
        self._pinned = PinnedCopies()

    def stage(self, state_dict: dict[str, Any], **_: Any) -> Future[dict[str, Any]]:
        """Begin to copy."""
        done: Future[dict[str, Any]] = Future()
        tensors = {
            name: local(value)
            for name, value in state_dict.items()
            if isinstance(value, torch.Tensor)
        }
        copies, copied = self._pinned.begin(tensors) or ({}, [])

        def copy() -> None:
            try:
                for event in copied:
                    event.synchronize()
                if not copied:
                    copies.update((name, self._copy(name, data)) for name, data in tensors.items())
                staged = {
                    name: _staged(value, copies[name]) if name in copies else value
                    for name, value in state_dict.items()
                }
            except BaseException as error:
                done.set_exception(error)
                raise
            done.set_result(staged)

        self._copier.start(copy, copied)
        return done

    def _copy(self, name: str, data: torch.Tensor) -> torch.Tensor:
        return room_for(self._kept, name, data, pinned=False).copy_(data)

    def close(self) -> None:
        """Nothing is open."""


def _staged(value: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    return replaced(value, lambda _: copy)


class Saver:
    """Writes checkpoints one after the other; all ranks call it alike."""

    def __init__(self, storage: Storage, copier: Copier, key: str, rank: int, fsync: bool) -> None:
        self._storage = storage
        self._stager = _Stager(copier)
        self._copier = copier
        self._key = key
        self._rank = rank
        self._fsync = fsync
        self._world_size = dist.get_world_size() if dist.is_initialized() else 1
        # A process group of its own: messages to the peers must not come between the collectives of a step.
        self._group = dist.new_group(backend="gloo") if dist.is_initialized() else None
        self._under_way: Future[Any] | None = None
        self._count = 0

    def begin(
        self, flat: dict[str, Any], stepped: set[int], metadata: dict[str, Any]
    ) -> Callable[[], Checkpoint]:
        """Begin to save; returns a function that waits for the end of it and returns the checkpoint."""
        self.wait()
        folder = self._folder()
        response = dcp.async_save(
            settled(flat, stepped),
            storage_writer=FileSystemWriter(folder, sync_files=self._fsync),
            planner=DefaultSavePlanner(flatten_state_dict=False, flatten_sharded_tensors=False),
            process_group=self._group,
            async_stager=self._stager,
            no_dist=self._group is None,
        )
        written: Future[Any] = getattr(response, "upload_completion", response)
        self._under_way = written

        def finish() -> Checkpoint:
            try:
                written.result()
                if self._rank == 0:
                    Checkpoint(folder).set_metadata(metadata)
                files.sign(folder, self._rank, self._world_size)
            except BaseException as error:
                shutil.rmtree(folder, ignore_errors=True)
                if isinstance(error, CheckpointException) and error.failures:
                    rank, (cause, _) = min(error.failures.items(), key=lambda item: item[0])
                    raise OSError(f"on rank {rank}: {cause}") from error
                raise
            return Checkpoint(folder)

        return finish

    def _folder(self) -> str:
        """The folder from which files are moved to their place, if the storage is a folder."""
        self._count += 1
        if self._storage.filesystem is not None:
            return tempfile.mkdtemp(prefix="checkpoint_")
        # The writer makes it: where that fails on one rank, all of them hear of it.
        return self._storage.join(".staging", f"saving-{self._key}-{self._rank}-{self._count}")

    def wait(self) -> None:
        """Wait for what is being written; whoever finishes it says what went wrong."""
        written, self._under_way = self._under_way, None
        if written is not None:
            written.exception()
        self._copier.wait()
