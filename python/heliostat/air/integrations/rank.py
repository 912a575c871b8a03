"""The choice of the worker that tracks a run."""

from __future__ import annotations

from heliostat.train.context import get_context, has_session


def another_worker_tracks(rank_zero_only: bool) -> bool:
    """Whether this is a worker of a run whose rank 0 does the tracking."""
    return rank_zero_only and has_session() and get_context().get_world_rank() != 0


def run_name() -> str | None:
    """The name of the run that this worker belongs to, None outside of a training function."""
    return get_context().get_experiment_name() if has_session() else None
