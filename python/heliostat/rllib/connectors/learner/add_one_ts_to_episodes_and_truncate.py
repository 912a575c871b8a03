"""A step after the last one, for the value of what it led to."""

from __future__ import annotations

from typing import Any

import numpy as np

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.utils.nest import mapped


class AddOneTsToEpisodesAndTruncate(ConnectorV2):
    """Makes each episode one step longer, so that its last observation is a row of the batch, and adds the
    column ``loss_mask``, in which such steps do not count.

    Examples:
        >>> import numpy as np
        >>> from ray.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episode = SingleAgentEpisode(
        ...     "a",
        ...     observations=np.zeros((3, 1)),
        ...     actions=np.zeros(2),
        ...     rewards=[1.0, 2.0],
        ...     len_lookback_buffer=0,
        ... )
        >>> batch = AddOneTsToEpisodesAndTruncate()(batch={}, episodes=[episode], shared_data={})
        >>> batch["loss_mask"]["a_0",][0].tolist()  # the step that was added does not count
        [True, True, False]
    """

    def __call__(self, *, batch: Any, episodes: Any, shared_data: Any = None, **kwargs: Any) -> Any:
        """Return the batch; episodes are longer by a step."""
        for number, several in enumerate(episodes):
            if hasattr(several, "agent_episodes"):
                several.id_ += f"_{number}"
                for own in several.agent_episodes.values():
                    own.multi_agent_episode_id = several.id_
        for number, episode in enumerate(
            self.single_agent_episode_iterator(episodes, agents_that_stepped_only=False)
        ):
            if episode.agent_id is None:
                episode.id_ += f"_{number}"
            count = len(episode)
            for column, over in (
                (Columns.TERMINATEDS, episode.is_terminated),
                (Columns.TRUNCATEDS, episode.is_truncated),
            ):
                flags = np.zeros(count + 1, bool)
                flags[count - 1 : count] = over
                self.add_n_batch_items(batch, column, flags, count + 1, episode)
            mask = np.ones(count + 1, bool)
            mask[count] = False
            self.add_n_batch_items(batch, Columns.LOSS_MASK, mask, count + 1, episode)
            episode.observations = _longer(episode.observations)
            episode.infos = [*episode.infos, episode.infos[-1]]
            episode.actions = _longer(episode.actions)
            episode.rewards = _longer(episode.rewards, 0.0)
            episode.extra_model_outputs = {
                key: _longer(values) for key, values in episode.extra_model_outputs.items()
            }
            episode.t += 1
            if not episode.is_done:
                episode.is_truncated = True
        if shared_data is not None:
            shared_data["_added_loss_mask_for_valid_episode_ts"] = True
        return batch


def _longer(values: Any, last: Any = None) -> Any:
    if isinstance(values, list):
        return [*values, values[-1] if last is None else last]
    return mapped(
        lambda leaf: np.concatenate([leaf, leaf[-1:] if last is None else leaf[-1:] * 0 + last]),
        values,
    )
