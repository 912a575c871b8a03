"""Small meetings of all workers, independent of any framework."""

from __future__ import annotations

import pickle
from typing import TypeVar

from heliostat.train.context import current_session

__all__ = ["broadcast_from_rank_zero", "barrier"]

T = TypeVar("T")

# More than this belongs into a framework's own collectives, or into the object store.
_MAX_BYTES = 1000


def barrier() -> None:
    """Wait until all workers have called it, or have left their training function.

    Raises:
        RuntimeError: Not called in a training function, or other ranks call something else.
        MissingRankError: Some rank did not come in time; the text names it, with its stack.

    Examples:
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     # rank 0 fetches the data here; the others wait
        ...     train.collective.barrier()
        ...     return "all are here"
        >>> DataParallelTrainer(work, scaling_config=ScalingConfig(num_workers=2)).fit().return_value
        'all are here'
    """
    current_session("collective.barrier").meet("barrier", None)


def broadcast_from_rank_zero(data: T) -> T:
    """Return rank 0's ``data`` on every worker. It is for small things, up to about 1 kB.

    Args:
        data: On rank 0, what is sent: anything that can be pickled. Others' is not looked at.

    Raises:
        RuntimeError: Not called in a training function, or other ranks call something else.
        ValueError: The data of rank 0 is far larger than that.
        MissingRankError: Some rank did not come in time; the text names it, with its stack.

    Examples:
        >>> import os
        >>> from ray import train
        >>> from ray.train import DataParallelTrainer, ScalingConfig
        >>> def work():
        ...     is_first = train.get_context().get_world_rank() == 0
        ...     print(train.collective.broadcast_from_rank_zero("run-7" if is_first else None))
        ...     train.collective.barrier()
        >>> here = ScalingConfig(num_workers=0)  # in this process
        >>> _ = DataParallelTrainer(work, scaling_config=here).fit()
        run-7
    """
    session = current_session("collective.broadcast_from_rank_zero")
    mine = session.context.get_world_rank() == 0
    if mine and len(pickle.dumps(data)) > 100 * _MAX_BYTES:
        raise ValueError(
            "broadcast_from_rank_zero() is for small data (up to about 1 kB). Use "
            "torch.distributed, or put large data into the object store and send its reference."
        )
    result: T = session.meet("broadcast_from_rank_zero", data if mine else None)
    return result
