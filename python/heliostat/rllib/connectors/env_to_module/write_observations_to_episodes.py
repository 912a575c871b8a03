"""Observations of the batch, kept in episodes."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns


class WriteObservationsToEpisodes(ConnectorV2):
    """Replaces each episode's last observation by that of the column ``obs``, so that learners see it.

    Examples:
        >>> from ray.rllib.connectors.env_to_module import WriteObservationsToEpisodes
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode("a", observations=[0.0, 0.5], actions=[1], rewards=[1.0])
        >>> _ = WriteObservationsToEpisodes()(batch={"obs": {("a",): [5.0]}}, episodes=[episode])
        >>> float(episode.get_observations(-1))
        5.0
    """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch.

        Raises:
            ValueError: It has no column ``obs``.
        """
        if Columns.OBS not in batch:
            raise ValueError(
                "WriteObservationsToEpisodes needs the column 'obs': insert it after "
                "AddObservationsFromEpisodesToBatch."
            )
        for episode, seen in self.single_agent_episode_iterator(
            episodes, zip_with_batch_column=batch[Columns.OBS]
        ):
            episode.set_observations(at_indices=-1, new_data=seen)
            space = self.observation_space
            own = getattr(space, "spaces", {}) if episode.agent_id is not None else {}
            episode.observation_space = own.get(episode.agent_id, space)
        return batch
