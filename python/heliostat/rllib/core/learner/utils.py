"""Slower copies of networks."""

from __future__ import annotations

import copy
from typing import Any

from heliostat.core.platform.extras import required

torch = required("torch", "ray.rllib", "rllib")


def make_target_network(main_net: Any) -> Any:
    """Return a copy of a network, with its weights, that gradients leave alone.

    Args:
        main_net: A ``torch.nn.Module``.

    Raises:
        ValueError: It is not a module of torch.
    """
    if not isinstance(main_net, torch.nn.Module):
        raise ValueError(f"make_target_network({main_net!r}): it takes a torch.nn.Module.")
    return copy.deepcopy(main_net).requires_grad_(False)


def update_target_network(*, main_net: Any, target_net: Any, tau: float) -> None:
    """Move a copy towards its network: ``target = tau * main + (1 - tau) * target``.

    Args:
        main_net: The network.
        target_net: The copy.
        tau: From 0 to 1; 1 makes both the same.
    """
    with torch.no_grad():
        own = target_net.state_dict()
        for name, value in main_net.state_dict().items():
            if value.is_floating_point():
                own[name].lerp_(value.to(own[name].device), tau)
            else:
                own[name].copy_(value)
