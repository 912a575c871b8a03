"""The context of a training function. The session of this process is held here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.train.checkpoint import Checkpoint
    from heliostat.train.reported import ReportedCheckpoint
    from heliostat.train.storage.base import Storage


class Session(ABC):
    """The worker's side of a run, as the public functions see it."""

    context: TrainContext

    @abstractmethod
    def report(
        self,
        metrics: dict[str, Any],
        checkpoint: Checkpoint | None,
        **options: Any,
    ) -> None:
        """See ``heliostat.train.report``."""

    @abstractmethod
    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint of the run."""

    @abstractmethod
    def shard(self, name: str | None) -> Any:
        """A dataset shard of this rank."""

    @abstractmethod
    def meet(self, kind: str, data: Any) -> Any:
        """Meet the other ranks; returns what rank 0 brought."""

    def on_world_size_change(self, hook: Callable[[int, int], None]) -> None:  # noqa: B027 - groups of one size call none
        """Have ``hook`` called when this worker goes on in a group of another size."""

    @abstractmethod
    def reported(self, validated: bool, timeout_s: float | None) -> list[ReportedCheckpoint]:
        """All checkpoints of the run."""


def the_dataset(datasets: Mapping[str, Any], name: str | None) -> str:
    """The name of the dataset that is asked for; None asks for the only one. Raises KeyError."""
    if name is None:
        if len(datasets) > 1:
            raise KeyError(f"get_dataset_shard() needs a name; the trainer has {sorted(datasets)}.")
        return next(iter(datasets))
    if name not in datasets:
        raise KeyError(f"There is no dataset {name!r}; the trainer has {sorted(datasets)}.")
    return name


_session: Session | None = None
# Set while this process runs something else that reports: what to call there instead.
_instead: dict[str, str] = {}


def set_instead(names: dict[str, str]) -> None:
    """Say which functions take the place of this module's in what this process runs from now on."""
    _instead.clear()
    _instead.update(names)


def set_session(session: Session | None) -> None:
    """Make ``session`` the one that the public functions use in this process."""
    global _session
    _session = session


def current_session(what: str) -> Session:
    """The session of this process. Raises RuntimeError, naming ``what``, outside of a worker."""
    if _session is None and what in _instead:
        raise RuntimeError(f"`train.{what}` is for trainers. In a trial call `{_instead[what]}`.")
    if _session is None:
        raise RuntimeError(
            f"`{what}` cannot be used outside of a Ray Train training function. Call it in the "
            "function that you pass to a trainer as `train_loop_per_worker`."
        )
    return _session


def has_session() -> bool:
    """Whether this process runs a training function."""
    return _session is not None


class TrainContext:
    """Rank, world size and names, as `get_context` returns them.

    Args:
        world_rank: The worker's number, from 0.
        world_size: How many workers there are.
        local_rank: Its number among those of its node.
        local_world_size: How many those are.
        node_rank: The node's number.
        experiment_name: The run's name.
        storage: Where the run keeps its files.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, RunConfig, ScalingConfig
        >>> def work():
        ...     context = train.get_context()
        ...     print(context.get_experiment_name(), context.get_world_rank(), context.get_world_size())
        >>> _ = DataParallelTrainer(
        ...     work,
        ...     scaling_config=ScalingConfig(num_workers=0),  # in this process
        ...     run_config=RunConfig(name="small"),
        ... ).fit()
        small 0 1
    """

    def __init__(
        self,
        *,
        world_rank: int,
        world_size: int,
        local_rank: int,
        local_world_size: int,
        node_rank: int,
        experiment_name: str,
        storage: Storage | None,
    ) -> None:
        self._world_rank = world_rank
        self._world_size = world_size
        self._local_rank = local_rank
        self._local_world_size = local_world_size
        self._node_rank = node_rank
        self._experiment_name = experiment_name
        self._storage = storage

    def get_world_size(self) -> int:
        """Return the number of workers."""
        return self._world_size

    def get_world_rank(self) -> int:
        """Return this worker's number, from 0; workers of one node have consecutive numbers."""
        return self._world_rank

    def get_local_rank(self) -> int:
        """Return this worker's number among those on its node."""
        return self._local_rank

    def get_local_world_size(self) -> int:
        """Return the number of workers on this node."""
        return self._local_world_size

    def get_node_rank(self) -> int:
        """Return this node's number among those of the run."""
        return self._node_rank

    def get_experiment_name(self) -> str:
        """Return the name of the run."""
        return self._experiment_name

    def get_storage(self) -> Storage | None:
        """Return where the run keeps its files; None in local mode without storage."""
        return self._storage

    def __getattr__(self, name: str) -> Any:
        if name.startswith("get_trial_") or name == "get_metadata":
            raise DeprecationWarning(
                f"`{name}` belongs to the first generation of Ray Train. Remove the call; "
                "`get_experiment_name()` gives the name of the run."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return (
            f"TrainContext(world_rank={self._world_rank}, world_size={self._world_size}, "
            f"local_rank={self._local_rank}, node_rank={self._node_rank})"
        )


def get_context() -> TrainContext:
    """Return rank, world size and names of this worker.

    Raises:
        RuntimeError: Not called in a training function.

    Examples:
        >>> from ray import train
        >>> def work():
        ...     context = train.get_context()
        ...     print("worker", context.get_world_rank(), "of", context.get_world_size())
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> here = ScalingConfig(num_workers=0)  # in this process
        >>> _ = DataParallelTrainer(work, scaling_config=here).fit()
        worker 0 of 1
    """
    return current_session("get_context").context


def get_checkpoint() -> Checkpoint | None:
    """Return the latest checkpoint of the run, None when there is none yet.

    After a restart, and in a run that resumes an earlier one, it is the one to go on from.

    Examples:
        >>> import pathlib
        >>> from ray import train
        >>> def work():
        ...     first = 0
        ...     if checkpoint := train.get_checkpoint():
        ...         with checkpoint.as_directory() as folder:
        ...             first = int(pathlib.Path(folder, "epoch.txt").read_text()) + 1
        ...     print("begins with epoch", first)
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> here = ScalingConfig(num_workers=0)  # in this process
        >>> _ = DataParallelTrainer(work, scaling_config=here).fit()
        begins with epoch 0
    """
    return current_session("get_checkpoint").checkpoint()


def get_dataset_shard(dataset_name: str | None = None) -> Any:
    """Return this worker's ``DataIterator`` of a dataset that was passed to the trainer.

    Args:
        dataset_name: Key in the trainer's ``datasets``; may be left out when there is only one.

    Returns:
        The iterator, None when the trainer got no datasets.

    Raises:
        KeyError: There is no dataset of that name.

    Examples:
        >>> import ray
        >>> from ray import train
        >>> def work():
        ...     for batch in train.get_dataset_shard("train").iter_batches(batch_size=2):
        ...         print(batch["id"])
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> here = ScalingConfig(num_workers=0)  # in this process
        >>> _ = DataParallelTrainer(
        ...     work, scaling_config=here, datasets={"train": ray.data.range(4)}
        ... ).fit()
        [0 1]
        [2 3]
    """
    return current_session("get_dataset_shard").shard(dataset_name)
