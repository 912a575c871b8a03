"""``prepare_model``."""

from __future__ import annotations

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
        move_to_device: True (default): the worker's device; a device: that one; False: stay.
        parallel_strategy: "ddp" (default), "fsdp" or None.
        parallel_strategy_kwargs: Further arguments of ``DistributedDataParallel`` or
            ``FullyShardedDataParallel``.

    Raises:
        ValueError: Another strategy.
        RuntimeError: Not called in a training function.
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
    wrapped: torch.nn.Module = DistributedDataParallel(model, **options)
    return wrapped


def _fsdp(model: torch.nn.Module, device: torch.device, options: dict[str, Any]) -> torch.nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    # Without it FullyShardedDataParallel asks for an accelerator and fails on CPUs.
    options.setdefault("device_id", device)
    wrapped: torch.nn.Module = FullyShardedDataParallel(model, **options)
    return wrapped
