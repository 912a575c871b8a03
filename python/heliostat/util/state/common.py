"""The resources of the state API, and how their rows are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Any

from heliostat.util.state.rows import (
    ActorState,
    ClusterEventState,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    TaskState,
    WorkerState,
)
from heliostat.util.state.schema import Humanify, StateSchema, state_column

DEFAULT_LIMIT = 100
DEFAULT_LOG_LIMIT = 1000
DEFAULT_RPC_TIMEOUT = 30
# How many rows one call gives at most.
RAY_MAX_LIMIT_FROM_API_SERVER = 10_000
RAY_MAX_LIMIT_FROM_DATA_SOURCE = 10_000

PredicateType = str
SupportedFilterType = str | bool | int | float
Filter = tuple[str, PredicateType, SupportedFilterType]


@unique
class StateResource(Enum):
    """The resources that can be listed.

    Examples:
        >>> from ray.util.state.common import StateResource
        >>> StateResource("placement_groups") is StateResource.PLACEMENT_GROUPS
        True
    """

    ACTORS = "actors"
    JOBS = "jobs"
    PLACEMENT_GROUPS = "placement_groups"
    NODES = "nodes"
    WORKERS = "workers"
    TASKS = "tasks"
    OBJECTS = "objects"
    RUNTIME_ENVS = "runtime_envs"
    CLUSTER_EVENTS = "cluster_events"


@unique
class SummaryResource(Enum):
    """The resources that can be counted.

    Examples:
        >>> from ray.util.state.common import SummaryResource
        >>> [resource.value for resource in SummaryResource]
        ['actors', 'tasks', 'objects']
    """

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


def _check_timeout(timeout: object) -> None:
    if not isinstance(timeout, int | float):
        raise ValueError(f"timeout is in seconds, a number: {timeout!r}")


@dataclass
class ListApiOptions:
    """Options of a list of rows: those for which all filters hold.

    Args:
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        exclude_driver: Has no effect.
        server_timeout_multiplier: Has no effect.

    Examples:
        >>> from ray.util.state.common import ListApiOptions
        >>> options = ListApiOptions(limit=10, filters=[("state", "=", "ALIVE")], detail=True)
        >>> options.limit
        10
    """

    limit: Any = DEFAULT_LIMIT
    timeout: float = DEFAULT_RPC_TIMEOUT
    detail: bool = False
    filters: Sequence[Filter] | None = field(default_factory=list)
    exclude_driver: bool = True
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)
        if not isinstance(self.limit, int):
            raise ValueError(f"limit is how many rows at most, an integer: {self.limit!r}")
        if not isinstance(self.filters, Iterable | None):
            raise ValueError(
                f"filters is a list of (column, predicate, value), not {self.filters!r}."
            )
        given: list[Any] = [] if self.filters is None else list(self.filters)
        for one in given:
            if not isinstance(one, tuple | list) or len(one) != 3:
                raise ValueError(f"A filter is (column, predicate, value), not {one!r}.")
            if one[1] not in ("=", "!="):
                raise ValueError(
                    f"Unsupported filter predicate {one[1]} is given. Available predicates: =, !=."
                )
        self.filters = given

    def has_conflicting_filters(self) -> bool:
        """Whether one column is asked to have two values, which no row has."""
        wanted: dict[str, Any] = {}
        return any(
            wanted.setdefault(name.lower(), value) != value
            for name, predicate, value in self.filters or ()
            if predicate == "="
        )


@dataclass
class GetApiOptions:
    """Options of a request for one row.

    Args:
        timeout: Seconds. Default 30.
        server_timeout_multiplier: Has no effect.

    Examples:
        >>> from ray.util.state.common import GetApiOptions
        >>> GetApiOptions(timeout=10).timeout
        10
    """

    timeout: float = DEFAULT_RPC_TIMEOUT
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)


@dataclass
class SummaryApiOptions:
    """Options of a count of rows.

    Args:
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        filters: Has no effect.
        summary_by: Has no effect.

    Examples:
        >>> from ray.util.state.common import SummaryApiOptions
        >>> SummaryApiOptions(timeout=10).timeout
        10
    """

    timeout: float = DEFAULT_RPC_TIMEOUT
    filters: Sequence[Filter] | None = field(default_factory=list)
    summary_by: str | None = None


__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_LOG_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "RAY_MAX_LIMIT_FROM_API_SERVER",
    "RAY_MAX_LIMIT_FROM_DATA_SOURCE",
    "ActorState",
    "ClusterEventState",
    "Filter",
    "GetApiOptions",
    "Humanify",
    "JobState",
    "ListApiOptions",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "PredicateType",
    "RuntimeEnvState",
    "StateResource",
    "StateSchema",
    "SummaryApiOptions",
    "SummaryResource",
    "SupportedFilterType",
    "TaskState",
    "WorkerState",
    "state_column",
]
