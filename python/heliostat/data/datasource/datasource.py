"""Base classes of sources."""

from __future__ import annotations

from heliostat.data.sources.datasource import Datasource, Reader, ReadTask

__all__ = ["Datasource", "ReadTask", "Reader"]
