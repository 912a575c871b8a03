"""Names that programs import from here: how files are partitioned, shuffled and named."""

from __future__ import annotations

from heliostat.data.block import BlockMetadata
from heliostat.data.sinks.datasink import Datasink, WriteResult
from heliostat.data.sinks.files import FilenameProvider, SaveMode
from heliostat.data.sources.datasource import Datasource, ReadTask
from heliostat.data.sources.files import FileShuffleConfig
from heliostat.data.sources.partitioning import Partitioning, PathPartitionFilter

__all__ = [
    "BlockMetadata",
    "Datasink",
    "Datasource",
    "FileShuffleConfig",
    "FilenameProvider",
    "Partitioning",
    "PathPartitionFilter",
    "ReadTask",
    "SaveMode",
    "WriteResult",
]
