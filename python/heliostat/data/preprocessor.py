"""The names that programs import from here."""

from __future__ import annotations

from heliostat.data.preprocessors.base import Preprocessor, PreprocessorNotFittedException

__all__ = ["Preprocessor", "PreprocessorNotFittedException"]
