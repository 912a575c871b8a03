"""Environments of PettingZoo."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required
from heliostat.rllib.env.multi_agent_env import MultiAgentEnv

gymnasium = required("gymnasium", "ray.rllib", "rllib")

__all__ = ["ParallelPettingZooEnv", "PettingZooEnv"]


class _Wrapped(MultiAgentEnv):
    """The part that both kinds of environments share."""

    def __init__(self, env: Any) -> None:
        super().__init__()
        self._wrapped = env
        env.reset()
        self.agents = list(env.agents)
        self.possible_agents = list(getattr(env, "possible_agents", env.agents))
        self.observation_spaces = {a: env.observation_space(a) for a in self.possible_agents}
        self.action_spaces = {a: env.action_space(a) for a in self.possible_agents}
        self.observation_space = gymnasium.spaces.Dict(self.observation_spaces)
        self.action_space = gymnasium.spaces.Dict(self.action_spaces)

    def close(self) -> None:
        """Close the environment."""
        self._wrapped.close()

    def render(self) -> Any:
        """Show the environment."""
        return self._wrapped.render()

    @property
    def get_sub_environments(self) -> Any:
        """The environment itself."""
        return self._wrapped.unwrapped


class PettingZooEnv(_Wrapped):
    """An environment whose agents act in turn (PettingZoo's ``AECEnv``).

    Args:
        env: The environment.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
        >>> from ray.tune.registry import register_env
        >>> def make(config):
        ...     from pettingzoo.classic import connect_four_v3
        ...     return PettingZooEnv(connect_four_v3.env())
        >>> register_env("connect_four", make)
        >>> config = PPOConfig().environment("connect_four")
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.env = env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode.

        Args:
            seed: For the environment's random numbers. Default: it goes on with those it has.
            options: For the environment. Default: none.

        Returns:
            What the first agent sees.
        """
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        return {agent: self.env.observe(agent)}, {}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Let the agent act whose turn it is.

        Args:
            action_dict: Its action.

        Returns:
            What the next one sees, and those that are done.
        """
        self.env.step(action_dict[self.env.agent_selection])
        found: tuple[dict[Any, Any], ...] = ({}, {}, {}, {}, {})
        while self.env.agents:
            agent = self.env.agent_selection
            for part, value in zip(found, self.env.last(), strict=True):
                part[agent] = value
            if not (found[2][agent] or found[3][agent]):
                break
            self.env.step(None)
        observations, rewards, terminateds, truncateds, infos = found
        gone = not self.env.agents
        terminateds["__all__"] = gone and all(terminateds.values())
        truncateds["__all__"] = gone and not terminateds["__all__"]
        return observations, rewards, terminateds, truncateds, infos


class ParallelPettingZooEnv(_Wrapped):
    """An environment whose agents act at once (PettingZoo's ``ParallelEnv``).

    Args:
        env: The environment.

    Examples:
        >>> from ray.rllib.algorithms.ppo import PPOConfig
        >>> from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
        >>> from ray.tune.registry import register_env
        >>> def make(config):
        ...     from pettingzoo.sisl import waterworld_v4
        ...     return ParallelPettingZooEnv(waterworld_v4.parallel_env())
        >>> register_env("waterworld", make)
        >>> config = PPOConfig().environment("waterworld")
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.par_env = env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode.

        Args:
            seed: For the environment's random numbers. Default: it goes on with those it has.
            options: For the environment. Default: none.

        Returns:
            Observations and infos by agent.
        """
        observations, infos = self.par_env.reset(seed=seed, options=options)
        self.agents = list(self.par_env.agents)
        return observations, infos or {}

    def step(self, action_dict: dict[Any, Any]) -> Any:
        """Let all agents act.

        Args:
            action_dict: The actions by agent.

        Returns:
            Observations, rewards, terminateds, truncateds and infos by agent.
        """
        observations, rewards, terminateds, truncateds, infos = self.par_env.step(action_dict)
        self.agents = list(self.par_env.agents)
        terminateds, truncateds = dict(terminateds), dict(truncateds)
        over = not self.par_env.agents
        all_terminated = all(terminateds.values())
        terminateds["__all__"] = all_terminated and bool(terminateds or over)
        truncateds["__all__"] = all(truncateds.values()) or (over and not all_terminated)
        return observations, rewards, terminateds, truncateds, infos
