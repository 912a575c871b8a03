"""From agents to the modules that act for them."""

from __future__ import annotations

from typing import Any

from heliostat.rllib.connectors.connector_v2 import ConnectorV2
from heliostat.rllib.env.multi_agent_episode import MultiAgentEpisode


class AgentToModuleMapping(ConnectorV2):
    """Turns a batch of columns by episode, agent and module into one of columns by module id.

    Args:
        input_observation_space: The spaces of observations by agent. Default: the pipeline sets it.
        input_action_space: The spaces of actions by agent. Default: the pipeline sets it.
        rl_module_specs: The specifications by module id, or the ids.
        agent_to_module_mapping_fn: Which module acts for an agent: a function of its id and the episode.
        as_learner_connector: Whether it stands in a learner's pipeline. Default False.

    Examples:
        >>> from ray.rllib.connectors.env_to_module import AgentToModuleMapping
        >>> connector = AgentToModuleMapping(
        ...     rl_module_specs={"left", "right"},
        ...     agent_to_module_mapping_fn=lambda agent, episode: "left" if agent < 2 else "right",
        ... )
    """

    def __init__(
        self,
        input_observation_space: Any = None,
        input_action_space: Any = None,
        *,
        rl_module_specs: Any,
        agent_to_module_mapping_fn: Any,
        as_learner_connector: bool = False,
    ) -> None:
        self._rl_module_specs = rl_module_specs
        self._mapping = agent_to_module_mapping_fn
        self._as_learner_connector = as_learner_connector
        super().__init__(input_observation_space, input_action_space)

    def recompute_output_observation_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the spaces of observations by module id."""
        return self._by_module(input_observation_space, "observation_space")

    def recompute_output_action_space(
        self, input_observation_space: Any, input_action_space: Any
    ) -> Any:
        """Return the spaces of actions by module id."""
        return self._by_module(input_action_space, "action_space")

    def _by_module(self, space: Any, kind: str) -> Any:
        from gymnasium import spaces

        own = getattr(space, "spaces", None)
        if own is None or set(own) == set(self._rl_module_specs):
            return space
        found: dict[str, Any] = {}
        agents: dict[str, Any] = {}
        for agent, part in own.items():
            module_id = self._mapping(agent, MultiAgentEpisode())
            if module_id in found and found[module_id] != part:
                raise ValueError(
                    f"Agents {agents[module_id]!r} and {agent!r} act by module {module_id!r} and have "
                    "different spaces: give them modules of their own in policy_mapping_fn."
                )
            found[module_id], agents[module_id] = part, agent
        one = next(iter(own.values()))
        alike = all(part == one for part in own.values())
        for module_id in self._rl_module_specs:
            specs = self._rl_module_specs
            given = getattr(specs[module_id], kind, None) if isinstance(specs, dict) else None
            if given is not None:
                found[module_id] = given
            elif module_id not in found and alike:
                found[module_id] = one
        return spaces.Dict({name: found[name] for name in self._rl_module_specs if name in found})

    def __call__(
        self, *, rl_module: Any, batch: Any, episodes: Any, shared_data: Any = None, **kwargs: Any
    ) -> Any:
        """Return the batch by module id; agents that are done are left out of what is acted on."""
        act = None
        if not self._as_learner_connector:
            act = {
                (episode.id_, agent)
                for episode in episodes
                for agent in episode.get_agents_to_act()
            }
        found: dict[str, dict[str, list[Any]]] = {}
        order: dict[str, list[Any]] | None = None
        for column, by_agent in batch.items():
            if rl_module is not None and column in rl_module:  # by module already
                found.setdefault(column, {}).update(by_agent)
                continue
            here: dict[str, list[Any]] = {}
            for (episode_id, agent, module_id), items in by_agent.items():
                if act is not None and (episode_id, agent) not in act:
                    continue
                here.setdefault(module_id, []).append((episode_id, agent))
                found.setdefault(module_id, {}).setdefault(column, []).extend(items)
            order = here if order is None else order
        if shared_data is not None:
            shared_data["memorized_map_structure"] = order or {}
        return found
