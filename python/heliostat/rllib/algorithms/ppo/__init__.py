"""PPO: proximal policy optimization."""

from __future__ import annotations

from heliostat.rllib.algorithms.ppo.ppo import PPO, PPOConfig

__all__ = ["PPO", "PPOConfig"]
