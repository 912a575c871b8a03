"""Vectorizers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.features import CountVectorizer, HashingVectorizer

__all__ = ["CountVectorizer", "HashingVectorizer"]
