"""Imputers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.encoders import SimpleImputer

__all__ = ["SimpleImputer"]
