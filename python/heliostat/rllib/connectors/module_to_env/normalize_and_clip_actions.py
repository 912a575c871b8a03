"""Actions as environments take them."""

from __future__ import annotations

import copy
from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.spaces import clipped, unsquashed


class NormalizeAndClipActions(ConnectorV2):
    """Adds the column ``actions_for_env``: actions of ``[-1, 1]`` as bounded Boxes have them, or clipped.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        normalize_actions: Whether actions are scaled.
        clip_actions: Whether they are clipped, where they are not scaled.
        **kwargs: Has no effect.

    Examples:
        >>> import gymnasium as gym
        >>> import numpy as np
        >>> from ray.rllib.connectors.module_to_env import NormalizeAndClipActions
        >>> space = gym.spaces.Box(0.0, 10.0, (1,))
        >>> connector = NormalizeAndClipActions(None, space, normalize_actions=True, clip_actions=False)
        >>> batch = {"actions": {("a",): [np.array([0.0], np.float32)]}}
        >>> connector(batch=batch, episodes=[])["actions_for_env"][("a",)][0].tolist()
        [5.0]
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        normalize_actions: bool,
        clip_actions: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_observation_space, input_action_space, **kwargs)
        self.normalize_actions, self.clip_actions = normalize_actions, clip_actions

    def __call__(self, *, batch: Any, **kwargs: Any) -> Any:
        """Return the batch with actions for environments."""
        wanted = self.normalize_actions or self.clip_actions
        if not wanted or Columns.ACTIONS not in batch:
            return batch
        batch[Columns.ACTIONS_FOR_ENV] = copy.deepcopy(batch[Columns.ACTIONS])
        self.foreach_batch_item_change_in_place(batch, Columns.ACTIONS_FOR_ENV, self._for_env)
        return batch

    def _for_env(self, action: Any, episode: Any, agent: Any, module_id: Any) -> Any:
        space = self.input_action_space
        space = space if agent is None else space[agent]
        return unsquashed(space, action) if self.normalize_actions else clipped(space, action)
