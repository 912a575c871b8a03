"""The connection of LightGBM's workers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.train.backend import Backend, BackendConfig
from heliostat.train.group.address import free_address

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup

logger = logging.getLogger(__name__)

# On a worker: LightGBM's parameters for the network.
_network: dict[str, Any] = {}


@dataclass
class LightGBMConfig(BackendConfig):
    """Configuration of LightGBM's network; there is nothing to choose.

    Examples:
        >>> from ray.train.lightgbm import LightGBMConfig, LightGBMTrainer
        >>> def work():
        ...     ...  # calls lightgbm.train with ray.train.lightgbm.get_network_params()
        >>> trainer = LightGBMTrainer(work, lightgbm_config=LightGBMConfig())
    """

    @property
    def backend_cls(self) -> type[Backend]:
        return LightGBMBackend

    @property
    def framework(self) -> str:
        return "lightgbm"

    @property
    def preload(self) -> list[str]:
        return ["lightgbm"]


class LightGBMBackend(Backend):
    """Tells every worker the addresses of all of them."""

    def on_training_start(self, worker_group: WorkerGroup, backend_config: LightGBMConfig) -> None:
        places = worker_group.execute(free_address)
        machines = ",".join(f"{address}:{port}" for address, port in places)
        ray.get(
            [
                worker_group.execute_single_async(rank, _remember, len(places), port, machines)
                for rank, (_, port) in enumerate(places)
            ]
        )


def _remember(workers: int, port: int, machines: str) -> None:
    _network.clear()
    _network.update(num_machines=workers, local_listen_port=port, machines=machines)


def get_network_params() -> dict[str, Any]:
    """Return LightGBM's ``num_machines``, ``local_listen_port`` and ``machines`` for this worker.

    Outside of the training function of a ``LightGBMTrainer``: a warning, and an empty dict.

    Returns:
        The parameters, to be added to those of ``lightgbm.train``.

    Examples:
        >>> from ray.train import ScalingConfig
        >>> from ray.train.lightgbm import LightGBMTrainer, get_network_params
        >>> def work():
        ...     parameters = {"objective": "regression", "tree_learner": "data", **get_network_params()}
        ...     ...  # lightgbm.train(parameters, lightgbm.Dataset(...))
        >>> trainer = LightGBMTrainer(work, scaling_config=ScalingConfig(num_workers=2))
    """
    if not _network:
        logger.warning(
            "get_network_params() was called outside of a LightGBMTrainer's training function: "
            "LightGBM will train in this process alone."
        )
    return dict(_network)
