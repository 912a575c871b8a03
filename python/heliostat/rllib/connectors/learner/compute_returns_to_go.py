"""The returns of episodes from each step on."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.util.returns import advantages


class ComputeReturnsToGo(ConnectorV2):
    """Adds the column ``returns_to_go``: the rewards from each step on, discounted.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        gamma: What a reward one step later counts.

    Examples:
        >>> from ray.rllib.connectors.learner import ComputeReturnsToGo
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a", observations=[0.0, 1.0, 2.0], actions=[1, 0], rewards=[1.0, 2.0], len_lookback_buffer=0
        ... )
        >>> batch = ComputeReturnsToGo(gamma=0.5)(batch={}, episodes=[episode])
        >>> batch["returns_to_go"]["a",][0].tolist()
        [2.0, 2.0]
    """

    def __init__(
        self, input_observation_space: Any = None, input_action_space: Any = None, *, gamma: float
    ) -> None:
        super().__init__(input_observation_space, input_action_space)
        self.gamma = gamma

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with returns."""
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            rewards = np.asarray(episode.get_rewards(), np.float32)[:, None]
            nothing = np.zeros_like(rewards)
            over = nothing.astype(bool)
            found = advantages(rewards, nothing, nothing, over, self.gamma, 1.0)[:, 0]
            self.add_n_batch_items(batch, Columns.RETURNS_TO_GO, found, len(episode), episode)
        return batch
