"""Infos of environments."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns


class AddInfosFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the column ``infos``, a list of dicts, unless it is there.

    Examples:
        >>> from ray.rllib.connectors.learner import AddInfosFromEpisodesToTrainBatch
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a",
        ...     observations=[0, 1],
        ...     infos=[{"lives": 3}, {"lives": 2}],
        ...     actions=[1],
        ...     rewards=[1.0],
        ...     len_lookback_buffer=0,
        ... )
        >>> AddInfosFromEpisodesToTrainBatch()(batch={}, episodes=[episode])
        {'infos': {('a',): [{'lives': 3}]}}
    """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with infos."""
        if Columns.INFOS in batch:
            return batch
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            count = len(episode)
            infos = list(episode.get_infos(slice(0, count)))
            self.add_n_batch_items(batch, Columns.INFOS, infos, count, episode)
        return batch
