"""The base class of sources of files."""

from __future__ import annotations

from heliostat.data.sources.file_datasource import FileBasedDatasource
from heliostat.data.sources.files import FileShuffleConfig

__all__ = ["FileBasedDatasource", "FileShuffleConfig"]
