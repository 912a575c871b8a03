"""Bayesian optimization (needs the package bayesian-optimization)."""

from __future__ import annotations

from heliostat.tune.search.bayesopt.bayesopt_search import BayesOptSearch

__all__ = ["BayesOptSearch"]
