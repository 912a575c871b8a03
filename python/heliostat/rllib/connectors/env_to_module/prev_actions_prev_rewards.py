"""Observations with what came before them."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2


class PrevActionsPrevRewards(ConnectorV2):
    """Makes a dict of each observation: itself, the actions before it (one-hot, zeros before the first),
    and the rewards.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        multi_agent: Whether episodes are of several agents. Default False.
        n_prev_actions: How many actions. Default 1.
        n_prev_rewards: How many rewards. Default 1.
        **kwargs: Has no effect.

    Examples:
        >>> import gymnasium as gym
        >>> from ray.rllib.connectors.env_to_module import PrevActionsPrevRewards
        >>> connector = PrevActionsPrevRewards(
        ...     gym.spaces.Box(-1.0, 1.0, (4,)), gym.spaces.Discrete(2), n_prev_actions=3
        ... )
        >>> connector.observation_space[connector.PREV_ACTIONS_KEY].shape  # three, each one-hot
        (6,)
    """

    ORIG_OBS_KEY = "_orig_obs"
    PREV_ACTIONS_KEY = "prev_n_actions"
    PREV_REWARDS_KEY = "prev_n_rewards"

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        multi_agent: bool = False,
        n_prev_actions: int = 1,
        n_prev_rewards: int = 1,
        **kwargs: Any,
    ) -> None:
        self._multi_agent = multi_agent
        self.n_prev_actions, self.n_prev_rewards = n_prev_actions, n_prev_rewards
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of the dicts."""
        from gymnasium import spaces

        if not self._multi_agent:
            return self._with(input_observation_space, input_action_space)
        return spaces.Dict(
            {
                agent: self._with(space, input_action_space[agent])
                for agent, space in input_observation_space.spaces.items()
            }
        )

    def _with(self, space: Any, actions: Any) -> Any:
        from gymnasium import spaces

        found = {self.ORIG_OBS_KEY: space}
        if self.n_prev_actions:
            low, high, size = 0.0, 1.0, getattr(actions, "n", None)
            if size is None:
                low, high, size = -np.inf, np.inf, int(np.prod(actions.shape))
            length = (int(size) * self.n_prev_actions,)
            found[self.PREV_ACTIONS_KEY] = spaces.Box(low, high, length, np.float32)
        if self.n_prev_rewards:
            found[self.PREV_REWARDS_KEY] = spaces.Box(
                -np.inf, np.inf, (self.n_prev_rewards,), np.float32
            )
        return spaces.Dict(found)

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch; episodes have dicts as observations."""
        for episode in self.single_agent_episode_iterator(episodes):
            found = {self.ORIG_OBS_KEY: episode.get_observations(-1)}
            if self.n_prev_actions:
                actions = episode.get_actions(
                    slice(-self.n_prev_actions, None), fill=0.0, one_hot_discrete=True
                )
                found[self.PREV_ACTIONS_KEY] = np.concatenate(
                    [np.ravel(action) for action in actions]
                ).astype(np.float32)
            if self.n_prev_rewards:
                rewards = episode.get_rewards(slice(-self.n_prev_rewards, None), fill=0.0)
                found[self.PREV_REWARDS_KEY] = np.array(rewards, np.float32)
            episode.set_observations(at_indices=-1, new_data=found)
            space = self.observation_space
            episode.observation_space = space[episode.agent_id] if self._multi_agent else space
        return batch
