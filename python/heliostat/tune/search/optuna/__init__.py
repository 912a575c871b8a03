"""Optuna's samplers, and a storage for its studies in the cluster (needs the package optuna)."""

from __future__ import annotations

from heliostat.tune.search.optuna.optuna_search import OptunaSearch
from heliostat.tune.search.optuna.storage import cluster_storage

__all__ = ["OptunaSearch", "cluster_storage"]
