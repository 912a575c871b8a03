"""Normalizers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.scalers import Normalizer

__all__ = ["Normalizer"]
