"""The jobs API's details of a job, as Pydantic models; ``types`` has the same for those without
Pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from heliostat.job_submission.types import JobStatus, JobType

__all__ = ["DriverInfo", "JobDetails"]


class DriverInfo(BaseModel):
    """The driver of a job: its id, the address of its node, and its process id as text.

    Attributes:
        id: The driver's job.
        node_ip_address: The address of its node.
        pid: Its process, as text.

    Examples:
        >>> from ray.job_submission import DriverInfo
        >>> def place(client, submission_id):  # a JobSubmissionClient
        ...     driver = client.get_job_info(submission_id).driver_info  # None before it has begun
        ...     return driver and (driver.node_ip_address, driver.pid)
        >>> DriverInfo(id="01000000", node_ip_address="192.0.2.1", pid="4321").pid
        '4321'
    """

    id: str
    node_ip_address: str
    pid: str


class JobDetails(BaseModel):
    """A job, submitted or a driver that connected by itself.

    Attributes:
        type: ``SUBMISSION`` or ``DRIVER``.
        job_id: The driver's id, once there is one.
        submission_id: The id that ``submit_job`` returned.
        driver_info: The driver's process.
        status: Where it is.
        entrypoint: The command.
        message: What happened, for people.
        error_type: Why it failed.
        start_time: Milliseconds since 1970.
        end_time: Milliseconds since 1970.
        metadata: Texts by name, as they were given.
        runtime_env: The environment, as it was given.
        driver_agent_http_address: Where its node answers, for Ray's tools.
        driver_node_id: The node that runs it.
        driver_exit_code: The command's exit code; negative for a signal.

    Examples:
        >>> from ray.job_submission import JobDetails
        >>> def failures(client):  # a JobSubmissionClient
        ...     failed = [job for job in client.list_jobs() if job.status == "FAILED"]
        ...     return {job.submission_id: job.message for job in failed}
        >>> job = JobDetails(type="SUBMISSION", status="RUNNING", entrypoint="python train.py")
        >>> job.status.is_terminal()
        False
    """

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
        """Make it from the answer of a server; fields that this release does not know are passed over.

        Args:
            told: The answer.

        Returns:
            The job.
        """
        made: JobDetails = cls.model_validate(dict(told))
        return made
