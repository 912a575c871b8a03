"""The bases of programs' own sources and sinks, and how files are partitioned and named."""

from __future__ import annotations

from heliostat.data.block import BlockMetadata
from heliostat.data.sinks.datasink import (
    Datasink,
    DummyOutputDatasink,
    WriteResult,
    WriteReturnType,
)
from heliostat.data.sinks.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink
from heliostat.data.sinks.files import FilenameProvider, SaveMode
from heliostat.data.sinks.turbopuffer import TurbopufferDatasink
from heliostat.data.sources.classes import (
    DeltaSharingDatasource,
    LeRobotDatasource,
    MCAPDatasource,
    RandomIntRowDatasource,
)
from heliostat.data.sources.datasource import Datasource, Reader, ReadTask
from heliostat.data.sources.file_datasource import FileBasedDatasource
from heliostat.data.sources.file_metadata import (
    BaseFileMetadataProvider,
    DefaultFileMetadataProvider,
    FileMetadataProvider,
)
from heliostat.data.sources.files import FileShuffleConfig
from heliostat.data.sources.media import TimeRange
from heliostat.data.sources.partitioning import (
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)
from heliostat.data.sources.sql import Connection

__all__ = [
    "BaseFileMetadataProvider",
    "BlockBasedFileDatasink",
    "BlockMetadata",
    "Datasink",
    "Datasource",
    "DefaultFileMetadataProvider",
    "DeltaSharingDatasource",
    "DummyOutputDatasink",
    "FileBasedDatasource",
    "FileMetadataProvider",
    "FileShuffleConfig",
    "FilenameProvider",
    "LeRobotDatasource",
    "MCAPDatasource",
    "PartitionStyle",
    "Partitioning",
    "PathPartitionFilter",
    "PathPartitionParser",
    "RandomIntRowDatasource",
    "ReadTask",
    "Reader",
    "RowBasedFileDatasink",
    "SaveMode",
    "TimeRange",
    "TurbopufferDatasink",
    "WriteResult",
    "WriteReturnType",
]
