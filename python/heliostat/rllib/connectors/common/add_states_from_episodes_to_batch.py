"""The states of modules that have one."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.either_side import OfEitherSide
from heliostat.rllib.core import DEFAULT_MODULE_ID
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import mapped
from heliostat.rllib.utils.numpy import convert_to_numpy


class AddStatesFromEpisodesToBatch(OfEitherSide):
    """Adds the column ``state_in`` for modules with a state: of runners the last one of each episode, of
    learners the one before each sequence of ``max_seq_len`` steps.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        as_learner_connector: Whether it stands in a learner's pipeline. Default False.
        **kwargs: Has no effect.

    Examples:
        >>> from ray.rllib.connectors.env_to_module import AddStatesFromEpisodesToBatch
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(observations=[0.0, 0.5], actions=[1], rewards=[1.0])
        >>> connector = AddStatesFromEpisodesToBatch()
        >>> connector(rl_module=None, batch={}, episodes=[episode])  # no module with a state
        {}
    """

    def __call__(self, *, rl_module: Any, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with states."""
        if rl_module is None or not rl_module.is_stateful() or Columns.STATE_IN in batch:
            return batch
        learns = self._as_learner_connector
        for episode in self.single_agent_episode_iterator(
            episodes, agents_that_stepped_only=not learns
        ):
            module = module_of(rl_module, episode)
            if not module.is_stateful():
                continue
            if learns:
                self._of_learner(batch, episode, module)
                continue
            states = episode.extra_model_outputs.get(Columns.STATE_OUT)
            if states is None or not len(states):
                state = convert_to_numpy(module.get_initial_state())
            else:
                state = episode.get_extra_model_outputs(Columns.STATE_OUT, -1)
            self.add_batch_item(batch, Columns.STATE_IN, state, episode)
        return batch

    def _of_learner(self, batch: Any, episode: Any, module: Any) -> None:
        every, count = max_seq_len(module), len(episode)
        known = Columns.STATE_OUT in episode.extra_model_outputs
        first = convert_to_numpy(module.get_initial_state())
        lookback = len(episode.rewards) - count
        if known and episode.t_started and lookback:
            first = episode.get_extra_model_outputs(
                Columns.STATE_OUT, -1, neg_index_as_lookback=True
            )
        after = [first] * count
        if known:
            of = episode.get_extra_model_outputs
            after = [of(Columns.STATE_OUT, step) for step in range(count)]

        def add(column: str, states: list[Any]) -> None:
            stacked = mapped(lambda *leaves: np.stack(leaves), *states)
            self.add_n_batch_items(batch, column, stacked, len(states), episode)

        add(Columns.STATE_IN, [first, *after[:-1]][::every])
        if Columns.NEXT_OBS in batch:
            add(Columns.NEXT_STATE_IN, after[::every])


def module_of(rl_module: Any, episode: Any) -> Any:
    """The module that acts in an episode of one agent."""
    if episode.module_id is not None:
        return rl_module[episode.module_id]
    if hasattr(rl_module, "foreach_module"):
        return rl_module[DEFAULT_MODULE_ID]
    return rl_module


def max_seq_len(module: Any) -> int:
    """The number of steps of one sequence of a module with a state."""
    return int((module.model_config or {}).get("max_seq_len", 20))
