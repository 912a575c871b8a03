"""Algorithms and their settings."""

from __future__ import annotations

from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.algorithms.appo.appo import APPO, APPOConfig
from heliostat.rllib.algorithms.dqn.dqn import DQN, DQNConfig
from heliostat.rllib.algorithms.impala.impala import IMPALA, Impala, IMPALAConfig, ImpalaConfig
from heliostat.rllib.algorithms.ppo.ppo import PPO, PPOConfig
from heliostat.rllib.algorithms.sac.sac import SAC, SACConfig

# Under which names Tune knows them.
NAMES = ("APPO", "DQN", "IMPALA", "PPO", "SAC")

__all__ = [
    "Algorithm",
    "AlgorithmConfig",
    "APPO",
    "APPOConfig",
    "DQN",
    "DQNConfig",
    "IMPALA",
    "IMPALAConfig",
    "Impala",
    "ImpalaConfig",
    "PPO",
    "PPOConfig",
    "SAC",
    "SACConfig",
]


def __getattr__(name: str) -> object:
    kind = name.removesuffix("Config")
    if kind in ("BC", "CQL", "MARWIL"):
        raise AttributeError(
            f"{name}: {kind}, which learns from recorded episodes, is not built in this release. "
            "Built are APPO, DQN, IMPALA, PPO and SAC."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
