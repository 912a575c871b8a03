"""Concatenator where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.features import Concatenator

__all__ = ["Concatenator"]
