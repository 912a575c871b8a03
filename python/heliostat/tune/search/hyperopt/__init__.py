"""Hyperopt (needs the package hyperopt)."""

from __future__ import annotations

from heliostat.tune.search.hyperopt.hyperopt_search import HyperOptSearch

__all__ = ["HyperOptSearch"]
