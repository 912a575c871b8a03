"""The observations of episodes."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.either_side import OfEitherSide
from heliostat.rllib.core.columns import Columns


class AddObservationsFromEpisodesToBatch(OfEitherSide):
    """Adds the column ``obs``, unless it is there: of runners each episode's last observation, of learners
    all but the last.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        as_learner_connector: Whether it stands in a learner's pipeline. Default False.
        **kwargs: Has no effect.

    Examples:
        >>> from ray.rllib.connectors.env_to_module import AddObservationsFromEpisodesToBatch
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a", observations=[0.0, 0.5], actions=[1], rewards=[1.0], len_lookback_buffer=0
        ... )
        >>> AddObservationsFromEpisodesToBatch()(batch={}, episodes=[episode])["obs"]
        {('a',): [0.5]}
        >>> connector = AddObservationsFromEpisodesToBatch(as_learner_connector=True)
        >>> connector(batch={}, episodes=[episode])["obs"]  # all but the last
        {('a_0',): [0.0]}
    """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with observations."""
        if Columns.OBS in batch:
            return batch
        learns = self._as_learner_connector
        for number, episode in enumerate(
            self.single_agent_episode_iterator(episodes, agents_that_stepped_only=not learns)
        ):
            if not learns:
                self.add_batch_item(batch, Columns.OBS, episode.get_observations(-1), episode)
                continue
            if (
                "_" not in episode.id_
            ):  # parts of one episode are episodes of their own from here on
                episode.id_ += f"_{number}"
            count = len(episode)
            seen = episode.get_observations(slice(0, count))
            self.add_n_batch_items(batch, Columns.OBS, seen, count, episode)
        return batch
