"""The dictionaries that pass between the Python API and the extension module.

Plans go in (what to call and how), rows come out (what there is). Plain data; nothing here runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from heliostat._heliostat import ActorID, Definition, ObjectRef, PlacementGroupID


class Session(TypedDict):
    """The session of this process: its ids (hex), addresses and resources."""

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


class PlacementKeywords(TypedDict, total=False):
    """The keywords of :class:`_heliostat.Placement`."""

    spread: bool
    node_id: str
    soft: bool
    group: PlacementGroupID
    bundle: int
    capture_children: bool
    captured: bool
    labels: Sequence[tuple[str, str]]
    fallbacks: Sequence[Sequence[tuple[str, str]]]


class TaskPlan(TypedDict):
    """The part that `prepare` of a :class:`TaskCaller` adds to the options, when there is a
    session.
    """

    function: Definition
    name: str  # the function's, for people
    function_name: str  # module.qualname
    runtime_env: str  # JSON; "" for the job's


class ActorPlan(TypedDict):
    """The arguments of :func:`create_actor` besides the options."""

    actor_id: ActorID  # new_actor_id()
    cls: Definition
    class_name: str
    module: str  # the class's
    detached: bool
    runtime_env: str  # JSON; "" for the job's
    handle: bytes  # serialize(handle without its ref), for get_actor; only looked at with a name
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
    is_draining: bool
    drain_deadline_ms: int  # since 1970; 0: until what runs there has ended
    drain_reason: str
    pending: list[PendingRow]


class GroupPlan(TypedDict):
    """The arguments of :func:`create_group`."""

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
    method: str  # in which the code of an actor asked for the end
    error: BaseException | None  # InitFailed: what the constructor raised, a `RayTaskError`
