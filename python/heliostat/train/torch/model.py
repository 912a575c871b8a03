"""``prepare_model``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from heliostat.train.context import current_session
from heliostat.train.torch.device import get_device

if TYPE_CHECKING:
    import torch


def prepare_model(
    model: torch.nn.Module,
    move_to_device: bool | torch.device = True,
    parallel_strategy: str | None = "ddp",
    parallel_strategy_kwargs: dict[str, Any] | None = None,
) -> torch.nn.Module:
    """Move a model to this worker's device and wrap it for distributed training.

    With one worker the model is not wrapped.

    Args:
        model: The model.
        move_to_device: True (default): the worker's device; a device: that one; False: stay.
        parallel_strategy: "ddp" (default), "fsdp" or None.
        parallel_strategy_kwargs: Further arguments of ``DistributedDataParallel`` or
            ``FullyShardedDataParallel``.

    Returns:
        The model, wrapped where there are several workers.

    Raises:
        ValueError: Another strategy.
        RuntimeError: Not called in a training function.

    Examples:
        >>> import torch
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, prepare_model
        >>> def work():
        ...     model = prepare_model(torch.nn.Linear(2, 1))
        ...     return type(model).__name__
        >>> TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2)).fit().return_value
        'DistributedDataParallel'
    """
    if parallel_strategy not in ("ddp", "fsdp", None):
        raise ValueError(f"parallel_strategy={parallel_strategy!r} must be 'ddp', 'fsdp' or None.")
    world_size = current_session("prepare_model").context.get_world_size()
    device = get_device() if isinstance(move_to_device, bool) else move_to_device
    options = dict(parallel_strategy_kwargs or {})
    if move_to_device is not False:
        model = model.to(device)
    if world_size <= 1 or parallel_strategy is None:
        return model
    if parallel_strategy == "ddp":
        return _ddp(model, device, options)
    return _fsdp(model, device, options)


def _ddp(model: torch.nn.Module, device: torch.device, options: dict[str, Any]) -> torch.nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    if device.type != "cpu":
        options.setdefault("device_ids", [device])
        options.setdefault("output_device", device)
    if not any(p.requires_grad for p in model.parameters()):
        return model  # nothing to keep in step; DistributedDataParallel would refuse it
    try:
        wrapped: torch.nn.Module = DistributedDataParallel(model, **options)
    except RuntimeError as error:
        problem = _difference(model, str(error))
        if not problem:
            raise
        raise ValueError(problem) from error
    return wrapped


def _difference(model: torch.nn.Module, said: str) -> str:
    """Return the name of the parameter that differs from that of rank 0; torch gives its number
    only. "" for another error.
    """
    found = re.match(r"\[(\d+)\]: params\[(\d+)\] in this process", said)
    if found is None:
        return ""
    rank, number = map(int, found.groups())
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if number >= len(named):
        return ""
    name, parameter = named[number]
    return (
        f"The model of rank {rank} is not that of rank 0: the first parameter that differs is {name!r} with "
        f"shape {list(parameter.shape)} of {str(parameter.dtype).removeprefix('torch.')}. Build the same "
        "model on every rank."
    )


def _fsdp(model: torch.nn.Module, device: torch.device, options: dict[str, Any]) -> torch.nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    # Without it FullyShardedDataParallel asks for an accelerator and fails on CPUs.
    options.setdefault("device_id", device)
    wrapped: torch.nn.Module = FullyShardedDataParallel(model, **options)
    return wrapped
