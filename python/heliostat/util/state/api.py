"""What there is in the cluster, asked for when it is asked for: nothing is recorded beforehand.

Tasks and objects are told by the processes that own them, workers by the nodes' daemons, the rest by
the control service. Of tasks that have ended each process remembers the latest 10,000; they go with
it when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from heliostat import _heliostat
from heliostat.core import session
from heliostat.util.state.common import (
    ActorState,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    TaskState,
    WorkerState,
)
from heliostat.util.state.exception import RayStateApiException

Row = TypeVar(
    "Row", ActorState, JobState, NodeState, ObjectState, PlacementGroupState, TaskState, WorkerState
)
Filters = Sequence[tuple[str, str, Any]]

LIMIT = 100
LIMIT_MAX = 10_000
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda found, wanted: _text(found) == _text(wanted),
    "!=": lambda found, wanted: _text(found) != _text(wanted),
}


def _text(value: Any) -> str:
    return str(value).lower()


def _select(rows: Iterable[Row], filters: Filters | None, limit: int) -> list[Row]:
    if limit > LIMIT_MAX:
        raise ValueError(f"At most {LIMIT_MAX} rows are given at a time, {limit} were asked for.")
    chosen = list(rows)
    for name, operator, wanted in filters or ():
        if operator not in _OPERATORS:
            raise ValueError(
                f"Unsupported filter predicate {operator!r}: one of {list(_OPERATORS)}."
            )
        if chosen and name not in chosen[0]:
            raise RayStateApiException(f"There is no column {name!r} to filter by.")
        holds = _OPERATORS[operator]
        chosen = [row for row in chosen if holds(row[name], wanted)]
    return chosen[:limit]


def _rows(kind: type[Row], resource: str, detail: bool, is_strict: bool = False) -> list[Row]:
    session.require()
    found, silent, _ = _heliostat.state_rows(resource)
    if silent and is_strict:
        raise RayStateApiException(
            f"{silent} processes or nodes did not answer in time, so {resource} may be missing. Pass "
            "raise_on_missing_output=False to take what there is."
        )
    return [kind.of(row, detail) for row in json.loads(found)]


def list_tasks(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[TaskState]:
    """Calls: those under way, and the latest that ended of each process that still lives.

    ``filters`` are ``(column, "=" or "!=", value)``; at most ``limit`` rows, of 10,000. A process
    that does not answer raises ``RayStateApiException`` unless ``raise_on_missing_output=False``.
    """
    return _select(_rows(TaskState, "tasks", detail, raise_on_missing_output), filters, limit)


def list_objects(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[ObjectState]:
    """References to objects, a row for each process that holds one. Parameters as ``list_tasks``."""
    return _select(_rows(ObjectState, "objects", detail, raise_on_missing_output), filters, limit)


def list_workers(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[WorkerState]:
    """Workers and drivers, the latest that ended too. Parameters as ``list_tasks``."""
    return _select(_rows(WorkerState, "workers", detail, raise_on_missing_output), filters, limit)


def list_actors(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[ActorState]:
    """The actors, those of the past too. Parameters as ``list_tasks``."""
    return _select(_rows(ActorState, "actors", True), filters, limit)


def list_nodes(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[NodeState]:
    """The nodes, those of the past too. Parameters as ``list_tasks``."""
    return _select(_rows(NodeState, "nodes", True), filters, limit)


def list_jobs(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[JobState]:
    """The jobs, those of the past too. Parameters as ``list_tasks``."""
    return _select(_rows(JobState, "jobs", True), filters, limit)


def list_placement_groups(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[PlacementGroupState]:
    """The placement groups, those of the past too. Parameters as ``list_tasks``."""
    return _select(_rows(PlacementGroupState, "placement-groups", detail), filters, limit)


def _with_id(kind: type[Row], resource: str, column: str, id: str) -> list[Row]:
    """What has that id, in detail."""
    return [row for row in _rows(kind, resource, True) if row[column] == id]


def _one(kind: type[Row], resource: str, column: str, id: str) -> Row | None:
    return next(iter(_with_id(kind, resource, column, id)), None)


def get_task(
    id: str, address: str | None = None, timeout: float = 30
) -> TaskState | list[TaskState] | None:
    """The call of that id in detail; several attempts are a list, ``None``: there is none."""
    found = _with_id(TaskState, "tasks", "task_id", id)
    return found if len(found) > 1 else next(iter(found), None)


def get_objects(id: str, address: str | None = None, timeout: float = 30) -> list[ObjectState]:
    """Every reference to the object of that id."""
    return _with_id(ObjectState, "objects", "object_id", id)


def get_worker(id: str, address: str | None = None, timeout: float = 30) -> WorkerState | None:
    """The worker of that id in detail."""
    return _one(WorkerState, "workers", "worker_id", id)


def get_actor(id: str, address: str | None = None, timeout: float = 30) -> ActorState | None:
    """The actor of that id in detail."""
    return _one(ActorState, "actors", "actor_id", id)


def get_node(id: str, address: str | None = None, timeout: float = 30) -> NodeState | None:
    """The node of that id in detail."""
    return _one(NodeState, "nodes", "node_id", id)


def get_job(id: str, address: str | None = None, timeout: float = 30) -> JobState | None:
    """The job of that id in detail."""
    return _one(JobState, "jobs", "job_id", id)


def get_placement_group(
    id: str, address: str | None = None, timeout: float = 30
) -> PlacementGroupState | None:
    """The placement group of that id in detail."""
    return _one(PlacementGroupState, "placement-groups", "placement_group_id", id)


def _summary(resource: str, is_strict: bool) -> dict[str, Any]:
    session.require()
    found, silent = _heliostat.state_summary(resource)
    if silent and is_strict:
        raise RayStateApiException(
            f"{silent} processes or nodes did not answer in time, so the summary of {resource} is "
            "incomplete. Pass raise_on_missing_output=False to take what there is."
        )
    return {"cluster": json.loads(found)}


def summarize_tasks(
    address: str | None = None, timeout: float = 30, raise_on_missing_output: bool = True
) -> dict[str, Any]:
    """How many calls of each function are in which state."""
    return _summary("tasks", raise_on_missing_output)


def summarize_actors(
    address: str | None = None, timeout: float = 30, raise_on_missing_output: bool = True
) -> dict[str, Any]:
    """How many actors of each class are in which state."""
    return _summary("actors", raise_on_missing_output)


def summarize_objects(
    address: str | None = None, timeout: float = 30, raise_on_missing_output: bool = True
) -> dict[str, Any]:
    """How many references there are, of which kind, and to how many bytes."""
    return _summary("objects", raise_on_missing_output)


def list_runtime_envs(*_: Any, **__: Any) -> NoReturn:
    """Not recorded by this release."""
    raise NotImplementedError("list_runtime_envs: nodes of this release do not record them")
