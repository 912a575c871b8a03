"""Base classes of sinks of files."""

from __future__ import annotations

from heliostat.data.sinks.file_datasink import BlockBasedFileDatasink, RowBasedFileDatasink

__all__ = ["BlockBasedFileDatasink", "RowBasedFileDatasink"]
