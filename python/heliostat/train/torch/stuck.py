"""The message when a collective operation of torch has waited longer than its bound."""

from __future__ import annotations

import contextlib
import traceback

import heliostat as ray
from heliostat.train.context import current_session
from heliostat.train.errors import MissingRankError
from heliostat.train.worker.session import WorkerSession

# The words of gloo, NCCL's watchdog and the store of torch.distributed for it.
_SIGNS = (
    "Timed out waiting",
    "Watchdog caught collective operation timeout",
    "Timed out after",
    "wait timeout",
)


# Modules between the function and torch, or that call the function.
_OURS = ("/train/worker/actor.py", "/train/torch/process_group.py", "/train/torch/timing.py")


def is_timeout(error: BaseException) -> bool:
    """Whether a collective operation has waited for too long."""
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)


def explained(error: BaseException, seconds: float, *, replaces: bool = False) -> Exception | None:
    """The error that names who is missing, with the Python stack of every rank; None for other errors.

    Call it while the connections to the peers are open: their stacks say who waits.
    """
    if not is_timeout(error):
        return None
    with contextlib.suppress(Exception):  # what went wrong is worth more than its explanation
        session = current_session("torch")
        if isinstance(session, WorkerSession):
            stack = "".join(traceback.format_list(_theirs(error)))
            me = session.assignment
            call = session.coordinator.timed_out.remote(
                me.attempt, me.world_rank, stack, seconds, replaces
            )
            text = ray.get(call)
            if text:
                return MissingRankError(text)
    return None


def _theirs(error: BaseException) -> list[traceback.FrameSummary]:
    """The frames of the training function and of what it calls."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if not f.filename.replace("\\", "/").endswith(_OURS)]
