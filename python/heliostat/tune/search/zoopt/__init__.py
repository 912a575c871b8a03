"""Optimizers of ZOOpt (needs the package zoopt)."""

from __future__ import annotations

from heliostat.tune.search.zoopt.zoopt_search import ZOOptSearch

__all__ = ["ZOOptSearch"]
