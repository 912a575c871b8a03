"""What the jobs API tells of a job, as Pydantic models; ``types`` has the same for those without Pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from heliostat.job_submission.types import JobStatus, JobType

__all__ = ["DriverInfo", "JobDetails"]


class DriverInfo(BaseModel):
    """The driver of a job: its id, the address of its node, and its process id as text."""

    id: str
    node_ip_address: str
    pid: str


class JobDetails(BaseModel):
    """A job: times are milliseconds since 1970, and ``driver_exit_code`` is negative for a signal."""

    type: JobType
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> JobDetails:
        """From the answer of a server; fields that this release does not know are passed over."""
        made: JobDetails = cls.model_validate(dict(told))
        return made
