"""Actions, rewards, ends and what modules gave besides."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns


class AddColumnsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the columns ``actions``, ``rewards``, ``terminateds``, ``truncateds``, and those that modules gave
    besides actions, unless they are there; states without.

    Examples:
        >>> from ray.rllib.connectors.learner import AddColumnsFromEpisodesToTrainBatch
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a", observations=[0.0, 1.0, 2.0], actions=[1, 0], rewards=[1.0, 2.0], len_lookback_buffer=0
        ... )
        >>> batch = AddColumnsFromEpisodesToTrainBatch()(batch={}, episodes=[episode])
        >>> batch["actions"], batch["rewards"]
        ({('a',): [1, 0]}, {('a',): [1.0, 2.0]})
    """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with these columns."""
        have = {*batch, Columns.STATE_IN, Columns.STATE_OUT}
        add = self.add_n_batch_items
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            count = len(episode)
            steps = slice(0, count)
            ends = {
                Columns.TERMINATEDS: episode.is_terminated,
                Columns.TRUNCATEDS: episode.is_truncated,
            }
            columns: dict[str, Any] = {
                Columns.ACTIONS: lambda e=episode, s=steps: e.get_actions(s),
                Columns.REWARDS: lambda e=episode, s=steps: e.get_rewards(s),
            }
            for name, read in columns.items():
                if name not in have:
                    add(batch, name, read(), count, episode)
            for name, over in ends.items():
                if name not in have:
                    flags = np.zeros(count, bool)
                    flags[count - 1 :] = over
                    add(batch, name, flags, count, episode)
            for name in episode.extra_model_outputs:
                if name not in have:
                    held = episode.get_extra_model_outputs(name, steps)
                    add(batch, name, held, count, episode)
        return batch
