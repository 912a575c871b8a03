"""Jobs: commands that run on a cluster's head, submitted over HTTP."""

from __future__ import annotations

from heliostat.job_submission.client import JobSubmissionClient
from heliostat.job_submission.types import (
    DriverInfo,
    JobDetails,
    JobErrorType,
    JobInfo,
    JobStatus,
    JobType,
)

__all__ = [
    "DriverInfo",
    "JobDetails",
    "JobErrorType",
    "JobInfo",
    "JobStatus",
    "JobSubmissionClient",
    "JobType",
]
