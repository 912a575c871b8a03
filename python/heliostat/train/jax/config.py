"""The connection of JAX's processes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.core.platform.extras import required
from heliostat.train.backend import Backend, BackendConfig
from heliostat.train.group.address import free_address

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup

# How long the workers may take to take leave of each other after the training function.
_SHUTDOWN_S = 30.0


@dataclass
class JaxConfig(BackendConfig):
    """Configuration of JAX's processes.

    ``jax.distributed.initialize`` is called on every worker before the training function. On CPUs
    too, where Ray leaves each worker by itself: then the training function must not call it again.

    Attributes:
        use_tpu: Refused: there is no TPU backend.
        use_gpu: The workers use their GPUs. Default False: CPUs.

    Raises:
        ValueError: ``use_tpu``.

    Examples:
        >>> from ray.train import ScalingConfig
        >>> from ray.train.jax import JaxConfig, JaxTrainer
        >>> def work():
        ...     import jax
        ...     return jax.device_count()
        >>> def main():  # the driver needs jax, too
        ...     trainer = JaxTrainer(
        ...         work,
        ...         jax_config=JaxConfig(use_gpu=True),
        ...         scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
        ...     )
        ...     return trainer.fit().return_value
    """

    use_tpu: bool = False
    use_gpu: bool = False

    def __post_init__(self) -> None:
        if self.use_tpu:
            raise ValueError("There is no TPU backend: leave `use_tpu` out.")

    @property
    def backend_cls(self) -> type[Backend]:
        return JaxBackend

    @property
    def framework(self) -> str:
        return "jax"


class JaxBackend(Backend):
    """Connects the workers through JAX's coordination service, which rank 0 serves."""

    def on_start(self, worker_group: WorkerGroup, backend_config: JaxConfig) -> None:
        host, port = worker_group.execute_single(0, free_address)
        ray.get(
            [
                worker_group.execute_single_async(
                    rank,
                    _join,
                    f"{host}:{port}",
                    len(worker_group),
                    rank,
                    len(worker.info.gpu_ids) if backend_config.use_gpu else 0,
                )
                for rank, worker in enumerate(worker_group.workers)
            ]
        )

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: JaxConfig) -> None:
        # All at once: each waits for the others.
        ray.get(worker_group.execute_async(_leave), timeout=_SHUTDOWN_S)


def _join(address: str, world_size: int, rank: int, gpus: int) -> None:
    """On every worker, before anything asks JAX for a device."""
    os.environ.setdefault("JAX_PLATFORMS", "cuda" if gpus else "cpu")
    jax = required("jax", "JaxTrainer, on every node")
    # Where jax had been imported already it does not look at the environment again.
    jax.config.update("jax_platforms", os.environ["JAX_PLATFORMS"])
    jax.distributed.initialize(
        address, world_size, rank, local_device_ids=list(range(gpus)) if gpus else None
    )


def _leave() -> None:
    import jax

    jax.distributed.shutdown()
