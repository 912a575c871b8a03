"""Settings of a run: storage, failures, checkpoints."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from heliostat.core.platform import notebooks
from heliostat.train.arguments import (
    DEPRECATED,
    check_folder_name,
    expect,
    is_amount,
    refuse_deprecated,
    seconds,
    whole,
)

if TYPE_CHECKING:
    from heliostat.train.callbacks import UserCallback
    from heliostat.train.storage.base import Storage


def named_by_time() -> str:
    """The name of a run that has been given none."""
    return datetime.now().strftime("ray_train_run-%Y-%m-%d_%H-%M-%S")


@dataclass
class FailureConfig:
    """The reaction to failures.

    Attributes:
        max_failures: How many times the group may be restarted after a worker failed; -1 for
            without end. Default 0: the first failure ends the run.
        fail_fast: Refused (DeprecationWarning).
        controller_failure_limit: The same for failures outside the workers (storage, the
            coordinator). Default -1.
        max_preemption_failures: How many times a node may be taken away before the run has left it,
            which is not a failure of ``max_failures``; -1 (default) for without end.
        relax_collectives_on_preemption: When a node that was announced to leave has gone, those who are
            left go on for the rest of its time, and their reports, ``get_preemption_info()`` and
            collective calls do not wait for its ranks: so a checkpoint that takes longer than the node
            had is stored. Default False: they are told to end at once. Without an effect with replica groups.
        preemption_grace_s: For so many seconds beyond the time of a node they may go on, and nobody is
            told to end before. Default 0: the attempt ends a little before the node does.
        slow_rank_factor: A rank whose own time of a step, without what it waits for others, is more
            than so many times the median of the others' is replaced by a fresh worker: with replica
            groups while the others go on, else after the next checkpoint. It is not a failure. Default
            None: such a rank is only named.
        slow_rank_after_s: For so many seconds without a break it has to be as slow. Default 60.

    Raises:
        ValueError: A limit below -1, a factor that is not above 1, or a negative time.

    Examples:
        >>> from ray.train import FailureConfig, RunConfig
        >>> config = RunConfig(failure_config=FailureConfig(max_failures=3))
    """

    max_failures: int = 0
    fail_fast: bool | str = DEPRECATED
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0
    slow_rank_factor: float | None = None
    slow_rank_after_s: float = 60.0

    def _repr_html_(self) -> str:
        """The configuration as a notebook shows it."""
        return notebooks.settings(self)

    def __post_init__(self) -> None:
        self._refuse_old()
        for name in ("max_failures", "controller_failure_limit", "max_preemption_failures"):
            limit = whole(getattr(self, name))
            if limit is None or limit < -1:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} must be a whole number, or -1 for no limit."
                )
            setattr(self, name, limit)
        seconds("preemption_grace_s", self.preemption_grace_s)
        seconds("slow_rank_after_s", self.slow_rank_after_s)
        factor = self.slow_rank_factor
        if factor is not None and not (is_amount(factor) and factor > 1):
            raise ValueError(
                f"slow_rank_factor={factor!r} must be a number above 1, such as 1.5, or None to "
                "replace no rank for being slow."
            )

    def _refuse_old(self) -> None:
        refuse_deprecated("FailureConfig", fail_fast=self.fail_fast)


@dataclass
class CheckpointConfig:
    """The choice of the checkpoints that are kept.

    Attributes:
        num_to_keep: How many; None (default) for all. The latest is never removed while the run
            goes on, since a restart begins from it.
        checkpoint_score_attribute: The metric that ranks them. Default None: the latest are best.
        checkpoint_score_order: "max" (default) or "min".
        memory_every_n_steps: After every so many steps of ``ray.train.torch.resumable`` a copy of the
            sharded state goes into the object stores of the worker's node and of another one, beside
            the next step. A restart begins from there, and from a checkpoint only where the copies are
            gone, too. With ``fault_tolerant`` it is the state of one replica group, for when all of
            them are lost. Default None: no copies.
        checkpoint_frequency, checkpoint_at_end: Refused (DeprecationWarning).

    Raises:
        ValueError: ``num_to_keep`` or ``memory_every_n_steps`` below 1, or another order.

    Examples:
        >>> from ray.train import CheckpointConfig, RunConfig
        >>> best_three = CheckpointConfig(
        ...     num_to_keep=3, checkpoint_score_attribute="loss", checkpoint_score_order="min"
        ... )
        >>> config = RunConfig(checkpoint_config=best_three)
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int | str | None = DEPRECATED
    checkpoint_at_end: bool | str | None = DEPRECATED
    memory_every_n_steps: int | None = None

    def __post_init__(self) -> None:
        self._refuse_old()
        for name, without in (
            ("num_to_keep", "keep every checkpoint"),
            ("memory_every_n_steps", "keep no copies in memory"),
        ):
            given = getattr(self, name)
            if given is None:
                continue
            number = whole(given)
            if number is None or number < 1:
                raise ValueError(
                    f"{name}={given!r} must be a whole number from 1 up, or None to {without}."
                )
            setattr(self, name, number)
        score: Any = self.checkpoint_score_attribute
        if score is not None and not isinstance(score, str):
            raise ValueError(
                f"checkpoint_score_attribute={score!r} must be the name of a reported metric."
            )
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f"checkpoint_score_order={self.checkpoint_score_order!r} must be 'max' or 'min'."
            )

    def _refuse_old(self) -> None:
        refuse_deprecated(
            "CheckpointConfig",
            checkpoint_frequency=self.checkpoint_frequency,
            checkpoint_at_end=self.checkpoint_at_end,
        )


