"""The process group of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.train.arguments import seconds
from heliostat.train.backend import Backend, BackendConfig

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup


@dataclass
class TorchConfig(BackendConfig):
    """How ``torch.distributed`` is initialised on the workers.

    Attributes:
        backend: "gloo", "nccl" or another one that torch knows. Default None: nccl with GPUs,
            gloo without.
        init_method: "env" (default) or "tcp".
        timeout_s: Timeout of the group's operations in seconds. Default 1800.

    Raises:
        ValueError: Another ``init_method``, or a timeout that is not positive.
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.init_method not in ("env", "tcp"):
            raise ValueError(f"init_method={self.init_method!r} must be 'env' or 'tcp'.")
        if self.backend is not None and not isinstance(self.backend, str):
            raise ValueError(
                f"TorchConfig(backend={self.backend!r}) must be a name such as 'gloo'."
            )
        seconds("timeout_s", self.timeout_s, above_zero=True)

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchBackend

    @property
    def framework(self) -> str:
        return "torch"

    @property
    def preload(self) -> list[str]:
        # The last is what models and optimizers load at their first step.
        return ["torch", "torch.distributed", "torch._dynamo"]

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[Any]]:
        from heliostat.train.torch.process_group import leaving_group_on_failure

        return leaving_group_on_failure


class TorchBackend(Backend):
    """Sets the process group up before the training function starts."""

    share_cuda_visible_devices = True

    def on_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        from heliostat.train.torch import process_group

        gpus = any(w.info.gpu_ids for w in worker_group.workers)
        backend = backend_config.backend or ("nccl" if gpus else "gloo")
        world_size = len(worker_group)
        options = (backend, backend_config.init_method, backend_config.timeout_s, world_size)
        # Rank 0 opens the meeting point on a port that the system chooses, so that no other
        # process can take the port in between.
        address, port = worker_group.execute_single(
            0, process_group.open_store, backend_config.init_method, world_size, options[2]
        )
        ray.get(
            [
                worker_group.execute_single_async(
                    rank,
                    process_group.join,
                    *options,
                    rank,
                    address,
                    port,
                    worker_group.ranks[rank],
                    bool(worker_group.workers[rank].info.gpu_ids),
                )
                for rank in range(world_size)
            ]
        )
