"""Preprocessors of torchvision's transforms where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.features import TorchVisionPreprocessor

__all__ = ["TorchVisionPreprocessor"]
