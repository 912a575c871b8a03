"""Jobs: commands that run on a cluster's head, submitted over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.job_submission.client import JobSubmissionClient
from heliostat.job_submission.types import JobErrorType, JobInfo, JobStatus, JobType, of_details

if TYPE_CHECKING:
    from heliostat.job_submission.types import DriverInfo, JobDetails

__all__ = [
    "DriverInfo",
    "JobDetails",
    "JobErrorType",
    "JobInfo",
    "JobStatus",
    "JobSubmissionClient",
    "JobType",
]


def __getattr__(name: str) -> Any:
    if name in ("DriverInfo", "JobDetails"):
        return getattr(of_details(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
