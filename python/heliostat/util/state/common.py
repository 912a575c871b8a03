"""Rows of the state API. A row can be read by attribute or like a dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

Row = TypeVar("Row", bound="_Row")


class _Row:
    """Reading a row like a dictionary."""

    @classmethod
    def of(cls: type[Row], found: Mapping[str, Any], detail: bool) -> Row:
        """From a row of the core; columns that are for detail keep their defaults without it."""
        known: list[Any] = list(fields(cls))  # type: ignore[arg-type] # a dataclass below
        wanted = [one.name for one in known if detail or not one.metadata.get("detail")]
        return cls(**{name: found[name] for name in wanted if name in found})

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """The field, or the default."""
        return getattr(self, name, default)

    def keys(self) -> list[str]:
        """The names of the fields."""
        return [known.name for known in fields(self)]  # type: ignore[arg-type] # a dataclass below

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __len__(self) -> int:
        return len(self.keys())

    def asdict(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)  # type: ignore[call-overload,no-any-return] # a dataclass below


# A column that only `detail=True` fills.
_DETAIL = {"detail": True}


@dataclass
class TaskState(_Row):
    """A call."""

    task_id: str
    attempt_number: int
    name: str
    state: str
    job_id: str
    actor_id: str | None
    type: str
    func_or_class_name: str
    parent_task_id: str | None
    node_id: str | None
    worker_id: str | None
    worker_pid: int | None
    error_type: str | None
    language: str | None = field(default=None, metadata=_DETAIL)
    required_resources: dict[str, float] | None = field(default=None, metadata=_DETAIL)
    runtime_env_info: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    placement_group_id: str | None = field(default=None, metadata=_DETAIL)
    events: list[dict[str, Any]] | None = field(default=None, metadata=_DETAIL)
    creation_time_ms: int | None = field(default=None, metadata=_DETAIL)
    start_time_ms: int | None = field(default=None, metadata=_DETAIL)
    end_time_ms: int | None = field(default=None, metadata=_DETAIL)
    error_message: str | None = field(default=None, metadata=_DETAIL)
    why: str | None = field(default=None, metadata=_DETAIL)


@dataclass
class ObjectState(_Row):
    """A reference that a process holds to an object."""

    object_id: str
    object_size: int
    task_status: str
    attempt_number: int
    reference_type: str
    call_site: str
    type: str
    pid: int
    ip: str


@dataclass
class WorkerState(_Row):
    """A process that runs or ran tasks or a driver."""

    worker_id: str
    is_alive: bool
    worker_type: str
    exit_type: str | None
    node_id: str
    ip: str
    pid: int
    exit_detail: str | None = field(default=None, metadata=_DETAIL)
    worker_launch_time_ms: int | None = field(default=None, metadata=_DETAIL)
    start_time_ms: int | None = field(default=None, metadata=_DETAIL)
    end_time_ms: int | None = field(default=None, metadata=_DETAIL)
    usage: str | None = field(default=None, metadata=_DETAIL)


@dataclass
class ActorState(_Row):
    """An actor."""

    actor_id: str
    class_name: str
    state: str
    job_id: str
    name: str | None
    node_id: str | None
    pid: int
    ray_namespace: str
    is_detached: bool
    num_restarts: int
    death_cause: str | None
    required_resources: dict[str, float] = field(default_factory=dict)
    why: str = ""


@dataclass
class NodeState(_Row):
    """A node."""

    node_id: str
    node_ip: str
    is_head_node: bool
    state: str
    state_message: str | None
    node_name: str
    resources_total: dict[str, float] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class JobState(_Row):
    """A job."""

    job_id: str
    submission_id: str | None
    entrypoint: str
    type: str
    status: str
    start_time: int
    end_time: int | None
    driver_info: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass
class PlacementGroupState(_Row):
    """A placement group."""

    placement_group_id: str
    name: str
    creator_job_id: str | None
    state: str
    bundles: list[dict[str, Any]] | None = field(default=None, metadata=_DETAIL)
    is_detached: bool | None = field(default=None, metadata=_DETAIL)
    stats: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    why: str | None = field(default=None, metadata=_DETAIL)


__all__ = [
    "ActorState",
    "JobState",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "TaskState",
    "WorkerState",
]
