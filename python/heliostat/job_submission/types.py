"""The jobs API's details of a job.

``JobDetails`` and ``DriverInfo`` are those without Pydantic; ``models`` makes Pydantic's of their fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T", bound="_Told")


def of_details() -> Any:
    """The module that has ``JobDetails`` and ``DriverInfo``: Pydantic's models, where that is installed."""
    import importlib

    try:
        pydantic = importlib.import_module("pydantic")
    except ImportError:
        pydantic = None
    # Pydantic's first generation has models of another kind.
    has_models = hasattr(getattr(pydantic, "BaseModel", None), "model_validate")
    return importlib.import_module(f"{__package__}.models" if has_models else __name__)


class JobStatus(str, Enum):
    """The state of a job.

    Examples:
        >>> from ray.job_submission import JobStatus
        >>> [status.value for status in JobStatus if status.is_terminal()]
        ['STOPPED', 'SUCCEEDED', 'FAILED']
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return self.value

    def is_terminal(self) -> bool:
        """Whether no other status follows."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobErrorType(str, Enum):
    """Why a job failed.

    Examples:
        >>> from ray.job_submission import JobErrorType
        >>> def should_try_again(job):  # a JobDetails that has failed
        ...     return job.error_type != JobErrorType.JOB_ENTRYPOINT_COMMAND_ERROR
        >>> JobErrorType("RUNTIME_ENV_SETUP_FAILURE").name
        'RUNTIME_ENV_SETUP_FAILURE'
    """

    RUNTIME_ENV_SETUP_FAILURE = "RUNTIME_ENV_SETUP_FAILURE"
    JOB_SUPERVISOR_ACTOR_START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    JOB_SUPERVISOR_ACTOR_START_FAILURE = "JOB_SUPERVISOR_ACTOR_START_FAILURE"
    JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE = "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"
    JOB_SUPERVISOR_ACTOR_DIED = "JOB_SUPERVISOR_ACTOR_DIED"
    JOB_ENTRYPOINT_COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
    JOB_ENTRYPOINT_COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class JobType(str, Enum):
    """The kind of a job: submitted, or a driver.

    Examples:
        >>> from ray.job_submission import JobType
        >>> [type_.value for type_ in JobType]
        ['SUBMISSION', 'DRIVER']
    """

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


class _Told:
    """Made from what a server says; fields that this release does not know are passed over."""

    @classmethod
    def of(cls: type[T], told: Mapping[str, Any]) -> T:
        """Make it from the answer of a server; fields that this release does not know are passed over.

        Args:
            told: The answer.

        Returns:
            The object.
        """
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type] # all are dataclasses
        return cls(**{name: value for name, value in told.items() if name in known})

    def dict(self) -> dict[str, Any]:
        """As a dictionary."""
        return asdict(self)  # type: ignore[call-overload, no-any-return] # all are dataclasses


@dataclass
class DriverInfo(_Told):
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


@dataclass(kw_only=True)
class JobDetails(_Told):
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

    def __post_init__(self) -> None:
        self.type = JobType(self.type)
        self.status = JobStatus(self.status)
        given: Any = self.driver_info
        if isinstance(given, Mapping):
            self.driver_info = DriverInfo.of(given)


@dataclass
class JobInfo(_Told):
    """A submitted job as a cluster keeps it; :class:`JobDetails` has more.

    Attributes:
        status: Where it is.
        entrypoint: The command.
        message: What happened, for people.
        error_type: Why it failed.
        start_time: Milliseconds since 1970.
        end_time: Milliseconds since 1970.
        metadata: Texts by name, as they were given.
        runtime_env: The environment, as it was given.
        entrypoint_num_cpus: CPUs that the command holds.
        entrypoint_num_gpus: GPUs that it holds.
        entrypoint_memory: Bytes that it holds.
        entrypoint_resources: Further resources that it holds, amounts by name.
        driver_agent_http_address: Where its node answers, for Ray's tools.
        driver_node_id: The node that runs it.
        driver_exit_code: The command's exit code; negative for a signal.

    Examples:
        >>> from ray.job_submission import JobInfo
        >>> job = JobInfo(status="FAILED", entrypoint="python train.py", driver_exit_code=1)
        >>> job.status.is_terminal(), job.to_json()["status"]
        (True, 'FAILED')
        >>> JobInfo.from_json(job.to_json()) == job
        True
    """

    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: JobErrorType | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.status = JobStatus(self.status)
        if self.error_type is not None:
            self.error_type = JobErrorType(self.error_type)

    def to_json(self) -> dict[str, Any]:
        """Return it as a dict of plain values, with ``runtime_env`` as a text, ``runtime_env_json``."""
        told = asdict(self)
        told["status"] = self.status.value
        told["error_type"] = None if self.error_type is None else self.error_type.value
        env = told.pop("runtime_env")
        if env is not None:
            told["runtime_env_json"] = json.dumps(env)
        return told

    @classmethod
    def from_json(cls, json_dict: Mapping[str, Any]) -> JobInfo:
        """Make it from what :meth:`to_json` gave.

        Args:
            json_dict: The dictionary.

        Returns:
            The job.
        """
        told = dict(json_dict)
        env = told.pop("runtime_env_json", None)
        if env is not None:
            told["runtime_env"] = json.loads(env)
        return cls(**told)
