"""Algorithms and their settings."""

from __future__ import annotations

from heliostat.rllib.algorithms.algorithm import Algorithm
from heliostat.rllib.algorithms.algorithm_config import AlgorithmConfig
from heliostat.rllib.algorithms.appo.appo import APPO, APPOConfig
from heliostat.rllib.algorithms.bc.bc import BC, BCConfig
from heliostat.rllib.algorithms.cql.cql import CQL, CQLConfig
from heliostat.rllib.algorithms.dqn.dqn import DQN, DQNConfig
from heliostat.rllib.algorithms.impala.impala import IMPALA, Impala, IMPALAConfig, ImpalaConfig
from heliostat.rllib.algorithms.marwil.marwil import MARWIL, MARWILConfig
from heliostat.rllib.algorithms.ppo.ppo import PPO, PPOConfig
from heliostat.rllib.algorithms.sac.sac import SAC, SACConfig

# Under which names Tune knows them.
NAMES = ("APPO", "BC", "CQL", "DQN", "IMPALA", "MARWIL", "PPO", "SAC")

__all__ = [
    "Algorithm",
    "AlgorithmConfig",
    "APPO",
    "APPOConfig",
    "BC",
    "BCConfig",
    "CQL",
    "CQLConfig",
    "DQN",
    "DQNConfig",
    "IMPALA",
    "IMPALAConfig",
    "Impala",
    "ImpalaConfig",
    "MARWIL",
    "MARWILConfig",
    "PPO",
    "PPOConfig",
    "SAC",
    "SACConfig",
]
