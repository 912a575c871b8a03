"""Encoders where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.encoders import (
    Categorizer,
    LabelEncoder,
    MultiHotEncoder,
    OneHotEncoder,
    OrdinalEncoder,
)

__all__ = ["Categorizer", "LabelEncoder", "MultiHotEncoder", "OneHotEncoder", "OrdinalEncoder"]
