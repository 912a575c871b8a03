"""The last frames as one observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import mapped


class FrameStacking(ConnectorV2):
    """Joins the last ``num_frames`` observations along their last axis, which must be of length 1; before an
    episode's first one zeros stand. Episodes keep single frames, so learners need the same connector, and
    ``env_runners(episode_lookback_horizon=num_frames)`` keeps those before a part's first step.

    Args:
        input_observation_space: The space of observations that it gets. Default: the pipeline sets it.
        input_action_space: The space of actions that it gets. Default: the pipeline sets it.
        num_frames: How many frames. Default 1.
        multi_agent: Whether episodes are of several agents. Default False.
        as_learner_connector: Whether it stands in a learner's pipeline. Default False.
        **kwargs: Has no effect.
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        num_frames: int = 1,
        multi_agent: bool = False,
        as_learner_connector: bool = False,
        **kwargs: Any,
    ) -> None:
        self.num_frames = num_frames
        self._multi_agent = multi_agent
        self._as_learner_connector = as_learner_connector
        super().__init__(input_observation_space, input_action_space, **kwargs)

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the space of the stacked frames.

        Raises:
            ValueError: Observations are not Boxes whose last axis is of length 1.
        """
        from gymnasium import spaces

        if not self._multi_agent:
            return self._stacked(input_observation_space)
        return spaces.Dict(
            {agent: self._stacked(space) for agent, space in input_observation_space.spaces.items()}
        )

    def _stacked(self, space: Any) -> Any:
        from gymnasium import spaces

        if not isinstance(space, spaces.Box) or space.shape[-1:] != (1,):
            raise ValueError(
                f"FrameStacking needs Box observations whose last axis is of length 1, not {space}: "
                "reshape them in the environment."
            )
        low, high = (np.repeat(x, self.num_frames, axis=-1) for x in (space.low, space.high))
        return spaces.Box(low, high, dtype=space.dtype)

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch with the column ``obs``."""
        frames = self.num_frames
        for episode in self.single_agent_episode_iterator(
            episodes, agents_that_stepped_only=not self._as_learner_connector
        ):
            if not self._as_learner_connector:
                last = episode.get_observations(slice(-frames, None), fill=0.0)
                stack = mapped(lambda *own: np.concatenate(own, axis=-1), *last)
                self.add_batch_item(batch, Columns.OBS, stack, episode)
                continue
            count = len(episode)
            seen = episode.get_observations(
                slice(1 - frames, count), neg_index_as_lookback=True, fill=0.0
            )
            seen = np.stack(seen) if isinstance(seen, list) else seen
            stack = mapped(
                lambda leaf, count=count: np.concatenate(
                    [leaf[i : i + count] for i in range(frames)], axis=-1
                ),
                seen,
            )
            self.add_n_batch_items(batch, Columns.OBS, stack, count, episode)
        return batch
