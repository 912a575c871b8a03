"""The connection of TensorFlow's processes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.train.backend import Backend, BackendConfig
from heliostat.train.group.address import free_address

if TYPE_CHECKING:
    from heliostat.train.group.worker_group import WorkerGroup


@dataclass
class TensorflowConfig(BackendConfig):
    """Configuration of TensorFlow's processes, which has no options.

    Every worker's ``TF_CONFIG`` names the addresses of all workers, in the order of their ranks, and its own
    place among them (https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable).

    Examples:
        >>> from ray.train import ScalingConfig
        >>> from ray.train.tensorflow import TensorflowConfig, TensorflowTrainer
        >>> def work():
        ...     import tensorflow as tf
        ...     strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG
        >>> trainer = TensorflowTrainer(
        ...     work,
        ...     tensorflow_config=TensorflowConfig(),
        ...     scaling_config=ScalingConfig(num_workers=2),
        ... )
    """

    @property
    def backend_cls(self) -> type[Backend]:
        return TensorflowBackend

    @property
    def framework(self) -> str:
        return "tensorflow"


class TensorflowBackend(Backend):
    """Tells the workers each other's addresses; the strategy of the training function connects them."""

    def on_start(self, worker_group: WorkerGroup, backend_config: TensorflowConfig) -> None:
        places = [f"{host}:{port}" for host, port in worker_group.execute(free_address)]
        ray.get(
            [
                worker_group.execute_single_async(rank, _introduce, places, rank)
                for rank in range(len(places))
            ]
        )


def _introduce(places: list[str], rank: int) -> None:
    """On every worker, before TensorFlow is imported."""
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": places}, "task": task})
    # Keras 3 cannot train under a strategy of several workers; Keras 2 is the package tf_keras.
    if find_spec("tf_keras") is not None:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
