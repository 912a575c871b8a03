"""Settings of a job, as an object."""

from __future__ import annotations

from heliostat.core.driver.job import JobConfig

__all__ = ["JobConfig"]
