"""BC: behavior cloning."""

from __future__ import annotations

from heliostat.rllib.algorithms.bc.bc import BC, BCConfig

__all__ = ["BC", "BCConfig"]
