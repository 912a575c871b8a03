"""Settings of a job, as an object."""

from __future__ import annotations

from heliostat.core.job import JobConfig

__all__ = ["JobConfig"]
