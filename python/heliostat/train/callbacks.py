"""Hooks into a run. They are called on the driver, between two looks at the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.backend import BackendConfig
    from heliostat.train.checkpoint import Checkpoint
    from heliostat.train.config import RunConfig, ScalingConfig


@dataclass(frozen=True)
class TrainRunContext:
    """The facts of a run that a callback may want to know."""

    run_config: RunConfig
    scaling_config: ScalingConfig
    train_loop_config: dict[str, Any] | None
    backend_config: BackendConfig
    run_id: str


class UserCallback:
    """Derive from it, and pass objects with ``RunConfig(callbacks=[...])``.

    An exception in a callback ends the run with a ``ControllerError`` that names the callback. It is not
    called again; other callbacks are, until the run has ended.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, RunConfig, ScalingConfig, UserCallback
        >>> class Printing(UserCallback):
        ...     def after_report(self, run_context, metrics, checkpoint):
        ...         print("loss of rank 0:", metrics[0]["loss"])
        >>> def work():
        ...     train.report({"loss": 0.5})
        >>> _ = DataParallelTrainer(
        ...     work,
        ...     scaling_config=ScalingConfig(num_workers=1),
        ...     run_config=RunConfig(callbacks=[Printing()]),
        ... ).fit()
        loss of rank 0: 0.5
    """

    def after_report(
        self,
        run_context: TrainRunContext,
        metrics: list[dict[str, Any]],
        checkpoint: Checkpoint | None,
    ) -> None:
        """Called when all ranks have reported.

        Args:
            run_context: The run.
            metrics: The metrics of each rank, in order.
            checkpoint: The checkpoint that was reported with them, if there was one.
        """

    def after_exception(
        self, run_context: TrainRunContext, worker_exceptions: dict[int, Exception]
    ) -> None:
        """Called when workers have failed.

        Args:
            run_context: The run.
            worker_exceptions: The exceptions by rank.
        """

    def on_world_size_change(self, run_context: TrainRunContext, before: int, now: int) -> None:
        """Called when an attempt begins with another number of workers than the one before.

        Workers hear of it by ``ray.train.on_world_size_change``.

        Args:
            run_context: The run.
            before: How many workers there were.
            now: How many there are.
        """
