"""The preparation of a group of workers for a framework: derive both classes for another one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup


@dataclass(frozen=True)
class Replicas:
    """Groups of workers that each hold a copy of the model.

    Attributes:
        size: Workers of a group; rank ``r`` is in group ``r // size``.
        least: The run goes on within the step as long as so many groups are left.
        backend: "gloo" or "nccl"; None: nccl with GPUs, gloo without.
        timeout_s: How long a collective may take.
    """

    size: int
    least: int
    backend: str | None
    timeout_s: float
    # Environment variables of the workers.
    environment: dict[str, str] = field(default_factory=dict)
    # Whether the coordinator decides who trains together, and not a library in the workers.
    has_quorum: bool = True


class Backend:
    """Hooks around a group of workers; they run on the driver.

    Attributes:
        has_replica_groups: The workers are divided into groups that are replaced one by one while
            the others go on; see ``replicas``.
        share_cuda_visible_devices: Every worker sees the GPUs of all workers of the group that
            are on its node. Default False.
    """

    share_cuda_visible_devices: bool = False
    has_replica_groups: bool = False

    def replicas(self, world_size: int, backend_config: Any) -> Replicas | None:
        """The division of the workers into replica groups; None: they are one group."""
        return None

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """The workers are there and have their ranks."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """The training function is about to start."""

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """The workers are about to end. Not called when they are ended by a failure."""


class BackendConfig:
    """The configuration of a backend; sent to the workers with the training function.

    Examples:
        >>> from ray.train import BackendConfig, DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return "no framework connects the workers"
        >>> DataParallelTrainer(
        ...     work, backend_config=BackendConfig(), scaling_config=ScalingConfig(num_workers=0)
        ... ).fit().return_value
        'no framework connects the workers'
    """

    @property
    def backend_cls(self) -> type[Backend]:
        """The backend that this configures."""
        return Backend

    @property
    def framework(self) -> str | None:
        """Name of the framework, for the record of the run."""
        return None

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        """Makes the context in which the training function runs on a worker."""
        return contextlib.nullcontext

    @property
    def preload(self) -> list[str]:
        """Modules that workers import while they start."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """The options, for the record of the run."""
        return dict(vars(self))
