"""Hashers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.features import FeatureHasher

__all__ = ["FeatureHasher"]
