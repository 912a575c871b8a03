"""DQN: deep Q-learning."""

from __future__ import annotations

from heliostat.rllib.algorithms.dqn.dqn import DQN, DQNConfig

__all__ = ["DQN", "DQNConfig"]
