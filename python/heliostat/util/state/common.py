"""Rows of the state API, what there are rows of, and how they are asked for."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum, unique
from typing import Any, TypeVar

DEFAULT_LIMIT = 100
DEFAULT_LOG_LIMIT = 1000
DEFAULT_RPC_TIMEOUT = 30
# How many rows one call gives at most.
RAY_MAX_LIMIT_FROM_API_SERVER = 10_000
RAY_MAX_LIMIT_FROM_DATA_SOURCE = 10_000

Row = TypeVar("Row", bound="StateSchema")
PredicateType = str
SupportedFilterType = str | bool | int | float
Filter = tuple[str, PredicateType, SupportedFilterType]


@unique
class StateResource(Enum):
    """What can be listed."""

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
    """What can be counted."""

    ACTORS = "actors"
    TASKS = "tasks"
    OBJECTS = "objects"


class Humanify:
    """Numbers as people read them."""

    @staticmethod
    def timestamp(x: float) -> str:
        """Milliseconds since 1970 as a local date and time."""
        return str(datetime.datetime.fromtimestamp(x / 1000))

    @staticmethod
    def memory(x: int) -> str:
        """Bytes with a unit."""
        for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
            if x >= 1 << bits:
                return f"{x / (1 << bits):.3f} {unit}"
        return f"{x:.3f} B"

    @staticmethod
    def duration(x: int) -> str:
        """Milliseconds as hours, minutes and seconds."""
        return str(datetime.timedelta(milliseconds=x))

    @staticmethod
    def events(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The events with dates for their times."""
        for event in events:
            if "created_ms" in event:
                event["created_ms"] = Humanify.timestamp(event["created_ms"])
        return events

    @staticmethod
    def node_resources(resources: dict[str, Any]) -> dict[str, Any]:
        """The resources with units for those that are bytes."""
        for name, quantity in resources.items():
            if "memory" in name:
                resources[name] = Humanify.memory(quantity)
        return resources


def _check_timeout(timeout: object) -> None:
    if not isinstance(timeout, int | float):
        raise ValueError(f"timeout is in seconds, a number: {timeout!r}")


@dataclass
class ListApiOptions:
    """How rows are listed: at most ``limit``, those for which all ``filters`` hold."""

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
    """How one row is asked for."""

    timeout: float = DEFAULT_RPC_TIMEOUT
    server_timeout_multiplier: float = 0.8

    def __post_init__(self) -> None:
        _check_timeout(self.timeout)


@dataclass
class SummaryApiOptions:
    """How rows are counted."""

    timeout: float = DEFAULT_RPC_TIMEOUT
    filters: Sequence[Filter] | None = field(default_factory=list)
    summary_by: str | None = None


def state_column(
    *, filterable: bool, detail: bool = False, format_fn: Any = None, **kwargs: Any
) -> Any:
    """A dataclass field with what the state API knows of a column."""
    if detail:
        kwargs.setdefault("default", None)
    known = {"detail": detail, "filterable": filterable, "format_fn": format_fn}
    return field(**{**kwargs, "metadata": {**kwargs.get("metadata", {}), **known}})


class StateSchema:
    """A row: its columns are attributes, and can be read like a dictionary's."""

    @classmethod
    def of(cls: type[Row], found: Mapping[str, Any], detail: bool) -> Row:
        """From a row of the core; columns that are for detail are None without it."""
        return cls(**{name: found.get(name) for name in cls.list_columns(detail)})

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """The names of the columns, in their order."""
        known: list[Any] = list(fields(cls))  # type: ignore[arg-type] # a dataclass below
        return [one.name for one in known if detail or not one.metadata.get("detail")]

    @classmethod
    def columns(cls) -> set[str]:
        """The names of all columns."""
        return set(cls.list_columns())

    @classmethod
    def base_columns(cls) -> set[str]:
        """The columns that are always filled."""
        return set(cls.list_columns(detail=False))

    @classmethod
    def detail_columns(cls) -> set[str]:
        """The columns that are filled with ``detail=True``: all."""
        return cls.columns()

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """The columns by which rows can be filtered."""
        known: list[Any] = list(fields(cls))  # type: ignore[arg-type] # a dataclass below
        return {one.name for one in known if one.metadata.get("filterable")}

    @classmethod
    def humanify(cls, state: dict[str, Any]) -> dict[str, Any]:
        """The row, a dictionary, with dates and units for its numbers."""
        known: list[Any] = list(fields(cls))  # type: ignore[arg-type] # a dataclass below
        for one in known:
            shown = one.metadata.get("format_fn")
            if shown is not None and state.get(one.name) is not None:
                state[one.name] = shown(state[one.name])
        return state

    def asdict(self) -> dict[str, Any]:
        """A plain dictionary."""
        return asdict(self)  # type: ignore[call-overload,no-any-return] # a dataclass below

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def get(self, key: str, default: Any = None) -> Any:
        """The column, or the default."""
        return getattr(self, key, default)

    def keys(self) -> list[str]:
        """The names of the columns."""
        return self.list_columns()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def __len__(self) -> int:
        return len(self.keys())


