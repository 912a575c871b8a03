"""News of nodes that are taken away, for a training function and a caller of ``fit()``."""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.train.context import current_session
from heliostat.train.errors import TrainingFailedError, WorkerGroupError
from heliostat.train.messages import PREEMPTION


@dataclass(frozen=True)
class PreemptionInfo:
    """The nodes that will be taken away.

    Attributes:
        deadline_ms: When the first of them goes, in milliseconds since 1970; None when unknown.
        preempted_node_to_ranks: The ranks on each of these nodes, by the node's id.

    Examples:
        >>> from ray.train import PreemptionInfo
        >>> info = PreemptionInfo(deadline_ms=None, preempted_node_to_ranks={"a3f0": [2, 3]})
        >>> info.preempted_node_ids, info.preempted_ranks
        (['a3f0'], [2, 3])
    """

    deadline_ms: int | None
    preempted_node_to_ranks: dict[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The nodes, in the order of their ids."""
        return sorted(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The ranks on all of them, in order."""
        return sorted({rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks})


class PreemptionError(TrainingFailedError):
    """Nodes were taken away more often than ``FailureConfig.max_preemption_failures`` allows.

    A node counts where the run had not left it in time: its workers died with it, or were ended
    without a checkpoint. A run that moves with a checkpoint has lost nothing, and nothing is counted.

    Attributes:
        preemption_info: The nodes and ranks of the last time.
        drain_timed_out: The workers were ended, since the time was over; False: they died with the node.

    Examples:
        >>> from ray.train import FailureConfig, PreemptionError, RunConfig
        >>> config = RunConfig(failure_config=FailureConfig(max_preemption_failures=5))
        >>> def fit(trainer):
        ...     try:
        ...         return trainer.fit()
        ...     except PreemptionError as error:
        ...         print("lost with its nodes:", error.preemption_info.preempted_ranks)
        ...         raise
    """

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False) -> None:
        super().__init__(f"nodes were taken away: {preemption_info.preempted_node_ids}")
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self) -> tuple[type[PreemptionError], tuple[object, ...]]:
        return (type(self), (self.preemption_info, self.drain_timed_out))


class NCCLHangError(WorkerGroupError):
    """NCCL's own service has found ranks that hang. Never raised here: see ``MissingRankError``.

    Examples:
        >>> from ray.train import NCCLHangError, WorkerGroupError
        >>> issubclass(NCCLHangError, WorkerGroupError)  # which catches ranks that hang, too
        True
    """


def get_preemption_info() -> PreemptionInfo | None:
    """Return which nodes of this run will be taken away, None while none will be.

    A node will be taken away when it is drained (``heliostat drain-node``), or when its daemon gets
    SIGTERM and ``HELIOSTAT_PREEMPTION_GRACE_S`` is set. The run first starts workers elsewhere, where there
    is room, beside the training; then this returns something, and the next report with a checkpoint
    ends the attempt: the workers go on from there, off these nodes. So save as soon as it does::

        for step in range(first, steps):
            ...
            is_last = train.get_preemption_info() is not None
            if is_last or step % 100 == 0:
                train.report(metrics, checkpoint=save(step))

    All ranks have to call it equally often: each call waits for the others, so that all get the same
    answer. ``ray.train.torch.resumable`` saves without being asked.

    Raises:
        RuntimeError: Not called in a training function.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     for step in range(3):
        ...         if train.get_preemption_info() is not None:
        ...             ...  # save a checkpoint and report it
        ...     return step
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        2
    """
    found: PreemptionInfo | None = current_session("get_preemption_info").meet(PREEMPTION, None)
    return found
