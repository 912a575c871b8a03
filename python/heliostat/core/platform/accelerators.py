"""The accelerators of the running call."""

from __future__ import annotations

from heliostat import _heliostat
from heliostat.core import session


def get_gpu_ids() -> list[int] | list[str]:
    """The GPUs of the running task or actor.

    Numbers; or text, where the node was started with CUDA_VISIBLE_DEVICES and names its own.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def visible():
        ...     return ray.get_gpu_ids()
        >>> ray.get(visible.remote())  # with num_gpus=1: [0], say
        []
    """
    session.ensure()
    return _heliostat.current().gpu_ids
