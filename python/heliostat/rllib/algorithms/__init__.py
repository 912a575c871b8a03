"""Algorithms and their settings."""

from __future__ import annotations

from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.algorithms.ppo.ppo import PPO, PPOConfig

# Under which names Tune knows them.
NAMES = ("PPO",)

__all__ = ["Algorithm", "AlgorithmConfig", "PPO", "PPOConfig"]
