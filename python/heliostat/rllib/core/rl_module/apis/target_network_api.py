"""Modules that have slower copies of their networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

TARGET_NETWORK_ACTION_DIST_INPUTS = "target_network_action_dist_inputs"


class TargetNetworkAPI(ABC):
    """The methods of a module with target networks, for learners of your own.

    The learners of APPO, DQN and SAC keep a copy of the whole module by themselves and ask for none of these.

    Examples:
        >>> import torch
        >>> from ray.rllib.core import Columns
        >>> from ray.rllib.core.learner.utils import make_target_network
        >>> from ray.rllib.core.rl_module.apis import TargetNetworkAPI
        >>> class WithTarget(TargetNetworkAPI):  # beside TorchRLModule
        ...     def __init__(self):
        ...         self.net = torch.nn.Linear(4, 2)
        ...     def make_target_networks(self):
        ...         self.target = make_target_network(self.net)
        ...     def get_target_network_pairs(self):
        ...         return [(self.net, self.target)]
        ...     def forward_target(self, batch):
        ...         return {"qf_preds": self.target(batch[Columns.OBS])}
        >>> module = WithTarget()
        >>> module.make_target_networks()
        >>> module.forward_target({Columns.OBS: torch.ones(3, 4)})["qf_preds"].shape
        torch.Size([3, 2])
    """

    @abstractmethod
    def make_target_networks(self) -> None:
        """Make the copies, by ``make_target_network`` of ``ray.rllib.core.learner.utils``."""

    @abstractmethod
    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        """Return pairs of a network and its copy, for ``update_target_network``."""

    @abstractmethod
    def forward_target(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the outputs of the copies.

        Args:
            batch: Tensors by column, of shape ``(batch, ...)``.
        """
