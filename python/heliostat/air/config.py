"""Configurations for trainers and searches alike: Ray's older forms, which `Tuner` and trainers take.

They have the options of both. A search uses all of them; a trainer refuses those of a search, as its own
configurations do, when it is given them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from heliostat.train.config import CheckpointConfig as _Checkpoint
from heliostat.train.config import FailureConfig as _Failure
from heliostat.train.config import RunConfig as _Run
from heliostat.train.config import ScalingConfig
from heliostat.tune.config import check_fail_fast

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]


@dataclass
class FailureConfig(_Failure):
    """The reaction to failures.

    Attributes:
        max_failures: How many times a group of workers, or a trial, is started again; -1: without end.
        fail_fast: Of a search. True: the first failure ends it. "raise": ``fit()`` raises it.

    Raises:
        ValueError: A limit below -1, or ``fail_fast`` with ``max_failures``.

    Examples:
        >>> from ray import tune
        >>> from ray.air.config import FailureConfig
        >>> run = tune.RunConfig(failure_config=FailureConfig(max_failures=3))
        >>> try:
        ...     FailureConfig(max_failures=3, fail_fast=True)
        ... except ValueError:
        ...     print("one or the other")
        one or the other
    """

    fail_fast: bool | str = False

    def _refuse_old(self) -> None:
        check_fail_fast(self.fail_fast, self.max_failures)


@dataclass
class CheckpointConfig(_Checkpoint):
    """The choice of the checkpoints that are made and kept.

    Attributes:
        num_to_keep, checkpoint_score_attribute, checkpoint_score_order: As in ``train.CheckpointConfig``.
        checkpoint_frequency: Of a search: a class trainable is saved after so many steps; 0: not.
        checkpoint_at_end: Of a search: a class trainable is saved at its end.

    Raises:
        ValueError: ``num_to_keep`` below 1, a negative frequency, or another order.

    Examples:
        >>> from ray import tune
        >>> from ray.air.config import CheckpointConfig
        >>> config = CheckpointConfig(num_to_keep=2, checkpoint_frequency=10, checkpoint_at_end=True)
        >>> run = tune.RunConfig(checkpoint_config=config)
        >>> run.checkpoint_config.num_to_keep
        2
    """

    checkpoint_frequency: int | str | None = 0
    checkpoint_at_end: bool | str | None = None

    def _refuse_old(self) -> None:
        frequency: Any = self.checkpoint_frequency
        if (frequency or 0) < 0:
            raise ValueError("checkpoint_frequency must be 0 or more.")


@dataclass
class RunConfig(_Run):
    """The settings of a run or a search: storage, failures, checkpoints.

    Attributes:
        sync_config, verbose, stop, progress_reporter, log_to_file: Of a search; see ``tune.RunConfig``.
        local_dir: Refused (DeprecationWarning): pass ``storage_path``.
        name, storage_path, storage_filesystem: As in ``train.RunConfig``.
        failure_config, checkpoint_config: Of this module.
        callbacks: ``tune.Callback`` objects for a search, ``train.UserCallback`` objects for a trainer.

    Examples:
        >>> from ray.air import CheckpointConfig, FailureConfig, RunConfig
        >>> config = RunConfig(
        ...     name="small",
        ...     failure_config=FailureConfig(max_failures=2),
        ...     checkpoint_config=CheckpointConfig(num_to_keep=3),
        ... )
        >>> config.failure_config.max_failures
        2
    """

    sync_config: Any = None
    verbose: Any = None
    stop: Any = None
    progress_reporter: Any = None
    log_to_file: Any = False
    local_dir: str | None = None

    def __post_init__(self) -> None:
        if self.local_dir is not None:
            raise DeprecationWarning("`RunConfig(local_dir)` is gone: pass `storage_path`.")
        self.failure_config = self.failure_config or FailureConfig()
        self.checkpoint_config = self.checkpoint_config or CheckpointConfig()
        super().__post_init__()

    def _refuse_old(self) -> None:
        pass

    def _check_kinds(self) -> None:
        for name in ("failure_config", "checkpoint_config"):
            if not is_dataclass(getattr(self, name)):
                raise ValueError(f"{name} must be one of ray.air, ray.tune or ray.train.")

    def for_training(self) -> _Run:
        """Return what it means for a trainer.

        Raises:
            DeprecationWarning: An option of a search was given.
            ValueError: ``callbacks`` has what no trainer calls.
        """
        return _Run(
            name=self.name,
            storage_path=self.storage_path,
            storage_filesystem=self.storage_filesystem,
            failure_config=_for_training(self.failure_config, _Failure),
            checkpoint_config=_for_training(self.checkpoint_config, _Checkpoint),
            callbacks=self.callbacks,
            worker_runtime_env=self.worker_runtime_env,
            logging_config=self.logging_config,
            sync_config=self.sync_config,
            verbose=self.verbose,
            stop=self.stop,
            progress_reporter=self.progress_reporter,
            log_to_file=self.log_to_file or None,
        )


def _for_training(given: Any, kind: type[Any]) -> Any:
    """The options in the class that trainers take, without those that say nothing."""
    options = {one.name: getattr(given, one.name) for one in fields(given)}
    return kind(**{name: value for name, value in options.items() if value not in (None, False)})
