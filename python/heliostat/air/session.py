"""The session of a training function, as functions of one module: Ray's older form.

``session.report`` is ``train.report``, ``session.get_world_rank()`` is
``train.get_context().get_world_rank()``, and so on; in a trial they are those of ``tune``. Outside of a
training function and of a trial they raise RuntimeError, as those of ``train`` do.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from heliostat.train import context as train_context
from heliostat.train import reported
from heliostat.train.context import get_dataset_shard

if TYPE_CHECKING:
    from heliostat.train.checkpoint import Checkpoint
    from heliostat.train.storage.base import Storage

__all__ = [
    "get_checkpoint",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_storage",
    "get_world_rank",
    "get_world_size",
    "report",
]


def _trial() -> Any:
    """Return the module ``heliostat.tune.context`` in a process that runs a trial; else None."""
    # A process that runs a trial has loaded it; no other one has to.
    tune = sys.modules.get("heliostat.tune.context")
    return tune if tune is not None and tune.in_trial() else None


def report(
    metrics: dict[str, Any], *, checkpoint: Checkpoint | None = None, **options: Any
) -> None:
    """Report metrics, perhaps with a checkpoint, of a training worker or a trial.

    Args:
        metrics: Names and values.
        checkpoint: A folder of files.
        options: Further ones of ``train.report``; a trial has none.

    Examples:
        >>> from ray import tune
        >>> from ray.air import session
        >>> def objective(config):
        ...     session.report({"loss": 1})
        >>> tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()[0].metrics["loss"]
        1
    """
    trial = _trial()
    if trial is None:
        reported.report(metrics, checkpoint, **options)
    else:
        trial.report(metrics, checkpoint=checkpoint, **options)


def get_checkpoint() -> Checkpoint | None:
    """Return the checkpoint that the worker or the trial begins from, or reported last.

    Returns:
        The checkpoint; ``None`` when there is none yet.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return "anew" if session.get_checkpoint() is None else "from the checkpoint"
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        'anew'
    """
    trial = _trial()
    found: Checkpoint | None = (trial or train_context).get_checkpoint()
    return found


def get_context() -> Any:
    """Return the context of the trial, or else of the training worker."""
    return (_trial() or train_context).get_context()


def get_experiment_name() -> str:
    """Return the name of the run.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, RunConfig, ScalingConfig
        >>> DataParallelTrainer(
        ...     session.get_experiment_name,
        ...     scaling_config=ScalingConfig(num_workers=0),  # in this process
        ...     run_config=RunConfig(name="named"),
        ... ).fit().return_value
        'named'
    """
    name: str = get_context().get_experiment_name()
    return name


def get_world_size() -> int:
    """Return the number of workers.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return 64 // session.get_world_size()  # rows of a batch for each
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        64
    """
    found: int = get_context().get_world_size()
    return found


def get_world_rank() -> int:
    """Return this worker's number, from 0.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     if session.get_world_rank() == 0:
        ...         print("the first worker says so, once")
        >>> _ = DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit()
        the first worker says so, once
    """
    found: int = get_context().get_world_rank()
    return found


def get_local_rank() -> int:
    """Return this worker's number among those on its node.

    Returns:
        The number, from 0.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return f"cuda:{session.get_local_rank()}"
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        'cuda:0'
    """
    found: int = get_context().get_local_rank()
    return found


def get_local_world_size() -> int:
    """Return the number of workers on this node.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return 8 // session.get_local_world_size()  # threads for each
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        8
    """
    found: int = get_context().get_local_world_size()
    return found


def get_node_rank() -> int:
    """Return this node's number among those of the run.

    Returns:
        The number, from 0.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     return session.get_node_rank() == 0 and session.get_local_rank() == 0
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        True
    """
    found: int = get_context().get_node_rank()
    return found


def get_storage() -> Storage | None:
    """Return where the run keeps its files.

    Returns:
        The storage of a training run; ``None`` in a worker that has none.

    Raises:
        RuntimeError: Not called in a training function or a trial.

    Examples:
        >>> from ray.air import session
        >>> from ray.train import DataParallelTrainer, RunConfig, ScalingConfig
        >>> def work():
        ...     return session.get_storage() is not None
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=1)).fit().return_value
        True
    """
    found: Storage | None = get_context().get_storage()
    return found


def __getattr__(name: str) -> Any:
    if name.startswith("get_trial_") or name == "get_metadata":

        def gone() -> Any:
            return getattr(get_context(), name)()  # says what to use instead

        return gone
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