_FILTER = {"detail": False, "filterable": True, "format_fn": None}
_SHOWN = {"detail": False, "filterable": False, "format_fn": None}
_DETAIL = {"detail": True, "filterable": False, "format_fn": None}
_DETAIL_FILTER = {"detail": True, "filterable": True, "format_fn": None}
_TIME = {"detail": True, "filterable": False, "format_fn": Humanify.timestamp}


@dataclass
class ActorState(StateSchema):
    """An actor."""

    actor_id: str = field(metadata=_FILTER)
    class_name: str = field(metadata=_FILTER)
    state: str = field(metadata=_FILTER)
    job_id: str = field(metadata=_FILTER)
    name: str | None = field(metadata=_FILTER)
    node_id: str | None = field(metadata=_FILTER)
    pid: int | None = field(metadata=_FILTER)
    ray_namespace: str | None = field(metadata=_FILTER)
    serialized_runtime_env: str | None = field(default=None, metadata=_DETAIL)
    required_resources: dict[str, float] | None = field(default=None, metadata=_DETAIL)
    death_cause: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    is_detached: bool | None = field(default=None, metadata=_DETAIL)
    placement_group_id: str | None = field(default=None, metadata=_DETAIL_FILTER)
    repr_name: str | None = field(default=None, metadata=_DETAIL_FILTER)
    num_restarts: int | None = field(default=None, metadata=_DETAIL)
    num_restarts_due_to_lineage_reconstruction: int | None = field(default=None, metadata=_DETAIL)
    num_restarts_due_to_node_preemption: int | None = field(default=None, metadata=_DETAIL)
    call_site: str | None = field(default=None, metadata=_DETAIL)
    label_selector: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    fallback_strategy: Any = field(default=None, metadata=_DETAIL)
    # What it waits for.
    why: str | None = field(default=None, metadata=_DETAIL)


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group."""

    placement_group_id: str = field(metadata=_FILTER)
    name: str = field(metadata=_FILTER)
    creator_job_id: str = field(metadata=_FILTER)
    state: str = field(metadata=_FILTER)
    bundles: list[dict[str, Any]] | None = field(default=None, metadata=_DETAIL)
    is_detached: bool | None = field(default=None, metadata=_DETAIL_FILTER)
    stats: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    topology_strategy: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    topology_assignments: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    # What it waits for.
    why: str | None = field(default=None, metadata=_DETAIL)


@dataclass
class NodeState(StateSchema):
    """A node."""

    node_id: str = field(metadata=_FILTER)
    node_ip: str = field(metadata=_FILTER)
    is_head_node: bool = field(metadata=_FILTER)
    state: str = field(metadata=_FILTER)
    state_message: str | None = field(metadata=_SHOWN)
    node_name: str = field(metadata=_FILTER)
    resources_total: dict[str, Any] = field(
        metadata={**_SHOWN, "format_fn": Humanify.node_resources}
    )
    labels: dict[str, str] = field(metadata=_SHOWN)
    start_time_ms: int | None = field(default=None, metadata=_TIME)
    end_time_ms: int | None = field(default=None, metadata=_TIME)


class _DriverInfo(dict[str, Any]):
    """The driver's ``id``, ``node_ip_address`` and ``pid``, as attributes or like a dictionary."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(kw_only=True)
class JobState(StateSchema):
    """A job."""

    type: str = field(metadata=_FILTER)
    job_id: str | None = field(default=None, metadata=_FILTER)
    submission_id: str | None = field(default=None, metadata=_FILTER)
    driver_info: Any = field(default=None, metadata=_SHOWN)
    status: str = field(metadata=_FILTER)
    entrypoint: str = field(metadata=_SHOWN)
    message: str | None = field(default=None, metadata=_SHOWN)
    error_type: str | None = field(default=None, metadata=_SHOWN)
    start_time: int | None = field(default=None, metadata=_DETAIL)
    end_time: int | None = field(default=None, metadata=_DETAIL)
    metadata: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    runtime_env: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    driver_agent_http_address: str | None = field(default=None, metadata=_DETAIL)
    driver_node_id: str | None = field(default=None, metadata=_DETAIL)
    driver_exit_code: int | None = field(default=None, metadata=_DETAIL)

    @classmethod
    def list_columns(cls, detail: bool = True) -> list[str]:
        """The names of the columns, in the order in which they are shown."""
        first = ["job_id", "submission_id", "entrypoint", "type", "status", "message"]
        if not detail:
            return [*first, "error_type", "driver_info"]
        return super().list_columns()

    def __post_init__(self) -> None:
        if isinstance(self.driver_info, dict):
            self.driver_info = _DriverInfo(self.driver_info)


