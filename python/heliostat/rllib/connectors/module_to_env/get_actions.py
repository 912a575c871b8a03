"""Actions of what a module returned."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns


class GetActions(ConnectorV2):
    """Adds the columns ``actions`` and ``action_logp``, unless the module gave actions: drawn from its
    distribution, or without exploration the most likely ones.

    Examples:
        >>> import gymnasium as gym
        >>> import torch
        >>> from ray.rllib.connectors.module_to_env import GetActions
        >>> from ray.rllib.core import Columns
        >>> from ray.rllib.core.rl_module.torch import TorchRLModule
        >>> module = TorchRLModule(
        ...     observation_space=gym.spaces.Box(-1.0, 1.0, (4,)), action_space=gym.spaces.Discrete(2)
        ... )
        >>> batch = {Columns.ACTION_DIST_INPUTS: torch.tensor([[0.0, 1.0], [3.0, 1.0]])}
        >>> GetActions()(rl_module=module, batch=batch, explore=False)[Columns.ACTIONS]  # the likelier
        tensor([1, 0])
    """

    def __call__(
        self, *, rl_module: Any, batch: Any, explore: bool | None = None, **kwargs: Any
    ) -> Any:
        """Return the batch with actions."""
        if hasattr(rl_module, "foreach_module"):
            for module_id, columns in batch.items():
                _act(columns, rl_module[module_id], explore)
        else:
            _act(batch, rl_module, explore)
        return batch


def _act(columns: dict[str, Any], module: Any, explore: bool | None) -> None:
    if Columns.ACTIONS in columns or Columns.ACTION_DIST_INPUTS not in columns:
        return
    kind = (
        module.get_exploration_action_dist_cls()
        if explore
        else module.get_inference_action_dist_cls()
    )
    dist = kind.from_logits(columns[Columns.ACTION_DIST_INPUTS])
    if not explore:
        dist = dist.to_deterministic()
    columns[Columns.ACTIONS] = dist.sample()
    if explore and Columns.ACTION_LOGP not in columns:
        columns[Columns.ACTION_LOGP] = dist.logp(columns[Columns.ACTIONS])
