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
    """What a callback may want to know about its run."""

    run_config: RunConfig
    scaling_config: ScalingConfig
    train_loop_config: dict[str, Any] | None
    backend_config: BackendConfig
    run_id: str


class UserCallback:
    """Derive from it, and pass objects with ``RunConfig(callbacks=[...])``.

    An exception in a callback ends the run with ``ControllerError``.
    """

    def after_report(
        self,
        run_context: TrainRunContext,
        metrics: list[dict[str, Any]],
        checkpoint: Checkpoint | None,
    ) -> None:
        """All ranks have reported; ``metrics`` holds their metrics in the order of the ranks."""

    def after_exception(
        self, run_context: TrainRunContext, worker_exceptions: dict[int, Exception]
    ) -> None:
        """Workers have failed; ``worker_exceptions`` maps ranks to exceptions."""

    def on_world_size_change(self, run_context: TrainRunContext, before: int, now: int) -> None:
        """An attempt begins with another number of workers than the one before.

        Workers hear of it by ``ray.train.on_world_size_change``.
        """
