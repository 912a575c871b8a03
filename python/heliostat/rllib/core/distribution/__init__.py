"""Distributions of actions."""

from __future__ import annotations

from heliostat.rllib.core.distribution.distribution import Distribution

__all__ = ["Distribution"]
