"""Rows of the state API. A row can be read by attribute or like a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any


class _Row:
    """Reading a row like a dictionary."""

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


__all__ = ["ActorState", "JobState", "NodeState"]
