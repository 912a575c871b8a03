"""Observations as vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import at, first
from heliostat.rllib.utils.numpy import flatten_inputs_to_1d_tensor
from heliostat.rllib.utils.spaces import encoded_size, parts


class FlattenObservations(ConnectorV2):
    """Makes one vector of float32 of each observation: choices one-hot, everything else flat.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        multi_agent: Whether episodes are of several agents. Default False.
        agent_ids: Whose observations. Default: those of all agents.
        as_learner_connector: Whether it stands in a learner's pipeline: it adds the column ``obs`` instead of
            changing episodes. Default False.
        keys_to_remove: Keys of ``Dict`` observations that are left out. Default: none.
        **kwargs: Has no effect.

    Examples:
        >>> import gymnasium as gym
        >>> from ray.rllib.connectors.env_to_module import FlattenObservations
        >>> space = gym.spaces.Dict(
        ...     {"place": gym.spaces.Discrete(3), "speed": gym.spaces.Box(-1.0, 1.0, (2,))}
        ... )
        >>> FlattenObservations(space, gym.spaces.Discrete(2)).observation_space.shape
        (5,)
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        multi_agent: bool = False,
        agent_ids: Any = None,
        as_learner_connector: bool = False,
        keys_to_remove: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self._multi_agent = multi_agent
        self._agent_ids = None if agent_ids is None else set(agent_ids)
        self._as_learner_connector = as_learner_connector
        self._without = set(keys_to_remove or [])
        self._structs: dict[Any, Any] = {}
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of the vectors.

        Raises:
            ValueError: ``keys_to_remove`` is set, and the space is not a ``Dict``.
        """
        from gymnasium import spaces

        if not self._multi_agent:
            return self._vector(None, input_observation_space)
        return spaces.Dict(
            {
                agent: self._vector(agent, space)
                if self._agent_ids is None or agent in self._agent_ids
                else space
                for agent, space in input_observation_space.spaces.items()
            }
        )

    def _vector(self, agent: Any, space: Any) -> Any:
        from gymnasium import spaces

        if self._without:
            if not isinstance(space, spaces.Dict):
                raise ValueError(f"keys_to_remove needs observations of a Dict space, not {space}.")
            space = spaces.Dict({k: v for k, v in space.spaces.items() if k not in self._without})
        self._structs[agent] = parts(space)
        return spaces.Box(-np.inf, np.inf, (encoded_size(space),), np.float32)

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch; episodes have flat observations."""
        for episode in self.single_agent_episode_iterator(
            episodes, agents_that_stepped_only=not self._as_learner_connector
        ):
            agent = episode.agent_id if self._multi_agent else None
            if agent not in self._structs:
                continue
            if self._as_learner_connector:
                count = len(episode)
                seen = episode.get_observations(slice(0, count))
                steps = (
                    seen
                    if isinstance(seen, list)
                    else [at(seen, i) for i in range(len(first(seen)))]
                )
                rows = np.stack([self._flat(agent, step) for step in steps])
                self.add_n_batch_items(batch, Columns.OBS, rows, count, episode)
                continue
            episode.set_observations(
                at_indices=-1, new_data=self._flat(agent, episode.get_observations(-1))
            )
            space = self.observation_space
            episode.observation_space = space[agent] if self._multi_agent else space
        return batch

    def _flat(self, agent: Any, observation: Any) -> Any:
        if self._without:
            observation = {k: v for k, v in observation.items() if k not in self._without}
        return flatten_inputs_to_1d_tensor(observation, self._structs[agent], batch_axis=False)
