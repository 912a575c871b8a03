"""SAC: soft actor-critic."""

from __future__ import annotations

from heliostat.rllib.algorithms.sac.sac import SAC, SACConfig

__all__ = ["SAC", "SACConfig"]
