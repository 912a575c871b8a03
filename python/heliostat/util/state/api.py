"""Asking the control service what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from heliostat import _heliostat
from heliostat.core import session
from heliostat.util.state.common import ActorState, JobState, NodeState
from heliostat.util.state.exception import RayStateApiException

Row = TypeVar("Row", ActorState, NodeState, JobState)
Filters = Sequence[tuple[str, str, Any]]

LIMIT = 100
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda found, wanted: _text(found) == _text(wanted),
    "!=": lambda found, wanted: _text(found) != _text(wanted),
}


def _text(value: Any) -> str:
    return str(value).lower()


def _select(rows: Iterable[Row], filters: Filters | None, limit: int) -> list[Row]:
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


def _actors() -> list[ActorState]:
    session.require()
    return [
        ActorState(
            actor_id=row["actor_id"],
            class_name=row["class_name"],
            state=row["state"],
            job_id=row["job_id"],
            name=row["name"] or None,
            node_id=row["node_id"] or None,
            pid=row["pid"],
            ray_namespace=row["namespace"],
            is_detached=row["detached"],
            num_restarts=row["restarts"],
            death_cause=row["death_cause"] or None,
            required_resources=row["resources"],
            why=row["why"],
        )
        for row in _heliostat.list_actors()
    ]


def _nodes() -> list[NodeState]:
    session.require()
    return [
        NodeState(
            node_id=row["node_id"],
            node_ip=row["host"],
            is_head_node=row["is_head"],
            state="ALIVE" if row["alive"] else "DEAD",
            state_message=row["cause"] or None,
            node_name=row["name"] or row["host"],
            resources_total=row["total"],
            labels=row["labels"],
        )
        for row in _heliostat.list_nodes()
    ]


def _jobs() -> list[JobState]:
    session.require()
    return [
        JobState(
            job_id=row["job_id"],
            submission_id=None,
            entrypoint=row["entrypoint"],
            type="DRIVER",
            status="RUNNING" if row["alive"] else "SUCCEEDED",
            start_time=row["started_ms"],
            end_time=row["ended_ms"] or None,
            driver_info={"id": row["job_id"], "pid": row["pid"]},
        )
        for row in _heliostat.list_jobs()
    ]


def list_actors(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[ActorState]:
    """The actors, those of the past too."""
    return _select(_actors(), filters, limit)


def list_nodes(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[NodeState]:
    """The nodes, those of the past too."""
    return _select(_nodes(), filters, limit)


def list_jobs(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = LIMIT,
    timeout: float = 30,
    detail: bool = False,
    raise_on_missing_output: bool = True,
) -> list[JobState]:
    """The jobs, those of the past too."""
    return _select(_jobs(), filters, limit)


def get_actor(id: str, address: str | None = None, timeout: float = 30) -> ActorState | None:
    """The actor of that id."""
    return next((row for row in _actors() if row.actor_id == id), None)


def get_node(id: str, address: str | None = None, timeout: float = 30) -> NodeState | None:
    """The node of that id."""
    return next((row for row in _nodes() if row.node_id == id), None)


def get_job(id: str, address: str | None = None, timeout: float = 30) -> JobState | None:
    """The job of that id."""
    return next((row for row in _jobs() if row.job_id == id), None)


def summarize_actors(
    address: str | None = None, timeout: float = 30, raise_on_missing_output: bool = True
) -> dict[str, Any]:
    """How many actors of each class are in which state."""
    summary: dict[str, dict[str, Any]] = {}
    actors = _actors()
    for row in actors:
        entry = summary.setdefault(
            row.class_name, {"class_name": row.class_name, "state_counts": {}}
        )
        counts = entry["state_counts"]
        counts[row.state] = counts.get(row.state, 0) + 1
    return {"cluster": {"summary": summary, "total_actors": len(actors), "summary_by": "class"}}


def _missing(what: str) -> Callable[..., NoReturn]:
    def ask(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"{what}: the control service of this release does not record them"
        )

    ask.__name__ = ask.__qualname__ = what
    ask.__doc__ = "Not recorded by this release."
    return ask


list_tasks = _missing("list_tasks")
list_objects = _missing("list_objects")
list_workers = _missing("list_workers")
list_placement_groups = _missing("list_placement_groups")
list_runtime_envs = _missing("list_runtime_envs")
summarize_tasks = _missing("summarize_tasks")
summarize_objects = _missing("summarize_objects")

__all__ = [
    "get_actor",
    "get_job",
    "get_node",
    "list_actors",
    "list_jobs",
    "list_nodes",
    "list_objects",
    "list_placement_groups",
    "list_runtime_envs",
    "list_tasks",
    "list_workers",
    "summarize_actors",
    "summarize_objects",
    "summarize_tasks",
]
