"""Discretizers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.features import CustomKBinsDiscretizer, UniformKBinsDiscretizer

__all__ = ["CustomKBinsDiscretizer", "UniformKBinsDiscretizer"]
