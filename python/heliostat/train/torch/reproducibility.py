"""``enable_reproducibility``."""

from __future__ import annotations

import os
import random

_enabled = False


def enable_reproducibility(seed: int = 0) -> None:
    """Limit sources of nondeterminism: seed torch, numpy and `random`, ask for deterministic
    algorithms, and seed the processes of loaders that `prepare_data_loader` makes.

    Args:
        seed: The same on every worker; each rank adds its number to it. Default 0.

    Examples:
        >>> import torch
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, enable_reproducibility
        >>> def work():
        ...     enable_reproducibility(seed=7)
        ...     return torch.rand(1).item()
        >>> one = ScalingConfig(num_workers=1)
        >>> first, second = (TorchTrainer(work, scaling_config=one).fit().return_value for _ in range(2))
        >>> first == second
        True
    """
    global _enabled
    import torch

    from heliostat.train.context import current_session

    _enabled = True
    seed += current_session("enable_reproducibility").context.get_world_rank()
    torch.manual_seed(seed)
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(seed % (1 << 32))
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"


def is_enabled() -> bool:
    """Whether `enable_reproducibility` was called in this process."""
    return _enabled
