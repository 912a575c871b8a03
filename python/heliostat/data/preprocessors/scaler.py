"""Scalers where Ray has them."""

from __future__ import annotations

from heliostat.data.preprocessors.scalers import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

__all__ = ["MaxAbsScaler", "MinMaxScaler", "RobustScaler", "StandardScaler"]
