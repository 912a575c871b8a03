"""The names of written files."""

from __future__ import annotations

from heliostat.data.sinks.files import FilenameProvider

__all__ = ["FilenameProvider"]
