"""Observations as vectors, under the path that programs import it from."""

from __future__ import annotations

from heliostat.rllib.connectors.common.flatten_observations import FlattenObservations

__all__ = ["FlattenObservations"]
