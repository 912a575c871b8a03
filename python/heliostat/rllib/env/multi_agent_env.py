"""Environments of several agents."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required

gymnasium = required("gymnasium", "ray.rllib", "rllib")

# The key of a global state in observations of grouped agents.
ENV_STATE = "state"


class MultiAgentEnv(gymnasium.Env):  # type: ignore[name-defined] # found at run time
    """Base of environments whose ``reset`` and ``step`` take and return dicts by agent.

    Set ``observation_spaces`` and ``action_spaces`` (dicts by agent) and ``possible_agents``. An agent acts
    when its observation is in the dict. ``terminateds`` and ``truncateds`` have ``"__all__"`` too.

    Examples:
        >>> import gymnasium as gym
        >>> from ray.rllib import MultiAgentEnv
        >>> class TakingTurns(MultiAgentEnv):
        ...     possible_agents = ["a", "b"]
        ...     observation_spaces = {agent: gym.spaces.Discrete(10) for agent in possible_agents}
        ...     action_spaces = {agent: gym.spaces.Discrete(2) for agent in possible_agents}
        ...     def reset(self, *, seed=None, options=None):
        ...         self.turn = 0
        ...         return {"a": 0}, {}
        ...     def step(self, action_dict):
        ...         self.turn += 1
        ...         agent = "ab"[self.turn % 2]
        ...         rewards = {of: float(action) for of, action in action_dict.items()}
        ...         ends = {"__all__": self.turn == 9}
        ...         return {agent: self.turn}, rewards, ends, {"__all__": False}, {}
        >>> env = TakingTurns()
        >>> env.reset()[0], env.step({"a": 1})[:2]
        ({'a': 0}, ({'b': 1}, {'a': 1.0}))
    """

    observation_spaces: dict[Any, Any] | None = None
    action_spaces: dict[Any, Any] | None = None

    def __init__(self) -> None:
        super().__init__()
        # Spaces that a subclass has set before stay.
        self.possible_agents: list[Any] = getattr(self, "possible_agents", [])
        self.agents: list[Any] = getattr(self, "agents", [])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode. To be implemented.

        Args:
            seed: For the environment's random numbers. Default: it goes on with those it has.
            options: For the environment. Default: none.

        Returns:
            Observations and infos by agent.
        """
        raise NotImplementedError

    def step(
        self, action_dict: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]:
        """Act. To be implemented.

        Args:
            action_dict: The actions of those agents that were given observations.

        Returns:
            Observations, rewards, terminateds, truncateds and infos by agent.
        """
        raise NotImplementedError

    def render(self) -> Any:
        """Show the environment."""

    def get_observation_space(self, agent_id: Any) -> Any:
        """Return an agent's space of observations.

        Args:
            agent_id: The agent.
        """
        return _of_agent(self, "observation_spaces", "observation_space", agent_id)

    def get_action_space(self, agent_id: Any) -> Any:
        """Return an agent's space of actions.

        Args:
            agent_id: The agent.
        """
        return _of_agent(self, "action_spaces", "action_space", agent_id)

    def get_agent_ids(self) -> set[Any]:
        """Return the agents that there are now; those that there may be, where none is."""
        return set(self.agents or self.possible_agents)

    def with_agent_groups(
        self, groups: dict[str, list[Any]], obs_space: Any = None, act_space: Any = None
    ) -> MultiAgentEnv:
        """Return the environment with groups of agents as agents, a ``GroupAgentsWrapper``.

        Args:
            groups: By group, its agents.
            obs_space: The group's space of observations, a ``Tuple``; or a dict of them by group.
            act_space: The group's space of actions, likewise.
        """
        from heliostat.rllib.env.wrappers.group_agents_wrapper import GroupAgentsWrapper

        return GroupAgentsWrapper(self, groups, obs_space, act_space)

    @property
    def num_agents(self) -> int:
        """The present number of agents."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """The largest number of agents."""
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


def make_multi_agent(env_name_or_creator: Any) -> type[MultiAgentEnv]:
    """Return a class of environments with as many independent copies of one as ``num_agents`` says.

    Args:
        env_name_or_creator: A name of gymnasium or of ``register_env``, a class, or a function of a config.

    Returns:
        A class whose constructor takes a config; its ``num_agents`` (default 1) agents are called 0, 1, ...

    Examples:
        >>> from ray.rllib.env import make_multi_agent
        >>> env = make_multi_agent("CartPole-v1")({"num_agents": 2})
        >>> observations, _ = env.reset(seed=0)
        >>> sorted(observations)
        [0, 1]
    """

    class MultiEnv(MultiAgentEnv):
        """Copies of an environment, each with an agent of its own."""

        def __init__(self, config: Any = None) -> None:
            from heliostat.rllib.env.env_context import EnvContext
            from heliostat.rllib.env.making import creator

            given = EnvContext(config)
            count = int(given.pop("num_agents", 1))
            create = creator(env_name_or_creator)
            self.envs = [create(given) for _ in range(count)]
            super().__init__()
            self.possible_agents = self.agents = list(range(count))
            self.observation_spaces = {i: e.observation_space for i, e in enumerate(self.envs)}
            self.action_spaces = {i: e.action_space for i, e in enumerate(self.envs)}
            self.observation_space = gymnasium.spaces.Dict(self.observation_spaces)
            self.action_space = gymnasium.spaces.Dict(self.action_spaces)
            self._over: set[Any] = set()
            self._terminated: set[Any] = set()

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self._over, self._terminated = set(), set()
            found = [
                env.reset(seed=None if seed is None else seed + i, options=options)
                for i, env in enumerate(self.envs)
            ]
            return {i: o for i, (o, _) in enumerate(found)}, {
                i: o for i, (_, o) in enumerate(found)
            }

        def step(self, action_dict: dict[Any, Any]) -> Any:
            found: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
            for agent, action in action_dict.items():
                for part, value in zip(found, self.envs[agent].step(action), strict=True):
                    part[agent] = value
                if found[2][agent] or found[3][agent]:
                    self._over.add(agent)
                if found[2][agent]:
                    self._terminated.add(agent)
            over = len(self._over) == len(self.envs)
            all_terminated = len(self._terminated) == len(self.envs)
            found[2]["__all__"] = over and all_terminated
            found[3]["__all__"] = over and not all_terminated
            return found

        def close(self) -> None:
            for env in self.envs:
                env.close()

    return MultiEnv
