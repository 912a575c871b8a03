"""MARWIL: imitation weighted by advantages."""

from __future__ import annotations

from heliostat.rllib.algorithms.marwil.marwil import MARWIL, MARWILConfig

__all__ = ["MARWIL", "MARWILConfig"]
