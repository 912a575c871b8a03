"""The configuration objects that a trainer takes. Wrong values fail when they are given."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.callbacks import UserCallback

_DEPRECATED = "DEPRECATED"
_PLACEMENT_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def expect(name: str, value: object, kind: type) -> None:
    """Raise ValueError where an argument is neither of the class it should be nor None."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(
            f"{name} must be a {kind.__name__}, not {type(value).__name__}: "
            f"{name}={kind.__name__}(...)."
        )


def _refuse_deprecated(owner: str, **values: object) -> None:
    """Raise DeprecationWarning for options of Ray's first Train generation, as Ray does."""
    for name, value in values.items():
        if value not in (_DEPRECATED, None):
            raise DeprecationWarning(
                f"`{name}` of `{owner}` belongs to the first generation of Ray Train and has no "
                f"effect any more. Remove it."
            )


@dataclass
class ScalingConfig:
    """How many workers, and what each of them gets.

    Attributes:
        trainer_resources: Refused (DeprecationWarning): the controller needs no resources.
        num_workers: Number of workers; ``(min, max)`` for elastic training, which starts with as
            many as fit, goes on smaller after a loss and grows again; ``0`` runs the function in
            this process. Default 1.
        use_gpu: Each worker gets a GPU. Default False.
        resources_per_worker: Amounts by name. Default ``{"CPU": 1}``, with ``use_gpu``
            ``{"GPU": 1}``.
        placement_strategy: "PACK" (default), "SPREAD", "STRICT_PACK" or "STRICT_SPREAD".
        accelerator_type: Only nodes with this accelerator.
        label_selector: Only nodes with these labels: one mapping, or one per worker.
        use_tpu, topology: Refused: there is no TPU backend.
        elastic_resize_monitor_interval_s: How often, in seconds, an elastic group that is smaller
            than ``max`` looks for room. Default 60.

    Raises:
        ValueError: A number out of range, or ``resources_per_worker`` that contradicts ``use_gpu``.
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: int | tuple[int, int] = 1
    use_gpu: bool = False
    resources_per_worker: dict[str, float] | None = None
    placement_strategy: str = "PACK"
    accelerator_type: str | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 60.0

    def __post_init__(self) -> None:
        _refuse_deprecated("ScalingConfig", trainer_resources=self.trainer_resources)
        self._check_workers()
        self._check_resources()
        if self.use_tpu or self.topology is not None:
            raise ValueError("There is no TPU backend: leave `use_tpu` and `topology` out.")
        if self.placement_strategy not in _PLACEMENT_STRATEGIES:
            raise ValueError(
                f"placement_strategy={self.placement_strategy!r}; choose one of "
                f"{', '.join(_PLACEMENT_STRATEGIES)}."
            )
        if self.elastic_resize_monitor_interval_s < 0:
            raise ValueError(
                "elastic_resize_monitor_interval_s is a number of seconds from 0 up, not "
                f"{self.elastic_resize_monitor_interval_s}."
            )

    def _check_workers(self) -> None:
        n: Any = self.num_workers
        if isinstance(n, list):
            n = self.num_workers = tuple(n)
        if isinstance(n, tuple):
            if len(n) != 2 or not all(isinstance(v, int) for v in n) or not 1 <= n[0] <= n[1]:
                raise ValueError(
                    f"num_workers={n} must be (min, max) with whole numbers and 1 <= min <= max."
                )
        elif isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ValueError(
                f"num_workers={n!r} must be a whole number from 1 up, a pair (min, max), or 0 to "
                "run the training function in this process."
            )

    def _check_resources(self) -> None:
        given: Any = self.resources_per_worker
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise ValueError(
                f"resources_per_worker must map names to amounts, not {type(given).__name__}."
            )
        for name, amount in given.items():
            if not isinstance(amount, int | float) or amount < 0:
                raise ValueError(f"resources_per_worker[{name!r}]={amount!r} must be 0 or more.")
        gpus = given.get("GPU")
        if gpus and not self.use_gpu:
            raise ValueError(
                f"resources_per_worker asks for {gpus:g} GPU per worker while use_gpu=False. Set "
                "use_gpu=True to train on GPUs, or remove 'GPU' from resources_per_worker to "
                "train on CPUs."
            )
        if self.use_gpu and gpus == 0:
            raise ValueError(
                "use_gpu=True while resources_per_worker asks for 0 GPU per worker. Set "
                "use_gpu=False, or give 'GPU' a positive amount."
            )

    @property
    def elasticity_enabled(self) -> bool:
        """True when ``num_workers`` is a pair."""
        return isinstance(self.num_workers, tuple)

    @property
    def min_workers(self) -> int:
        """The smallest group that may run."""
        return self.num_workers[0] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def max_workers(self) -> int:
        """The largest group that may run."""
        return self.num_workers[1] if isinstance(self.num_workers, tuple) else self.num_workers

    @property
    def worker_resources(self) -> dict[str, float]:
        """What one worker asks for, by resource name, without zero amounts."""
        if self.resources_per_worker is None:
            wanted: dict[str, float] = {"GPU": 1} if self.use_gpu else {"CPU": 1}
        else:
            wanted = dict(self.resources_per_worker)
            if self.use_gpu:
                wanted.setdefault("GPU", 1)
        return {name: amount for name, amount in wanted.items() if amount}

    @property
    def num_cpus_per_worker(self) -> float:
        """CPUs of one worker."""
        return self.worker_resources.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        """GPUs of one worker."""
        return self.worker_resources.get("GPU", 0)

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """What one worker asks for besides CPU, GPU and memory."""
        known = ("CPU", "GPU", "memory")
        return {k: v for k, v in self.worker_resources.items() if k not in known}

    @property
    def total_resources(self) -> dict[str, float]:
        """What the largest group asks for in all."""
        return {name: v * self.max_workers for name, v in self.worker_resources.items()}


@dataclass
class FailureConfig:
    """What happens after a failure.

    Attributes:
        max_failures: How many times the group may be restarted after a worker failed; -1 for
            without end. Default 0: the first failure ends the run.
        fail_fast: Refused (DeprecationWarning).
        controller_failure_limit: The same for failures outside the workers (storage, the
            coordinator). Default -1.
        max_preemption_failures, relax_collectives_on_preemption, preemption_grace_s: Checked and
            kept, without an effect: nothing announces that a node will be taken away, so a lost
            node counts as a failure of its workers.

    Raises:
        ValueError: A limit below -1.
    """

    max_failures: int = 0
    fail_fast: bool | str = _DEPRECATED
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0

    def __post_init__(self) -> None:
        _refuse_deprecated("FailureConfig", fail_fast=self.fail_fast)
        for name in ("max_failures", "controller_failure_limit", "max_preemption_failures"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < -1:
                raise ValueError(f"{name}={value!r} must be a whole number, or -1 for no limit.")


@dataclass
class CheckpointConfig:
    """Which checkpoints are kept.

    Attributes:
        num_to_keep: How many; None (default) for all. The latest is never removed while the run
            goes on, since a restart begins from it.
        checkpoint_score_attribute: The metric that ranks them. Default None: the latest are best.
        checkpoint_score_order: "max" (default) or "min".
        checkpoint_frequency, checkpoint_at_end: Refused (DeprecationWarning).

    Raises:
        ValueError: ``num_to_keep`` below 1, or another order.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int | str | None = _DEPRECATED
    checkpoint_at_end: bool | str | None = _DEPRECATED

    def __post_init__(self) -> None:
        _refuse_deprecated(
            "CheckpointConfig",
            checkpoint_frequency=self.checkpoint_frequency,
            checkpoint_at_end=self.checkpoint_at_end,
        )
        keep: Any = self.num_to_keep
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise ValueError(
                f"num_to_keep={keep!r} must be a whole number from 1 up, or None to "
                "keep every checkpoint."
            )
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f"checkpoint_score_order={self.checkpoint_score_order!r} must be 'max' or 'min'."
            )


