"""The errors that ``fit()`` raises, and those that end a training function from inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


class TrainingFailedError(Exception):
    """Training could not be finished within what ``FailureConfig`` allows.

    Examples:
        >>> from ray.train import DataParallelTrainer, ScalingConfig, TrainingFailedError
        >>> def work():
        ...     raise ValueError("no such file")
        >>> try:
        ...     DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=1)).fit()
        ... except TrainingFailedError as error:
        ...     print("no such file" in str(error))
        True
    """


class WorkerGroupError(TrainingFailedError):
    """Workers failed more often than ``FailureConfig.max_failures`` allows.

    Attributes:
        worker_failures: The exception of each failed rank. The first failure is the cause; ranks
            that only failed because their peer was gone are left out where that can be told.

    Examples:
        >>> from ray.train import DataParallelTrainer, ScalingConfig, WorkerGroupError
        >>> def work():
        ...     raise ValueError("no such file")
        >>> try:
        ...     DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=1)).fit()
        ... except WorkerGroupError as error:
        ...     print(list(error.worker_failures))
        [0]
    """

    def __init__(self, error_message: str, worker_failures: dict[int, Exception]) -> None:
        super().__init__(error_message)
        self.worker_failures = worker_failures

    def __reduce__(self) -> tuple[type[WorkerGroupError], tuple[object, ...]]:
        return (type(self), (str(self), self.worker_failures))


class ControllerError(TrainingFailedError):
    """Something outside the workers failed: storage, the coordinator, a callback.

    Attributes:
        controller_failure: The exception that ended the run. With its traceback it is the cause, too,
            unless its text says all (:class:`WorkerStartError`).

    Examples:
        >>> from ray.train import ControllerError, DataParallelTrainer
        >>> def fit(trainer):
        ...     try:
        ...         return trainer.fit()
        ...     except ControllerError as error:
        ...         raise SystemExit(f"not the workers' fault: {error.controller_failure}") from error
        >>> ControllerError(OSError("the disk is full"))
        ControllerError('OSError: the disk is full')
    """

    def __init__(self, controller_failure: Exception, *, _where: str = "") -> None:
        text = f"{type(controller_failure).__name__}: {controller_failure}"
        super().__init__(f"{_where} raised {text}" if _where else text)
        self.controller_failure = controller_failure
        self._where = _where

    def __reduce__(self) -> tuple[Callable[..., ControllerError], tuple[object, ...]]:
        return (partial(type(self), _where=self._where), (self.controller_failure,))


class WorkerDiedError(Exception):
    """A worker's process ended while its training function was running.

    Examples:
        >>> from ray.train import WorkerDiedError, WorkerGroupError
        >>> def fit(trainer):
        ...     try:
        ...         return trainer.fit()
        ...     except WorkerGroupError as error:
        ...         for rank, failure in error.worker_failures.items():
        ...             if isinstance(failure, WorkerDiedError):
        ...                 print("the process of rank", rank, "has ended:", failure)
        ...         raise
    """


class MissingRankError(Exception):
    """Some ranks never joined a call that all ranks have to make. The text names them.

    Examples:
        >>> from ray.train import MissingRankError, WorkerGroupError
        >>> def fit(trainer):
        ...     try:
        ...         return trainer.fit()
        ...     except WorkerGroupError as error:
        ...         for rank, failure in error.worker_failures.items():
        ...             if isinstance(failure, MissingRankError):
        ...                 print("rank", rank, "waited:", failure)  # the text names the missing ranks
        ...         raise
    """


class CheckpointMismatchError(ValueError):
    """A checkpoint has another model than the one it is loaded into. The text names the first tensor."""


class DamagedCheckpointError(RuntimeError):
    """Files of a checkpoint are missing, or are not as they were written. The text names the first."""


class WorkerStartError(Exception):
    """The workers could not be started. The text says which resource is missing where.

    Examples:
        >>> from ray.train import TrainingFailedError, WorkerStartError
        >>> def fit(trainer):
        ...     try:
        ...         return trainer.fit()
        ...     except TrainingFailedError as error:
        ...         failure = getattr(error, "controller_failure", None)
        ...         if isinstance(failure, WorkerStartError):
        ...             print("no room:", failure)  # such as GPUs that no node has
        ...         raise
    """


class RemoteTraceback(Exception):
    """The traceback text of an exception that was raised on a worker (set as its cause)."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class AttemptEnded(BaseException):
    """Raised inside a training function when its attempt is over, to unwind it.

    It derives from BaseException so that ``except Exception`` in user code lets it pass.
    """