@dataclass
class WorkerState(StateSchema):
    """A process that runs or ran tasks or a driver."""

    worker_id: str = field(metadata=_FILTER)
    is_alive: bool = field(metadata=_FILTER)
    worker_type: str = field(metadata=_FILTER)
    exit_type: str | None = field(metadata=_FILTER)
    node_id: str = field(metadata=_FILTER)
    ip: str = field(metadata=_FILTER)
    pid: int = field(metadata=_FILTER)
    exit_detail: str | None = field(default=None, metadata=_DETAIL)
    worker_launch_time_ms: int | None = field(default=None, metadata=_TIME)
    worker_launched_time_ms: int | None = field(default=None, metadata=_TIME)
    start_time_ms: int | None = field(default=None, metadata=_TIME)
    end_time_ms: int | None = field(default=None, metadata=_TIME)
    debugger_port: int | None = field(default=None, metadata=_DETAIL_FILTER)
    num_paused_threads: int | None = field(default=None, metadata=_DETAIL_FILTER)
    # What it is used for.
    usage: str | None = field(default=None, metadata=_DETAIL)


@dataclass
class ClusterEventState(StateSchema):
    """Something that went wrong in the cluster."""

    severity: str = field(metadata=_FILTER)
    time: str = field(metadata=_SHOWN)
    source_type: str = field(metadata=_FILTER)
    message: str = field(metadata=_SHOWN)
    event_id: str = field(metadata=_FILTER)
    custom_fields: dict[str, Any] | None = field(default=None, metadata=_DETAIL)


@dataclass
class TaskState(StateSchema):
    """A call."""

    task_id: str = field(metadata=_FILTER)
    attempt_number: int = field(metadata=_FILTER)
    name: str = field(metadata=_FILTER)
    state: str = field(metadata=_FILTER)
    job_id: str = field(metadata=_FILTER)
    actor_id: str | None = field(metadata=_FILTER)
    type: str = field(metadata=_FILTER)
    func_or_class_name: str = field(metadata=_FILTER)
    parent_task_id: str | None = field(metadata=_FILTER)
    node_id: str | None = field(metadata=_FILTER)
    worker_id: str | None = field(metadata=_FILTER)
    worker_pid: int | None = field(metadata=_FILTER)
    error_type: str | None = field(metadata=_FILTER)
    language: str | None = field(default=None, metadata=_DETAIL_FILTER)
    required_resources: dict[str, float] | None = field(default=None, metadata=_DETAIL)
    runtime_env_info: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    placement_group_id: str | None = field(default=None, metadata=_DETAIL_FILTER)
    events: list[dict[str, Any]] | None = field(
        default=None, metadata={**_DETAIL, "format_fn": Humanify.events}
    )
    profiling_data: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    creation_time_ms: int | None = field(default=None, metadata=_TIME)
    start_time_ms: int | None = field(default=None, metadata=_TIME)
    end_time_ms: int | None = field(default=None, metadata=_TIME)
    task_log_info: dict[str, Any] | None = field(default=None, metadata=_DETAIL)
    error_message: str | None = field(default=None, metadata=_DETAIL)
    is_debugger_paused: bool | None = field(default=None, metadata=_DETAIL_FILTER)
    call_site: str | None = field(default=None, metadata=_DETAIL)
    label_selector: dict[str, str] | None = field(default=None, metadata=_DETAIL)
    fallback_strategy: Any = field(default=None, metadata=_DETAIL)
    # What it waits for.
    why: str | None = field(default=None, metadata=_DETAIL)


@dataclass
class ObjectState(StateSchema):
    """A reference that a process holds to an object."""

    object_id: str = field(metadata=_FILTER)
    object_size: int = field(metadata=_FILTER)
    task_status: str = field(metadata=_FILTER)
    attempt_number: int = field(metadata=_FILTER)
    reference_type: str = field(metadata=_FILTER)
    call_site: str = field(metadata=_FILTER)
    type: str = field(metadata=_FILTER)
    pid: int = field(metadata=_FILTER)
    ip: str = field(metadata=_FILTER)


@dataclass
class RuntimeEnvState(StateSchema):
    """A runtime environment on a node."""

    runtime_env: dict[str, Any] = field(metadata=_FILTER)
    success: bool = field(metadata=_FILTER)
    creation_time_ms: float | None = field(metadata={**_SHOWN, "format_fn": Humanify.timestamp})
    node_id: str = field(metadata=_FILTER)
    ref_cnt: int | None = field(default=None, metadata=_DETAIL)
    error: str | None = field(default=None, metadata=_DETAIL_FILTER)
