"""What travels between the loop and a trial's process."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Spec:
    """One run of a trial."""

    trial_id: str
    trial_name: str
    experiment_name: str
    config: dict[str, Any]
    folder: str
    resources: Any
    is_lockstep: bool
    checkpoint: str | None = None  # what it goes on from
    checkpoints: int = 0  # how many it has made
    iteration: int = 0
    total_s: float = 0.0
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool = False
    log_files: tuple[str, str] | None = None  # in the folder: for output, for errors
    thread_s: float = 5.0  # for how long a function that was told to end is waited for
    home: str = field(default="")  # the process's own working directory


class RestoreFailed(Exception):
    """Raised from the error of a trainable that could not load its checkpoint."""


class Batch(NamedTuple):
    """Reports of a trial, and how it ended if it did."""

    results: list[dict[str, Any]] = []  # noqa: RUF012 # never changed
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
