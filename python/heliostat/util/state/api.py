"""What there is in the cluster, asked for when it is asked for: nothing is recorded beforehand.

Tasks and objects are told by the processes that own them, workers by the nodes' daemons, the rest by
the control service. Of tasks that have ended each process remembers the latest 10,000; when it ends, a
node's daemon keeps 1,000 of them, and of one that was killed the processes that ran its tasks tell.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from heliostat._heliostat import ObjectRef
from heliostat.core.version import RAY_VERSION
from heliostat.util.state import ask, logs, logs_afar
from heliostat.util.state.common import (
    DEFAULT_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    RAY_MAX_LIMIT_FROM_API_SERVER,
    ActorState,
    ClusterEventState,
    GetApiOptions,
    JobState,
    ListApiOptions,
    NodeState,
    ObjectState,
    PlacementGroupState,
    PredicateType,
    RuntimeEnvState,
    StateResource,
    StateSchema,
    SummaryApiOptions,
    SummaryResource,
    SupportedFilterType,
    TaskState,
    WorkerState,
)
from heliostat.util.state.exception import RayStateApiException

Row = TypeVar("Row", bound=StateSchema)
Filters = Sequence[tuple[str, PredicateType, SupportedFilterType]]

_SCHEMAS: dict[StateResource, type[StateSchema]] = {
    StateResource.ACTORS: ActorState,
    StateResource.CLUSTER_EVENTS: ClusterEventState,
    StateResource.JOBS: JobState,
    StateResource.NODES: NodeState,
    StateResource.OBJECTS: ObjectState,
    StateResource.PLACEMENT_GROUPS: PlacementGroupState,
    StateResource.RUNTIME_ENVS: RuntimeEnvState,
    StateResource.TASKS: TaskState,
    StateResource.WORKERS: WorkerState,
}

# The column that names one row, and how many hex digits such an id has.
_KEYS = {
    StateResource.ACTORS: ("actor_id", 32),
    StateResource.JOBS: ("job_id", 8),
    StateResource.NODES: ("node_id", 56),
    StateResource.OBJECTS: ("object_id", 56),
    StateResource.PLACEMENT_GROUPS: ("placement_group_id", 36),
    StateResource.TASKS: ("task_id", 48),
    StateResource.WORKERS: ("worker_id", 56),
}


class StateApiClient:
    """Asks one cluster: that of ``address``, else this process's, else the one that is found.

    ``cookies`` and ``headers`` are taken and not used: no web server is asked.
    """

    def __init__(
        self,
        address: str | None = None,
        cookies: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
    ) -> None:
        self._address = address

    def get_address(self) -> str:
        """The cluster that is asked."""
        return self._address or ask.own_address()

    def get_version(self) -> str:
        """The release of Ray whose API that cluster has."""
        return RAY_VERSION

    def get(
        self,
        resource: StateResource,
        id: str,
        options: GetApiOptions | None,
        _explain: bool = False,
    ) -> Any:
        """The row of that id in detail, ``None`` if there is none.

        Objects give a list; so do tasks of which there are several attempts.
        """
        if resource not in _KEYS:
            raise ValueError(f"Can't get {resource.name} by id.")
        column, digits = _KEYS[resource]
        if resource is StateResource.JOBS and len(id) != digits:
            column = "submission_id"  # a job that was submitted has two ids
        else:
            _check_id(id, column, digits)
        found = ask.rows(resource.value, self._address)
        rows: list[Any] = [
            _SCHEMAS[resource].of(row, detail=True) for row in found.rows if row[column] == id
        ]
        if resource is StateResource.OBJECTS or (resource is StateResource.TASKS and len(rows) > 1):
            return rows
        return next(iter(rows), None)

    def list(
        self,
        resource: StateResource,
        options: ListApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> list[Any]:
        """The rows for which all filters hold.

        Raises ``RayStateApiException`` for a column by which rows cannot be filtered, for a limit
        that is negative or above 10,000, and, unless ``raise_on_missing_output=False``, when a part
        of the cluster did not answer.
        """
        schema = _SCHEMAS[resource]
        if not 0 <= options.limit <= RAY_MAX_LIMIT_FROM_API_SERVER:
            raise RayStateApiException(
                f"Given limit {options.limit} is not between 0 and the supported limit "
                f"{RAY_MAX_LIMIT_FROM_API_SERVER}. Use filters to see other rows."
            )
        checks = [_check(schema, *one) for one in options.filters or ()]
        if options.has_conflicting_filters():
            warnings.warn(
                f"No row has several values in one column: the filters {options.filters} leave none.",
                UserWarning,
                stacklevel=3,
            )
            return []
        # Nobody waits for rows that are thrown away.
        most = None if checks or _explain else options.limit
        found = ask.rows(resource.value, self._address, most)
        if found.silent and raise_on_missing_output:
            raise _incomplete(found.silent, resource.value)
        chosen = [row for row in found.rows if all(_holds(row, *check) for check in checks)]
        if _explain and len(chosen) > options.limit:
            warnings.warn(
                f"{options.limit} of {len(chosen)} {resource.value} are given: raise the limit, or "
                "filter.",
                stacklevel=3,
            )
        return [schema.of(row, options.detail) for row in chosen[: options.limit]]

    def summary(
        self,
        resource: SummaryResource,
        *,
        options: SummaryApiOptions,
        raise_on_missing_output: bool,
        _explain: bool = False,
    ) -> dict[str, Any]:
        """Counts of rows, by function, class or place of creation."""
        text, silent = ask.summary(resource.value, self._address)
        if silent and raise_on_missing_output:
            raise _incomplete(silent, resource.value)
        return {"cluster": json.loads(text)}


def _incomplete(silent: int, resource: str) -> RayStateApiException:
    return RayStateApiException(
        f"{silent} processes or nodes did not answer in time, so {resource} may be missing. Pass "
        "raise_on_missing_output=False to take what there is."
    )


def _check_id(id: str, column: str, digits: int) -> None:
    try:
        bytes.fromhex(id)
    except (TypeError, ValueError):
        raise RayStateApiException(f"{id!r} is no {column}: it is not hexadecimal.") from None
    if len(id) != digits:
        raise RayStateApiException(
            f"{id!r} is no {column}: it has {len(id)} hexadecimal digits, not {digits}."
        )


def _check(
    schema: type[StateSchema], column: str, predicate: str, value: Any
) -> tuple[str, str, Any]:
    column = str(column).lower()
    known = schema.filterable_columns()
    if column not in known:
        raise RayStateApiException(
            f"The given filter column {column} is not supported. Supported filter columns: "
            f"{', '.join(sorted(known))}."
        )
    return column, predicate, value


def _holds(row: dict[str, Any], column: str, predicate: str, wanted: Any) -> bool:
    found = row.get(column)
    if isinstance(found, str) and isinstance(wanted, str):
        found, wanted = found.lower(), wanted.lower()
    elif isinstance(found, bool) and isinstance(wanted, str):
        wanted = _converted(wanted, column, {"true": True, "1": True, "false": False, "0": False})
    elif isinstance(found, int) and isinstance(wanted, str):
        try:
            wanted = int(wanted)
        except ValueError:
            raise _not_a(wanted, column, "an integer") from None
    return bool(found == wanted) if predicate == "=" else bool(found != wanted)


def _converted(wanted: str, column: str, values: dict[str, bool]) -> bool:
    if wanted.lower() not in values:
        raise _not_a(wanted, column, "true or false")
    return values[wanted.lower()]


def _not_a(wanted: str, column: str, what: str) -> RayStateApiException:
    return RayStateApiException(f"The column {column} is {what}, which {wanted!r} is not.")


def _list(
    resource: StateResource,
    address: str | None,
    filters: Filters | None,
    limit: int,
    timeout: float,
    detail: bool,
    is_strict: bool,
    explain: bool,
) -> list[Any]:
    options = ListApiOptions(
        limit=limit,
        timeout=timeout,
        filters=filters,
        detail=detail,
    )
    return StateApiClient(address=address).list(resource, options, is_strict, explain)


def _get(
    resource: StateResource, id: str, address: str | None, timeout: float, explain: bool
) -> Any:
    return StateApiClient(address=address).get(resource, id, GetApiOptions(timeout), explain)


def _summary(
    resource: SummaryResource, address: str | None, timeout: float, is_strict: bool, explain: bool
) -> dict[str, Any]:
    return StateApiClient(address=address).summary(
        resource,
        options=SummaryApiOptions(timeout=timeout),
        raise_on_missing_output=is_strict,
        _explain=explain,
    )


def list_tasks(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[TaskState]:
    """Calls: those under way, and the latest that ended of each process that still lives.

    ``filters`` are ``(column, "=" or "!=", value)``, text whatever its case; at most ``limit`` rows,
    of 10,000. ``address`` is another cluster's. With ``detail=True`` all columns are filled. Who does
    not answer is waited for 10 seconds, and then raises ``RayStateApiException`` unless
    ``raise_on_missing_output=False``.
    """
    what, strict = StateResource.TASKS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_actors(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ActorState]:
    """The actors, those of the past too. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.ACTORS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_objects(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ObjectState]:
    """References to objects, a row for each process that holds one. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.OBJECTS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_workers(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[WorkerState]:
    """Workers and drivers, the latest that ended too. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.WORKERS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_nodes(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[NodeState]:
    """The nodes, those of the past too. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.NODES, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_jobs(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[JobState]:
    """The jobs, those of the past too. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.JOBS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_placement_groups(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[PlacementGroupState]:
    """The placement groups, those of the past too. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.PLACEMENT_GROUPS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_runtime_envs(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[RuntimeEnvState]:
    """The environments of each node's workers. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.RUNTIME_ENVS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def list_cluster_events(
    address: str | None = None,
    filters: Filters | None = None,
    limit: int = DEFAULT_LIMIT,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    detail: bool = False,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> list[ClusterEventState]:
    """What went wrong: workers that died, nodes that were lost. Parameters as :func:`list_tasks`."""
    what, strict = StateResource.CLUSTER_EVENTS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def get_actor(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> ActorState | None:
    """The actor of that id in detail; ``None``: there is none."""
    found: ActorState | None = _get(StateResource.ACTORS, id, address, timeout, _explain)
    return found


def get_job(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> JobState | None:
    """The job of that id in detail."""
    found: JobState | None = _get(StateResource.JOBS, id, address, timeout, _explain)
    return found


def get_placement_group(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> PlacementGroupState | None:
    """The placement group of that id in detail."""
    found: PlacementGroupState | None = _get(
        StateResource.PLACEMENT_GROUPS, id, address, timeout, _explain
    )
    return found


def get_node(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> NodeState | None:
    """The node of that id in detail."""
    found: NodeState | None = _get(StateResource.NODES, id, address, timeout, _explain)
    return found


def get_worker(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> WorkerState | None:
    """The worker of that id in detail."""
    found: WorkerState | None = _get(StateResource.WORKERS, id, address, timeout, _explain)
    return found


def get_objects(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> list[ObjectState]:
    """Every reference to the object of that id."""
    found: list[ObjectState] = _get(StateResource.OBJECTS, id, address, timeout, _explain)
    return found


def get_task(
    id: str | ObjectRef,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> TaskState | list[TaskState] | None:
    """The call of that id, or that makes that reference, in detail; several attempts are a list."""
    name = id.task_id().hex() if isinstance(id, ObjectRef) else id
    found: TaskState | list[TaskState] | None = _get(
        StateResource.TASKS, name, address, timeout, _explain
    )
    return found


def summarize_tasks(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """How many calls of each function are in which state."""
    what = SummaryResource.TASKS
    return _summary(what, address, timeout, raise_on_missing_output, _explain)


def summarize_actors(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """How many actors of each class are in which state."""
    what = SummaryResource.ACTORS
    return _summary(what, address, timeout, raise_on_missing_output, _explain)


def summarize_objects(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """How many references there are, of which kind, and to how many bytes."""
    what = SummaryResource.OBJECTS
    return _summary(what, address, timeout, raise_on_missing_output, _explain)


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
) -> dict[str, list[str]]:
    """The names of a node's log files by kind (``worker_out``, ``worker_err``, ``raylet``, ...).

    ``address`` is another cluster's: the URL of its head's server, or its address. ``AssertionError``
    unless a node is named; ``RayStateApiException``: there is no such node.
    """
    assert node_ip is not None or node_id is not None, (
        "At least one of node ip and node id is required"
    )
    there = logs_afar.server(address)
    if there is not None:
        return logs_afar.names(there, node_id, node_ip, glob_filter or "*", timeout)
    return logs.names(node_id, node_ip, glob_filter or "*", timeout)


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str | None = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    _interval: float | None = None,
    filter_ansi_code: bool = False,
) -> Iterator[Any]:
    """A log file in parts: that of an actor, a task, a process or a submitted job's driver, or a file by its
    name on a node.

    ``address`` is another cluster's: the URL of its head's server, or its address. ``tail`` are the
    file's last lines, -1: all; ``follow``: what is written from now on too. ``suffix`` is ``out`` or
    ``err``. Parts are bytes with ``encoding=None``. ``ValueError``: it is not said which file;
    ``RayStateApiException``: there is none.
    """
    there = logs_afar.server(address)
    decode = None if encoding is None else (encoding, errors or "strict")
    if there is not None:
        asked = {
            "node_id": node_id,
            "node_ip": node_ip,
            "filename": filename,
            "actor_id": actor_id,
            "task_id": task_id,
            "pid": pid,
            "lines": tail,
            "suffix": suffix,
            "submission_id": submission_id,
            "attempt_number": attempt_number or None,
            "filter_ansi_code": 1 if filter_ansi_code else None,
        }
        return logs_afar.parts(there, asked, follow=follow, timeout=timeout, decode=decode)
    return logs.parts(
        logs.which(
            node_id,
            node_ip,
            filename,
            actor_id,
            task_id,
            pid,
            suffix,
            submission_id,
            attempt_number,
        ),
        follow=follow,
        tail=tail,
        interval=_interval,
        decode=decode,
        without_colours=filter_ansi_code,
    )
