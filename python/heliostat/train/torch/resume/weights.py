"""Averaging gradients by samples, where the workers of a step have shares of different sizes."""

# Annotations are evaluated here: torch compares those of the hook with its own classes.

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class Average:
    """Weights for ``DistributedDataParallel``, whose gradients are means over each worker's
    samples.

    Attributes:
        weight: This worker's samples of the step, in parts of the mean over the workers.
    """

    def __init__(self, models: Iterable[torch.nn.Module]) -> None:
        self.weight = 1.0
        for model in models:
            if isinstance(model, DistributedDataParallel):
                model.register_comm_hook(self, _weighted)


def _weighted(average: Average, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    if average.weight != 1.0:
        bucket.buffer().mul_(average.weight)
    return default_hooks.allreduce_hook(None, bucket)