@dataclass
class LoggingConfig:
    """The log level of the library itself.

    Attributes:
        log_level: A name of ``logging``. Default ``"INFO"``.

    Raises:
        ValueError: There is no such level.

    Examples:
        >>> from ray.train import LoggingConfig, RunConfig
        >>> config = RunConfig(logging_config=LoggingConfig(log_level="WARNING"))
        >>> config.logging_config.log_level
        'WARNING'
    """

    log_level: str = "INFO"

    def __post_init__(self) -> None:
        if not isinstance(logging.getLevelName(str(self.log_level).upper()), int):
            raise ValueError(f"log_level={self.log_level!r} is not a level of `logging`.")


@dataclass
class SyncConfig:
    """Options of Ray's first Train generation; ``RunConfig`` refuses them.

    Attributes:
        sync_period: Seconds between two uploads.
        sync_timeout: Seconds that one may take.
        sync_artifacts: Upload what else lies in the folder of a worker.
        sync_artifacts_on_checkpoint: The same with each checkpoint.

    Examples:
        >>> from ray.train import RunConfig, SyncConfig
        >>> try:
        ...     RunConfig(sync_config=SyncConfig(sync_period=60))
        ... except DeprecationWarning:
        ...     print("checkpoints go into the storage when they are reported")
        checkpoints go into the storage when they are reported
    """

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True


@dataclass
class RunConfig:
    """The settings of a run: storage, failures, checkpoints.

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

    Examples:
        >>> import ray
        >>> from ray.train import CheckpointConfig, FailureConfig, RunConfig
        >>> config = RunConfig(
        ...     name="first",
        ...     failure_config=FailureConfig(max_failures=2),
        ...     checkpoint_config=CheckpointConfig(num_to_keep=1),
        ... )
        >>> config.failure_config.max_failures
        2
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any | None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    callbacks: list[UserCallback] | None = None
    worker_runtime_env: dict[str, Any] | None = None
    logging_config: LoggingConfig | None = None
    sync_config: Any = DEPRECATED
    verbose: Any = DEPRECATED
    stop: Any = DEPRECATED
    progress_reporter: Any = DEPRECATED
    log_to_file: Any = DEPRECATED

    def __post_init__(self) -> None:
        self._refuse_old()
        self._check_kinds()
        self._check_place()
        if self.worker_runtime_env is not None and not isinstance(self.worker_runtime_env, Mapping):
            raise ValueError(
                f"worker_runtime_env={self.worker_runtime_env!r} must be a dict such as "
                "{'env_vars': {...}}."
            )
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        self.logging_config = self.logging_config or LoggingConfig()

    def _refuse_old(self) -> None:
        refuse_deprecated(
            "RunConfig",
            sync_config=self.sync_config,
            verbose=self.verbose,
            stop=self.stop,
            progress_reporter=self.progress_reporter,
            log_to_file=self.log_to_file,
        )

    @cached_property
    def storage_context(self) -> Storage:
        """Make the folder of the run's files. A run without a name gets one by the time of day.

        Raises:
            OSError: The folder cannot be made.
        """
        from heliostat.train.storage.opening import open_storage

        self.name = self.name or named_by_time()
        storage = open_storage(self.storage_path, self.name, self.storage_filesystem)
        storage.prepare()
        return storage

    def for_training(self) -> RunConfig:
        """Return what it means for a trainer: itself."""
        return self

    def _check_kinds(self) -> None:
        from heliostat.train.callbacks import UserCallback

        expect("failure_config", self.failure_config, FailureConfig)
        expect("checkpoint_config", self.checkpoint_config, CheckpointConfig)
        expect("logging_config", self.logging_config, LoggingConfig)

        callbacks: Any = self.callbacks or []
        for callback in callbacks if isinstance(callbacks, list | tuple) else [callbacks]:
            if not isinstance(callback, UserCallback):
                raise ValueError(
                    f"callbacks must be heliostat.train.UserCallback objects, not {callback!r}."
                )
        if not isinstance(callbacks, list | tuple):
            raise ValueError("callbacks must be a list: callbacks=[...].")

    def _check_place(self) -> None:
        """Check the place of the run's files."""
        if self.name is not None:
            check_folder_name("RunConfig(name)", self.name)
        if self.storage_path is not None:
            path: Any = self.storage_path
            if not isinstance(path, str | os.PathLike) or not os.fspath(path):
                raise ValueError(
                    f"RunConfig(storage_path={self.storage_path!r}) must be the path of a folder, "
                    "or a URI such as 's3://bucket/dir'."
                )
            self.storage_path = os.fspath(self.storage_path)
        if isinstance(self.storage_filesystem, str | os.PathLike):
            raise ValueError(
                f"storage_filesystem={self.storage_filesystem!r} must be a pyarrow.fs or fsspec "
                "filesystem. A path or a URI goes into storage_path."
            )
