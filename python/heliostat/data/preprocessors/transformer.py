"""Transformers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.scalers import PowerTransformer

__all__ = ["PowerTransformer"]
