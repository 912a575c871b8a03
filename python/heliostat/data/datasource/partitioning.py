"""Partitioning: the columns that folders name."""

from __future__ import annotations

from heliostat.data.sources.partitioning import (
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)

__all__ = ["PartitionStyle", "Partitioning", "PathPartitionFilter", "PathPartitionParser"]
