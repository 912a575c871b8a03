"""The next observation of each step, for the train batch."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns


class AddNextObservationsFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the column ``new_obs``, unless it is there.

    Examples:
        >>> from ray.rllib.connectors.learner import AddNextObservationsFromEpisodesToTrainBatch
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a", observations=[0.0, 1.0, 2.0], actions=[1, 0], rewards=[1.0, 2.0], len_lookback_buffer=0
        ... )
        >>> AddNextObservationsFromEpisodesToTrainBatch()(batch={}, episodes=[episode])
        {'new_obs': {('a',): [1.0, 2.0]}}
    """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with the observations after each step."""
        if Columns.NEXT_OBS in batch:
            return batch
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            count = len(episode)
            seen = episode.get_observations(slice(1, count + 1))
            self.add_n_batch_items(batch, Columns.NEXT_OBS, seen, count, episode)
        return batch
