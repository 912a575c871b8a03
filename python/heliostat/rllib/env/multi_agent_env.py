"""Environments of several agents."""

from __future__ import annotations

from typing import Any

from heliostat.core.extras import required

gymnasium = required("gymnasium", "ray.rllib", "rllib")


class MultiAgentEnv(gymnasium.Env):  # type: ignore[name-defined]
    """Base of environments whose ``reset`` and ``step`` take and return dicts by agent.

    Set ``observation_spaces`` and ``action_spaces`` (dicts by agent) and ``possible_agents``. An agent acts
    when
    its observation is in the dict. ``terminateds`` and ``truncateds`` have ``"__all__"`` too.
    """

    observation_spaces: dict[Any, Any] | None = None
    action_spaces: dict[Any, Any] | None = None

    def __init__(self) -> None:
        super().__init__()
        # What a subclass has set before stays.
        self.possible_agents: list[Any] = getattr(self, "possible_agents", [])
        self.agents: list[Any] = getattr(self, "agents", [])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode; observations and infos by agent."""
        raise NotImplementedError

    def step(
        self, action_dict: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """Act; observations, rewards, terminateds, truncateds and infos by agent."""
        raise NotImplementedError

    def render(self) -> Any:
        """Show the environment."""

    def get_observation_space(self, agent_id: Any) -> Any:
        """Return an agent's space of observations."""
        return _of_agent(self, "observation_spaces", "observation_space", agent_id)

    def get_action_space(self, agent_id: Any) -> Any:
        """Return an agent's space of actions."""
        return _of_agent(self, "action_spaces", "action_space", agent_id)

    @property
    def num_agents(self) -> int:
        """How many agents there are now."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """How many agents there may be."""
        return len(self.possible_agents)


def _of_agent(env: Any, plural: str, single: str, agent_id: Any) -> Any:
    by_agent = getattr(env, plural, None)
    if by_agent is not None and agent_id in by_agent:
        return by_agent[agent_id]
    space = getattr(env, single, None)
    parts = getattr(space, "spaces", None)
    if parts is not None and agent_id in parts:
        return parts[agent_id]
    if space is not None:
        return space
    raise ValueError(
        f"{type(env).__name__} has no space for agent {agent_id!r}: set {plural} in __init__(), a "
        "dict by agent."
    )
