"""Base classes of sinks."""

from __future__ import annotations

from heliostat.data.sinks.datasink import (
    Datasink,
    DummyOutputDatasink,
    WriteResult,
    WriteReturnType,
)

__all__ = ["Datasink", "DummyOutputDatasink", "WriteResult", "WriteReturnType"]
