"""The messages between the loop and a trial's process."""

from __future__ import annotations

import os
import pickle
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from heliostat.train.checkpoint import Checkpoint
from heliostat.tune.aliases import Config, Report
from heliostat.tune.trainable.checkpoint_objects import HandedCheckpoint, Packed

if TYPE_CHECKING:
    from heliostat.train.storage.arrow import ArrowStorage


@dataclass(frozen=True)
class Spec:
    """The description of a run of a trial."""

    trial_id: str
    trial_name: str
    experiment_name: str
    config: Config
    folder: str
    resources: Any
    is_lockstep: bool
    checkpoint: str | None = None  # what it goes on from
    checkpoints: int = 0  # how many it has made
    iteration: int = 0
    total_s: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)  # of steps, up to the checkpoint
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool = False
    log_files: tuple[str, str] | None = None  # in the folder: for output, for errors
    thread_s: float = 5.0  # for how long a function that was told to end is waited for
    storage: ArrowStorage | None = None  # of the search, where checkpoints do not go to a disk
    home: str = field(default="")  # the process's own working directory
    hands: bool = False  # whether checkpoints go on as objects, too
    handed: Packed | None = None  # the files of one that came so

    def checkpoint_at(self, path: str) -> Checkpoint:
        """The checkpoint with that path."""
        if self.handed is not None and self.handed.path == path and self.storage is not None:
            return HandedCheckpoint(self.handed, self.storage.filesystem)
        return checkpoint_at(path, self.storage)

    def store(self, folder: str, name: str) -> str:
        """Bring a checkpoint from a local folder to the search's storage; its path there.

        Raises:
            RuntimeError: What is stored there would be seen by this process alone.
        """
        from heliostat.tune.runner.mirror import is_of_one_process

        assert self.storage is not None
        if is_of_one_process(self.storage.filesystem):
            raise RuntimeError(
                f"{self.storage.path} is in the memory of the driver alone, and takes no checkpoints of "
                "trials: give RunConfig(storage_path=...) a folder that all nodes see, or an object store."
            )
        place = f"{os.path.basename(self.folder)}/{name}"
        self.storage.upload(folder, "", place)
        return self.storage.join(place)


def checkpoint_at(path: str, storage: ArrowStorage | None) -> Checkpoint:
    """The checkpoint with that path, in a search's storage or on a disk."""
    if storage is not None and path.startswith(storage.join("")):
        return Checkpoint(path, storage.filesystem)
    return Checkpoint(path)


class RestoreFailed(Exception):
    """Raised from the error of a trainable that could not load its checkpoint."""


class Batch(NamedTuple):
    """Reports of a trial, and how it ended if it did."""

    results: list[Report] = []  # noqa: RUF012 # never changed
    end: str | None = None  # "finished", "stopped" or "failed"
    checkpoint: str | None = None  # one that came with the end
    error: bytes = b""
    error_text: str = ""
    is_clean: bool = True  # whether the process can run another trial
    is_restoring: bool = False  # whether it failed to load its checkpoint


def failure(error: BaseException) -> Batch:
    """A batch that says how a trial failed."""
    from heliostat import cloudpickle

    restoring = isinstance(error, RestoreFailed)
    if restoring and error.__cause__ is not None:
        error = error.__cause__

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickled = cloudpickle.dumps(error)
        pickle.loads(pickled)
    except Exception:  # an error that cannot travel is told by its text
        pickled = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return Batch(end="failed", error=pickled, error_text=text, is_restoring=restoring)
