"""IMPALA: sampling beside learning."""

from __future__ import annotations

from heliostat.rllib.algorithms.impala.impala import IMPALA, Impala, IMPALAConfig, ImpalaConfig

__all__ = ["IMPALA", "Impala", "IMPALAConfig", "ImpalaConfig"]
