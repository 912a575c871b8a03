"""Items in the order of environments."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.core.columns import Columns
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.utils.spaces.space_utils import batch as batched


class ListifyDataForVectorEnv(ConnectorV2):
    """Makes of each column a list by environment; actions of one agent become one batch, with several agents
    items are dicts by agent.

    Examples:
        >>> from ray.rllib.connectors.module_to_env import ListifyDataForVectorEnv
        >>> from ray.rllib.env import SingleAgentEpisode
        >>> episodes = [SingleAgentEpisode("a"), SingleAgentEpisode("b")]
        >>> batch = {"actions": {("a",): [1], ("b",): [0]}}
        >>> ListifyDataForVectorEnv()(batch=batch, episodes=episodes)["actions"].tolist()
        [1, 0]
    """

    def __call__(self, *, batch: Any, episodes: Any, **kwargs: Any) -> Any:
        """Return the batch of lists."""
        single = isinstance(episodes[0], SingleAgentEpisode)
        places = {episode.id_: place for place, episode in enumerate(episodes)}
        for column, by_key in batch.items():
            if not single:
                found: list[dict[Any, Any]] = [{} for _ in episodes]
                for (episode, agent, _), items in by_key.items():
                    found[places[episode]][agent] = items[0]
                batch[column] = found
                continue
            items = [item for own in by_key.values() for item in own]
            wanted = column in (Columns.ACTIONS, Columns.ACTIONS_FOR_ENV)
            batch[column] = batched(items) if wanted else items
        return batch
