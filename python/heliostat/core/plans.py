"""The dictionaries that pass between the Python API and the extension module.

Plans go in (what to call and how), rows come out (what there is). Plain data; nothing here runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from heliostat._heliostat import ActorID, Definition, ObjectRef, PlacementGroupID


class Session(TypedDict):
    """Where this process is. Ids are hex."""

    node_id: str
    worker_id: str
    job_id: str
    host: str
    session_dir: str
    session_name: str
    temp_dir: str
    control_address: str
    namespace: str
    labels: dict[str, str]
    total: dict[str, float]
    runtime_env: str
    is_driver: bool


class StrategyPlan(TypedDict, total=False):
    """`kind`: 0 default, 1 spread, 2 node affinity, 3 placement group."""

    kind: int
    node_id: str
    soft: bool
    placement_group_id: PlacementGroupID
    bundle: int
    capture_children: bool
    labels: Sequence[tuple[str, str]]
    fallbacks: Sequence[Sequence[tuple[str, str]]]  # selectors tried in turn after `labels`
    captured: bool  # False: not into the caller's placement group


class TaskPlan(TypedDict, total=False):
    """What `prepare` of a :class:`TaskCaller` returns. Only `function` is required."""

    function: Definition
    name: str  # display name (option `name`); default: the function's
    function_name: str  # module.qualname; default: name
    resources: Mapping[str, float]  # {"CPU": 1} unless said otherwise; zeros may be left out
    num_returns: int | Literal["streaming", "dynamic"]  # 1
    max_retries: int  # 3
    retry_exceptions: bool | Sequence[type[BaseException]]  # False
    max_calls: int  # 0
    strategy: StrategyPlan | None
    runtime_env: str  # JSON; "" for the job's
    backpressure: int  # 0: none
    is_unlisted: bool  # not told to who lists tasks
    per_yield: int  # items of each value that a generator yields; 0: it is one


class ActorPlan(TypedDict, total=False):
    """What :func:`create_actor` needs. `actor_id`, `cls`, `class_name` are required."""

    actor_id: ActorID  # new_actor_id()
    cls: Definition
    class_name: str
    module: str  # the class's; default: not known
    name: str
    namespace: str  # "": the session's
    detached: bool
    get_if_exists: bool
    max_restarts: int
    max_task_retries: int
    max_concurrency: int
    is_async: bool
    concurrency_groups: Mapping[str, int]
    placement_resources: Mapping[str, float]
    resources: Mapping[str, float]
    strategy: StrategyPlan | None
    runtime_env: str
    handle: bytes  # serialize(handle without its ref), for get_actor; only looked at with a name
    is_unlisted: bool  # its constructor is not told to who lists tasks
    modules: list[str]  # have these loaded in the process that its worker is forked from


class ActorCreated(TypedDict):
    actor_id: ActorID
    ref: ObjectRef | None  # keep it in the handle; None: detached, or `existing`
    existing: bytes | None  # get_if_exists found one: its `handle`


class ActorRow(TypedDict):
    actor_id: str
    state: str
    incarnation: int
    restarts: int
    name: str
    namespace: str
    class_name: str
    job_id: str
    node_id: str
    pid: int
    detached: bool
    why: str
    death_cause: str
    resources: dict[str, float]
    max_task_retries: int


class PendingRow(TypedDict):
    resources: dict[str, float]
    count: int
    why: str


class NodeRow(TypedDict):
    node_id: str
    alive: bool
    host: str
    port: int
    hostname: str
    name: str
    total: dict[str, float]
    available: dict[str, float]
    labels: dict[str, str]
    pid: int
    is_head: bool
    session_dir: str
    cause: str
    workers: int
    metrics_port: int
    pending: list[PendingRow]


class GroupPlan(TypedDict):
    """What :func:`create_group` needs."""

    group_id: PlacementGroupID  # PlacementGroupID.of(the job)
    strategy: str
    bundles: list[dict[str, float]]
    labels: list[dict[str, str]]  # of each bundle; []: none has any
    name: str
    detached: bool
    target: str  # a node id, hex; "": none
    topology: dict[str, str]


class GroupRow(TypedDict):
    group_id: PlacementGroupID
    name: str
    namespace: str
    strategy: str
    state: str
    detached: bool
    bundles: list[dict[str, float]]
    labels: list[dict[str, str]]
    places: dict[int, str]  # node ids, hex, of the bundles that have one
    why: str  # what it waits for
    infeasible: bool
    attempts: int
    took_ms: int


class JobRow(TypedDict):
    job_id: str
    driver_id: str
    node_id: str
    alive: bool
    entrypoint: str
    namespace: str
    pid: int
    started_ms: int
    ended_ms: int


class Cause(TypedDict):
    """Why a process ended."""

    kind: str  # a name of `helio_types::DeathKind`: Unknown, Exited, Signaled, Intended, NodeDied, ...
    code: int  # exit code or signal number
    pid: int
    message: str
    log_tail: str
    error: BaseException | None  # InitFailed: what the constructor raised, a `RayTaskError`
