"""The names that programs import from here."""

from __future__ import annotations

from heliostat.data.grouped import GroupedData

GroupedDataset = GroupedData

__all__ = ["GroupedData", "GroupedDataset"]
