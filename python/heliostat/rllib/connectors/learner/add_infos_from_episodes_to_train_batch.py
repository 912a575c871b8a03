"""Infos of environments."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns


class AddInfosFromEpisodesToTrainBatch(ConnectorV2):
    """Adds the column ``infos``, a list of dicts, unless it is there."""

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with infos."""
        if Columns.INFOS in batch:
            return batch
        for episode in self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False):
            count = len(episode)
            infos = list(episode.get_infos(slice(0, count)))
            self.add_n_batch_items(batch, Columns.INFOS, infos, count, episode)
        return batch
