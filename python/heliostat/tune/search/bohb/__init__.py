"""BOHB (needs the packages hpbandster and ConfigSpace)."""

from __future__ import annotations

from heliostat.tune.search.bohb.bohb_search import TuneBOHB

__all__ = ["TuneBOHB"]
