"""The result of ``fit()``."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.errors import TrainingFailedError
from heliostat.train.metrics import lookup

if TYPE_CHECKING:
    import pandas as pd

_UNSET: Any = object()


class NoSuchMetric(ValueError, RuntimeError):
    """No checkpoint has a number for a metric, for which Ray raises ``RuntimeError``."""


class Result:
    """The outcome of a run.

    Attributes:
        metrics: Metrics of the latest report with a checkpoint; where no report had one, those of
            the last report; None when nothing was reported.
        checkpoint: The latest checkpoint, None when there is none.
        error: What ended the run, None when it finished.
        path: Folder of the run.
        metrics_dataframe: The metrics of all reports, as a DataFrame.
        best_checkpoints: The kept checkpoints with their metrics, the best one last when they are
            scored, else oldest first.
        return_value: What the training function returned on rank 0.
        config: ``train_loop_config`` of the run.
        page: Path of the run's page (HTML), None when it was not written.
        summary: What happened, in a few lines.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     for epoch in range(3):
        ...         train.report({"loss": 1 / (epoch + 1)})
        ...     return "done"
        >>> result = DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit()
        >>> result.metrics["loss"], result.return_value
        (0.3333333333333333, 'done')
        >>> result.metrics_dataframe["loss"].tolist()
        [1.0, 0.5, 0.3333333333333333]
    """

    def __init__(
        self,
        metrics: dict[str, Any] | None,
        checkpoint: Checkpoint | None,
        error: TrainingFailedError | None,
        path: str,
        metrics_dataframe: pd.DataFrame | None = None,
        best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] | None = None,
        _storage_filesystem: Any | None = None,
        return_value: Any = None,
        *,
        config: dict[str, Any] | None = None,
        page: str | None = None,
        summary: str = "",
        _rows: Callable[[], list[dict[str, Any]]] | None = None,
    ) -> None:
        self.metrics = metrics
        self.checkpoint = checkpoint
        self.error = error
        self.path = path
        self.best_checkpoints = best_checkpoints or []
        self.return_value = return_value
        self.config = config
        self.page = page
        self._summary = summary
        self._filesystem = _storage_filesystem
        self._dataframe: Any = _UNSET if metrics_dataframe is None else metrics_dataframe
        self._rows = _rows

    @property
    def metrics_dataframe(self) -> pd.DataFrame | None:
        """A table with a row per kept checkpoint; without checkpoints, per report (needs pandas).

        None when nothing was reported.
        """
        if self._dataframe is _UNSET:
            rows = self._rows() if self._rows is not None else []
            if not rows:
                self._dataframe = None
            else:
                pandas = required("pandas", "metrics_dataframe", "train")
                self._dataframe = pandas.DataFrame(rows)
        frame: pd.DataFrame | None = self._dataframe
        return frame

    @property
    def filesystem(self) -> Any:
        """The ``pyarrow.fs.FileSystem`` that holds the run (needs pyarrow)."""
        if self._filesystem is None:
            from heliostat.train.storage.filesystems import local_filesystem

            return local_filesystem()
        return self._filesystem

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint:
        """Return the kept checkpoint with the best value of ``metric``, which NaN never is.

        Args:
            metric: Name of a metric; ``a/b`` reads nested ones.
            mode: "max" or "min".

        Raises:
            RuntimeError: There is no checkpoint.
            ValueError: Another mode, or no checkpoint has a number for that metric (a ``RuntimeError``,
                too).
        """
        if mode not in ("max", "min"):
            raise ValueError(f"mode={mode!r} must be 'max' or 'min'.")
        if not self.best_checkpoints:
            raise RuntimeError(
                f"There is no checkpoint in {self.path}: report one, with checkpoint=, or save at steps."
            )
        found = [(lookup(m, metric), c) for c, m in self.best_checkpoints]
        scored = [(v, c) for v, c in found if isinstance(v, numbers.Real) and v == v]
        if not scored:
            if any(v is not None for v, _ in found):
                raise NoSuchMetric(f"The metric {metric!r} is a number in no checkpoint.")
            known = sorted({k for _, m in self.best_checkpoints for k in m})
            raise NoSuchMetric(f"No checkpoint has the metric {metric!r}; there are {known}.")
        choose = max if mode == "max" else min
        best: tuple[Any, Checkpoint] = choose(scored, key=lambda pair: pair[0])
        return best[1]

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], storage_filesystem: Any | None = None
    ) -> Result:
        """Read the result of an earlier run from its folder (also one that Ray 2.60 wrote).

        Args:
            path: The run's folder, or its URI.
            storage_filesystem: A ``pyarrow.fs`` or fsspec filesystem that ``path`` is a path on.

        Returns:
            The result.

        Raises:
            RuntimeError: The folder does not exist or holds no run.
        """
        from heliostat.train.controller.results import result_from_path

        return result_from_path(os.fspath(path), storage_filesystem)

    def __repr__(self) -> str:
        lines = ["Result("]
        if self._summary:
            lines.append(f"  run         {self._summary}")
        if self.error is not None:
            first = str(self.error).strip().splitlines() or [""]
            lines.append(f"  error       {type(self.error).__name__}: {first[0]}")
        lines.append(f"  metrics     {_pairs(self.metrics)}")
        if self.checkpoint is not None:
            kept = len(self.best_checkpoints)
            lines.append(f"  checkpoint  {self.checkpoint.path}")
            lines.append(f"              {kept} kept; see best_checkpoints")
        else:
            lines.append("  checkpoint  none")
        if self.return_value is not None:
            value = repr(self.return_value)
            lines.append(f"  returned    {value if len(value) <= 80 else value[:77] + '...'}")
        lines.append(f"  path        {self.path}")
        if self.page:
            lines.append(f"  page        {self.page}")
        return "\n".join([*lines, ")"])


# Values that a search adds to each report; they are in `metrics`, and would hide the trial's own in print.
ADDED_BY_TUNE = (
    "training_iteration",
    "time_total_s",
    "episodes_total",
    "timesteps_total",
    "node_ip",
    "hostname",
    "pid",
    "time_this_iter_s",
    "timestamp",
    "date",
    "time_since_restore",
    "timesteps_since_restore",
    "iterations_since_restore",
    "config",
    "checkpoint_dir_name",
)


def _pairs(metrics: dict[str, Any] | None) -> str:
    if metrics is None:
        return "none reported"
    parts = []
    is_of_trial = "trial_id" in metrics
    for key, value in metrics.items():
        if is_of_trial and key in ADDED_BY_TUNE:
            continue
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        parts.append(f"{key}={text if len(text) <= 60 else text[:57] + '...'}")
    return "  ".join(parts) or "{}"
