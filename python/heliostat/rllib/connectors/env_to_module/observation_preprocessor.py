"""Observations that a function changes."""

from __future__ import annotations

import abc
from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2


class SingleAgentObservationPreprocessor(ConnectorV2, abc.ABC):
    """Base of connectors that replace each observation: implement :meth:`preprocess`, and
    :meth:`recompute_output_observation_space` where the space changes.
    """

    @abc.abstractmethod
    def preprocess(self, observation: Any, episode: Any) -> Any:
        """Return the new observation.

        Args:
            observation: The last one of the episode.
            episode: The episode of one agent.
        """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch; episodes have new observations."""
        for episode in self.single_agent_episode_iterator(episodes):
            found = self.preprocess(observation=episode.get_observations(-1), episode=episode)
            episode.set_observations(at_indices=-1, new_data=found)
            space = self.observation_space
            own = getattr(space, "spaces", {}) if episode.agent_id is not None else {}
            episode.observation_space = own.get(episode.agent_id, space)
        return batch


class MultiAgentObservationPreprocessor(ConnectorV2, abc.ABC):
    """Base of connectors that replace what all agents see: implement :meth:`preprocess`, and
    :meth:`recompute_output_observation_space` where spaces change.
    """

    @abc.abstractmethod
    def preprocess(self, observations: dict[Any, Any], episode: Any) -> dict[Any, Any]:
        """Return the new observations by agent.

        Args:
            observations: The last ones of the episode, by agent.
            episode: The episode of several agents.
        """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch; episodes have new observations."""
        for episode in episodes:
            own = episode.agent_episodes
            seen = {
                agent: own[agent].get_observations(-1)
                for agent in episode.get_agents_that_stepped()
            }
            found = self.preprocess(observations=seen, episode=episode)
            for agent, observation in found.items():
                own[agent].set_observations(at_indices=-1, new_data=observation)
            episode.observation_space = self.observation_space
        return batch


ObservationPreprocessor = SingleAgentObservationPreprocessor
