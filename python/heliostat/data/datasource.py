"""Names that programs import from here: how files are partitioned, shuffled and named."""

from __future__ import annotations

from heliostat.data.sinks.files import FilenameProvider, SaveMode
from heliostat.data.sources.files import FileShuffleConfig
from heliostat.data.sources.partitioning import Partitioning, PathPartitionFilter

__all__ = [
    "FileShuffleConfig",
    "FilenameProvider",
    "Partitioning",
    "PathPartitionFilter",
    "SaveMode",
]
