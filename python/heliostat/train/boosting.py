"""The part that trainers of boosting libraries share: which metrics are reported, when to save."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import get_context
from heliostat.train.data_parallel_trainer import DataParallelTrainer
from heliostat.train.reported import report

MetricNames = str | list[str] | dict[str, str] | None
Postprocess = Callable[[dict[str, Any]], dict[str, Any]] | None


class BoostingReport:
    """Reports after every round, with a checkpoint where one is due.

    Args:
        metrics: Names to report, or a mapping from the names to report to those of the library,
            which are ``<dataset>-<metric>``. Default None: all of them.
        filename: Name of the model's file in the checkpoint.
        frequency: A checkpoint after every so many rounds. Default 0: none on the way.
        checkpoint_at_end: A checkpoint after the last round. Default True.
        results_postprocessing_fn: Gets the metrics and returns those to report.
    """

    CHECKPOINT_NAME = "model"

    def __init__(
        self,
        metrics: MetricNames = None,
        filename: str | None = None,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Postprocess = None,
    ) -> None:
        self._metrics = [metrics] if isinstance(metrics, str) else metrics
        self._filename = filename or self.CHECKPOINT_NAME
        self._frequency = frequency
        self._checkpoint_at_end = checkpoint_at_end
        self._postprocess = results_postprocessing_fn

    def _due(self, round_index: int) -> bool:
        """Whether the round with this number, from 0, ends with a checkpoint."""
        return self._frequency > 0 and (round_index + 1) % self._frequency == 0

    def _chosen(self, found: dict[str, Any]) -> dict[str, Any]:
        """The metrics to report among those that the library found.

        Raises:
            KeyError: One that was asked for is not there; the text names those that are.
        """
        chosen = found
        if self._metrics:
            names = self._metrics
            pairs = names.items() if isinstance(names, Mapping) else zip(names, names, strict=True)
            try:
                chosen = {shown: found[name] for shown, name in pairs}
            except KeyError as error:
                raise KeyError(
                    f"There is no metric {error.args[0]!r} to report; there are {sorted(found)}."
                ) from None
        return self._postprocess(chosen) if self._postprocess is not None else chosen

    def _report(self, found: dict[str, Any], model: Any, save: bool) -> None:
        if not save:
            report(self._chosen(found))
            return
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if get_context().get_world_rank() == 0:
                model.save_model(os.path.join(folder, self._filename))
                checkpoint = Checkpoint.from_directory(folder)
            report(self._chosen(found), checkpoint=checkpoint)


class BoostingTrainer(DataParallelTrainer):
    """The base of the trainers of boosting libraries: they need a training function.

    Raises:
        DeprecationWarning: An argument of the trainers that had none.
        ValueError: There is none.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any] | None,
        *,
        first_generation: dict[str, Any],
        **arguments: Any,
    ) -> None:
        kind = type(self).__name__
        for name, value in first_generation.items():
            if value is not None:
                raise DeprecationWarning(
                    f"`{name}` of `{kind}` belongs to the first generation of Ray Train. Write a "
                    "train_loop_per_worker that calls the library's own `train`, and pass "
                    "callbacks=[RayTrainReportCallback()] to it."
                )
        if train_loop_per_worker is None:
            raise ValueError(f"{kind} needs a train_loop_per_worker.")
        super().__init__(train_loop_per_worker, **arguments)
