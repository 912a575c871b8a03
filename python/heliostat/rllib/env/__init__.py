"""Environments, and who samples them."""

from __future__ import annotations

from heliostat.rllib.env.env_context import EnvContext
from heliostat.rllib.env.multi_agent_env import MultiAgentEnv

__all__ = ["EnvContext", "MultiAgentEnv"]
