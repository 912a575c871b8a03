"""The devices of a worker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from heliostat.train.context import has_session

if TYPE_CHECKING:
    import torch


def get_device() -> torch.device:
    """Return the device of this worker: its first GPU, or the CPU.

    Raises:
        RuntimeError: Not called in a training function.

    Examples:
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, get_device
        >>> def work():
        ...     return str(get_device())
        >>> TorchTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        'cpu'
    """
    if not has_session():
        raise RuntimeError(
            "`get_device` cannot be used outside of a Ray Train training function. Call it in the "
            "function that you pass to a trainer as `train_loop_per_worker`."
        )
    return get_devices()[0]


def get_devices() -> list[torch.device]:
    """Return all devices of this worker: its GPUs, or the CPU.

    Examples:
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, get_devices
        >>> def work():
        ...     return [str(device) for device in get_devices()]
        >>> TorchTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit().return_value
        ['cpu']
    """
    import torch

    own = os.environ.get("HELIOSTAT_TRAIN_GPU_INDICES", "")
    if not own or not torch.cuda.is_available():
        return [torch.device("cpu")]
    return [torch.device(f"cuda:{index}") for index in own.split(",")]
