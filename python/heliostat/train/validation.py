"""Validating checkpoints in tasks of their own, while the training goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import heliostat as ray
from heliostat.train.arguments import expect, seconds

if TYPE_CHECKING:
    from heliostat.train.checkpoint import Checkpoint


class ValidationFn(Protocol):
    """A function that takes a checkpoint, and returns metrics which are added to its own.

    Examples:
        >>> from ray.train import DataParallelTrainer, ValidationConfig
        >>> def accuracy(checkpoint, rows=100):  # a ValidationFn
        ...     with checkpoint.as_directory() as folder:
        ...         ...  # load the model, and look at so many rows
        ...     return {"accuracy": 0.9}
        >>> def work():
        ...     ...  # train.report(metrics, checkpoint=checkpoint, validation=True)
        >>> trainer = DataParallelTrainer(work, validation_config=ValidationConfig(fn=accuracy))
    """

    def __call__(self, checkpoint: Checkpoint, **kwargs: Any) -> dict[str, Any]:
        """Validate a checkpoint.

        Args:
            checkpoint: The checkpoint.
            **kwargs: Those of the validation's ``fn_kwargs``.

        Returns:
            The metrics.
        """


@dataclass
class ValidationTaskConfig:
    """The settings of a validation; passed to ``report(validation=...)``, or as the default of a trainer.

    Attributes:
        fn_kwargs: Further arguments of the function. They can be stored as JSON.
        timeout_s: The task is cancelled after so many seconds. Default None: never.

    Raises:
        ValueError: A timeout that is not positive.

    Examples:
        >>> from ray.train import ValidationConfig, ValidationTaskConfig
        >>> def validate(checkpoint, rows):
        ...     return {"score": 0.0}
        >>> config = ValidationConfig(
        ...     fn=validate, task_config=ValidationTaskConfig(fn_kwargs={"rows": 100}, timeout_s=600)
        ... )
    """

    fn_kwargs: dict[str, Any] | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        self.fn_kwargs = self.fn_kwargs or {}
        if not isinstance(self.fn_kwargs, dict):
            raise ValueError(f"fn_kwargs={self.fn_kwargs!r} must be a dict.")
        if self.timeout_s is not None:
            seconds("ValidationTaskConfig(timeout_s)", self.timeout_s, above_zero=True)


@dataclass
class ValidationConfig:
    """The function and the options that a trainer validates with.

    Attributes:
        fn: ``fn(checkpoint, **fn_kwargs) -> metrics``.
        task_config: The default of every validation.
        ray_remote_kwargs: Options of the task: ``num_cpus``, ``num_gpus``, ``max_retries`` ...

    Examples:
        >>> import pathlib, tempfile
        >>> from ray import train
        >>> from ray.train import Checkpoint, DataParallelTrainer, ScalingConfig, ValidationConfig
        >>> def validate(checkpoint):
        ...     with checkpoint.as_directory() as folder:
        ...         return {"score": float(pathlib.Path(folder, "weight.txt").read_text()) * 2}
        >>> def work():
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         _ = pathlib.Path(folder, "weight.txt").write_text("1.5")
        ...         saved = Checkpoint.from_directory(folder)
        ...         train.report({"epoch": 0}, checkpoint=saved, validation=True)
        ...     return train.get_all_reported_checkpoints()[0].metrics["score"]
        >>> DataParallelTrainer(
        ...     work,
        ...     scaling_config=ScalingConfig(num_workers=1),
        ...     validation_config=ValidationConfig(fn=validate),
        ... ).fit().return_value
        3.0
    """

    fn: ValidationFn
    task_config: ValidationTaskConfig | None = None
    ray_remote_kwargs: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise ValueError(f"ValidationConfig(fn=...) must be a function, not {self.fn!r}.")
        expect("task_config", self.task_config, ValidationTaskConfig)
        self.task_config = self.task_config or ValidationTaskConfig()
        self.ray_remote_kwargs = dict(self.ray_remote_kwargs or {})
        if self.ray_remote_kwargs:  # wrong options fail here
            try:
                ray.remote(validate).options(**self.ray_remote_kwargs)
            except (TypeError, ValueError) as error:
                raise ValueError(f"ValidationConfig(ray_remote_kwargs): {error}") from error

    def task(self, asked: bool | ValidationTaskConfig) -> ValidationTaskConfig:
        """Return the validation that ``report`` asks for: its options over the default ones.

        Args:
            asked: What ``report(validation=...)`` was given.
        """
        default = self.task_config or ValidationTaskConfig()
        if not isinstance(asked, ValidationTaskConfig):
            return default
        kwargs = {**(default.fn_kwargs or {}), **(asked.fn_kwargs or {})}
        timeout = asked.timeout_s if asked.timeout_s is not None else default.timeout_s
        return ValidationTaskConfig(kwargs, timeout)


def validate(
    config: ValidationConfig, checkpoint: Checkpoint, fn_kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The task. Raises ValueError when the function returns no metrics."""
    from heliostat.train.metrics import checked

    found: Any = config.fn(checkpoint, **fn_kwargs)
    if not isinstance(found, dict):
        raise ValueError(
            f"The validation function must return a dict of metrics, not {type(found).__name__}."
        )
    return checked(found)
