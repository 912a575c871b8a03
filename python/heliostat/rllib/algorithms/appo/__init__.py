"""APPO: PPO with sampling beside learning."""

from __future__ import annotations

from heliostat.rllib.algorithms.appo.appo import APPO, APPOConfig

__all__ = ["APPO", "APPOConfig"]
