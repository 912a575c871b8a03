"""What a training function asks and says, as functions of one module: Ray's older form.

``session.report`` is ``train.report``, ``session.get_world_rank()`` is
``train.get_context().get_world_rank()``, and so on. Outside of a training function they raise
RuntimeError, as those do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.train.context import get_checkpoint, get_context, get_dataset_shard
from heliostat.train.reported import report

if TYPE_CHECKING:
    from heliostat.train.storage.base import Storage

__all__ = [
    "get_checkpoint",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_storage",
    "get_world_rank",
    "get_world_size",
    "report",
]


def get_experiment_name() -> str:
    """Return the name of the run."""
    return get_context().get_experiment_name()


def get_world_size() -> int:
    """Return the number of workers."""
    return get_context().get_world_size()


def get_world_rank() -> int:
    """Return this worker's number, from 0."""
    return get_context().get_world_rank()


def get_local_rank() -> int:
    """Return this worker's number among those on its node."""
    return get_context().get_local_rank()


def get_local_world_size() -> int:
    """Return the number of workers on this node."""
    return get_context().get_local_world_size()


def get_node_rank() -> int:
    """Return this node's number among those of the run."""
    return get_context().get_node_rank()


def get_storage() -> Storage | None:
    """Return where the run keeps its files."""
    return get_context().get_storage()


def __getattr__(name: str) -> Any:
    if name.startswith("get_trial_") or name == "get_metadata":

        def gone() -> Any:
            return getattr(get_context(), name)()  # says what to use instead

        return gone
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
