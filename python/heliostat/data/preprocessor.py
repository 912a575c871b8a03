"""The names that programs import from here."""

from __future__ import annotations

from heliostat.data.preprocessors.base import Preprocessor, PreprocessorNotFittedException
from heliostat.data.preprocessors.version_support import SerializablePreprocessorBase

__all__ = ["Preprocessor", "PreprocessorNotFittedException", "SerializablePreprocessorBase"]
