"""Episodes that are recorded, and those that are learned from."""

from __future__ import annotations

from heliostat.rllib.offline.offline_data import OfflineData
from heliostat.rllib.offline.offline_env_runner import OfflineSingleAgentEnvRunner

__all__ = ["OfflineData", "OfflineSingleAgentEnvRunner"]
