"""Optuna's samplers (needs the package optuna)."""

from __future__ import annotations

from heliostat.tune.search.optuna.optuna_search import OptunaSearch

__all__ = ["OptunaSearch"]
