"""Tokenizers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.features import Tokenizer

__all__ = ["Tokenizer"]
