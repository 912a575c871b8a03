"""Names for what happens when a node is about to be taken away.

Nothing announces that yet: a lost node is a failure of its workers. Programs that ask run as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from heliostat.train.context import current_session
from heliostat.train.errors import TrainingFailedError, WorkerGroupError


@dataclass(frozen=True)
class PreemptionInfo:
    """Which nodes will be taken away.

    Attributes:
        deadline_ms: When the first of them goes, in milliseconds since 1970; None when unknown.
        preempted_node_to_ranks: The ranks on each of these nodes, by the node's id.
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

    Never raised here, since a lost node counts against ``max_failures``.
    """

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False) -> None:
        super().__init__(f"nodes were taken away: {preemption_info.preempted_node_ids}")
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __reduce__(self) -> tuple[type[PreemptionError], tuple[object, ...]]:
        return (type(self), (self.preemption_info, self.drain_timed_out))


class NCCLHangError(WorkerGroupError):
    """NCCL's own service has found ranks that hang. Never raised here: see ``MissingRankError``."""


def get_preemption_info() -> PreemptionInfo | None:
    """Return which nodes of this run will be taken away; None, since nothing announces it yet.

    Raises:
        RuntimeError: Not called in a training function.
    """
    current_session("get_preemption_info")
    return None
