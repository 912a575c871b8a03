"""A trial: one configuration, and what came of it. Plain state without files or calls."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heliostat.train.checkpoint import Checkpoint

PENDING, RUNNING, PAUSED = "PENDING", "RUNNING", "PAUSED"
TERMINATED, ERROR = "TERMINATED", "ERROR"
NAME_MAX = 120  # letters of a folder's name, below what file systems allow


@dataclass(eq=False)
class Trial:
    """One configuration. Schedulers and callbacks are given these.

    Attributes:
        trial_id: Short and unique in the cluster.
        trainable_name: Of what runs.
        config: What the trainable is given.
        evaluated_params: What was chosen for this trial, by its path such as ``optimizer/lr``.
        experiment_tag: The same as a short text.
        status: PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
        last_result: The last report, with what is added to it.
        local_experiment_path: The folder of the search.
        num_failures: How many times it failed.
    """

    trial_id: str
    trainable_name: str
    config: dict[str, Any]
    evaluated_params: dict[str, Any] = field(default_factory=dict)
    experiment_tag: str = ""
    status: str = PENDING
    last_result: dict[str, Any] = field(default_factory=dict)
    checkpoint_path: str | None = None  # of the latest one
    checkpoints: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    checkpoint_count: int = 0  # how many were made, removed ones included
    restore_iteration: int = 0  # how many results had come when the latest was made
    num_failures: int = 0
    error: BaseException | None = None
    error_text: str = ""
    folder: str = ""  # below the experiment's
    custom_name: str = ""
    local_experiment_path: str = ""

    def __str__(self) -> str:
        return self.custom_name or f"{self.trainable_name}_{self.trial_id}"

    __repr__ = __str__

    @property
    def path(self) -> str:
        """The trial's folder."""
        return os.path.join(self.local_experiment_path, self.folder)

    local_path = path

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint; None without one."""
        return Checkpoint(self.checkpoint_path) if self.checkpoint_path else None

    def is_finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in (TERMINATED, ERROR)

    @property
    def metric_analysis(self) -> Mapping[str, Any]:
        """The last value of each metric that is a number."""
        return {k: {"last": v} for k, v in self.last_result.items() if isinstance(v, int | float)}

    def default_folder(self) -> str:
        """A folder's name that says which trial it is."""
        kept = "".join(c if c.isalnum() or c in "_-.,=+" else "_" for c in self.experiment_tag)
        stem = f"{self}_{kept}"[:NAME_MAX]
        return f"{stem}_{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}"


def rank(trial: Trial, metric: str, result: Mapping[str, Any]) -> float:
    """The metric's value in a result, from nested ones by ``a/b``; NaN where there is none."""
    value: Any = result
    if metric in result:
        value = result[metric]
    else:
        for key in metric.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
