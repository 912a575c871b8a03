"""CQL: conservative Q-learning."""

from __future__ import annotations

from heliostat.rllib.algorithms.cql.cql import CQL, CQLConfig

__all__ = ["CQL", "CQLConfig"]
