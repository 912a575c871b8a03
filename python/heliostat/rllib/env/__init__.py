"""Environments, and who samples them."""

from __future__ import annotations

from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.multi_agent_env import MultiAgentEnv, make_multi_agent
from heliostat.rllib.env.multi_agent_episode import MultiAgentEpisode
from heliostat.rllib.env.single_agent_episode import SingleAgentEpisode

__all__ = [
    "EnvContext",
    "MultiAgentEnv",
    "MultiAgentEpisode",
    "SingleAgentEpisode",
    "make_multi_agent",
]
