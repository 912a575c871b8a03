"""Environments, and who samples them."""

from __future__ import annotations

from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from heliostat.rllib.env.multi_agent_episode import MultiAgentEpisode
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode
from heliostat.rllib.utils.old_names import refusing

__all__ = [
    "INPUT_ENV_SINGLE_SPACES",
    "INPUT_ENV_SPACES",
    "EnvContext",
    "MultiAgentEnv",
    "MultiAgentEpisode",
    "SingleAgentEpisode",
    "make_multi_agent",
]

INPUT_ENV_SPACES = "__env__"
INPUT_ENV_SINGLE_SPACES = "__env_single__"


def __getattr__(name: str) -> object:
    if name in ("PettingZooEnv", "ParallelPettingZooEnv"):
        from heliostat.rllib.env.wrappers import pettingzoo_env

        return getattr(pettingzoo_env, name)
    if name == "GroupAgentsWrapper":
        from heliostat.rllib.env.wrappers.group_agents_wrapper import GroupAgentsWrapper

        return GroupAgentsWrapper
    return _gone(name)


_gone = refusing(
    "rllib.env",
    {
        "BaseEnv": "gymnasium.Env, and gymnasium.vector.VectorEnv",
        "VectorEnv": "gymnasium.vector.VectorEnv",
        "ExternalEnv": "ray.rllib.env.external, whose clients send episodes",
        "ExternalMultiAgentEnv": "ray.rllib.env.external, whose clients send episodes",
        "PolicyClient": "ray.rllib.env.external.rllink, by which clients send episodes",
        "RemoteBaseEnv": 'env_runners(gym_env_vectorize_mode="async")',
    },
    "gymnasium.Env",
)