@dataclass
class LoggingConfig:
    """How much the library itself logs. ``log_level`` is a name of ``logging``; default INFO."""

    log_level: str = "INFO"

    def __post_init__(self) -> None:
        if not isinstance(logging.getLevelName(str(self.log_level).upper()), int):
            raise ValueError(f"log_level={self.log_level!r} is not a level of `logging`.")


@dataclass
class RunConfig:
    """Where a run keeps its files, and what it does on failures.

    Attributes:
        name: Name of the run and of its folder. Default ``ray_train_run-<date>``. Running again
            with the same name and ``storage_path`` resumes from the latest checkpoint.
        storage_path: Folder or URI that holds the runs. Default ``~/ray_results``. All nodes that
            run workers have to see it.
        storage_filesystem: A ``pyarrow.fs.FileSystem``; ``storage_path`` is then a path on it.
        failure_config, checkpoint_config, logging_config: See there.
        callbacks: ``UserCallback`` objects; their methods run on the driver.
        worker_runtime_env: Runtime environment of the workers.
        sync_config, verbose, stop, progress_reporter, log_to_file: Refused (DeprecationWarning).
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any | None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: list[UserCallback] | None = None
    worker_runtime_env: dict[str, Any] | None = None
    logging_config: LoggingConfig | None = None
    sync_config: Any = _DEPRECATED
    verbose: Any = _DEPRECATED
    stop: Any = _DEPRECATED
    progress_reporter: Any = _DEPRECATED
    log_to_file: Any = _DEPRECATED

    def __post_init__(self) -> None:
        from heliostat.train.callbacks import UserCallback

        _refuse_deprecated(
            "RunConfig",
            sync_config=self.sync_config,
            verbose=self.verbose,
            stop=self.stop,
            progress_reporter=self.progress_reporter,
            log_to_file=self.log_to_file,
        )
        expect("failure_config", self.failure_config, FailureConfig)
        expect("checkpoint_config", self.checkpoint_config, CheckpointConfig)
        expect("logging_config", self.logging_config, LoggingConfig)
        if self.storage_path is not None:
            if not isinstance(self.storage_path, str | os.PathLike):
                raise ValueError(
                    f"RunConfig(storage_path={self.storage_path!r}) must be the path of a folder, "
                    "or a URI such as 's3://bucket/dir'."
                )
            self.storage_path = os.fspath(self.storage_path)
        if self.name is not None and ("/" in self.name or self.name in ("", ".", "..")):
            raise ValueError(
                f"RunConfig(name={self.name!r}) names a folder: it must not be empty or hold '/'."
            )
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.logging_config = self.logging_config or LoggingConfig()
        callbacks: list[Any] = self.callbacks or []
        for callback in callbacks:
            if not isinstance(callback, UserCallback):
                raise ValueError(
                    f"callbacks must be heliostat.train.UserCallback objects, not {callback!r}."
                )
