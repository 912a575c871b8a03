"""Reports of a trainer that runs in a trial, handed on to the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train.callbacks import TrainRunContext, UserCallback
from heliostat.tune.aliases import Report
from heliostat.tune.context import in_trial, report

if TYPE_CHECKING:
    from heliostat.train.checkpoint import Checkpoint

CHECKPOINT_PATH_KEY = "checkpoint_path"


class TuneReportCallback(UserCallback):
    """For ``RunConfig(callbacks=[...])`` of a trainer that a trial starts: reports reach the trial.

    Each report of all workers becomes one of the trial, with the metrics of rank 0. The checkpoint
    stays where the trainer has stored it; its path is the metric "checkpoint_path".

    Raises:
        RuntimeError: It is made outside of a trial.
    """

    def __init__(self) -> None:
        if not in_trial():
            raise RuntimeError(
                "TuneReportCallback must be used in a Tune session: make it in the function that a Tuner "
                "runs, beside the trainer."
            )

    def after_report(
        self,
        run_context: TrainRunContext,
        metrics: list[Report],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Called by the trainer."""
        path = {CHECKPOINT_PATH_KEY: checkpoint.path} if checkpoint is not None else {}
        report({**metrics[0], **path})
