"""The connection of XGBoost's workers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.train.backend import Backend, BackendConfig

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup

# On a worker: how it joins the others, between `on_training_start` and the training function.
_joining: dict[str, Any] = {}
# On rank 0: the meeting point.
_trackers: list[Any] = []


@dataclass
class XGBoostConfig(BackendConfig):
    """Configuration of XGBoost's communication.

    Attributes:
        xgboost_communicator: "rabit", the only one there is.

    Raises:
        ValueError: Another communicator.

    Examples:
        >>> from ray.train.xgboost import XGBoostConfig, XGBoostTrainer
        >>> def work():
        ...     ...  # calls xgboost.train, whose workers are connected
        >>> trainer = XGBoostTrainer(work, xgboost_config=XGBoostConfig())
    """

    xgboost_communicator: str = "rabit"

    def __post_init__(self) -> None:
        if self.xgboost_communicator != "rabit":
            raise ValueError(
                f"xgboost_communicator={self.xgboost_communicator!r}; 'rabit' is the only one."
            )

    @property
    def backend_cls(self) -> type[Backend]:
        return XGBoostBackend

    @property
    def framework(self) -> str:
        return "xgboost"

    @property
    def preload(self) -> list[str]:
        return ["xgboost"]

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        return _communicating


class XGBoostBackend(Backend):
    """Opens XGBoost's tracker on rank 0 and tells the workers where it is."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: XGBoostConfig) -> None:
        arguments = worker_group.execute_single(0, _open_tracker, len(worker_group))
        ray.get(
            [
                worker_group.execute_single_async(rank, _remember, arguments, rank)
                for rank in range(len(worker_group))
            ]
        )


def _open_tracker(workers: int) -> dict[str, Any]:
    from xgboost.tracker import RabitTracker

    # Ranks in the order of the task ids, which are ours.
    tracker = RabitTracker(n_workers=workers, host_ip=ray.util.get_node_ip_address(), sortby="task")
    tracker.start()
    # The tracker serves while somebody waits for it.
    threading.Thread(target=_serve, args=(tracker,), name="train-tracker", daemon=True).start()
    _trackers[:] = [tracker]
    return {"n_workers": workers, **tracker.worker_args()}


def _serve(tracker: Any) -> None:
    with contextlib.suppress(Exception):  # a worker that died: the workers themselves say so
        tracker.wait_for()


def _remember(arguments: dict[str, Any], rank: int) -> None:
    _joining.clear()
    _joining.update(arguments, dmlc_task_id=f"rank-{rank:08}")


@contextlib.contextmanager
def _communicating() -> Iterator[None]:
    """Around the training function; in this process alone (`num_workers=0`) there is nobody else."""
    if not _joining:
        yield
        return
    from xgboost.collective import CommunicatorContext

    with CommunicatorContext(**_joining):
        yield
