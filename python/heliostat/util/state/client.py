"""The client of the state API: rows and counts of one cluster, filtered."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

from heliostat.core.platform.version import RAY_VERSION
from heliostat.util.state import ask
from heliostat.util.state.common import (
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
    """Asks one cluster for its rows.

    Args:
        address: The cluster. Default: this process's, else the one that is found.
        cookies: Has no effect: no web server is asked.
        headers: Has no effect, likewise.

    Examples:
        >>> from ray.util.state.client import StateApiClient
        >>> from ray.util.state.common import ListApiOptions, StateResource
        >>> rows = StateApiClient().list(
        ...     StateResource.NODES, ListApiOptions(limit=10), raise_on_missing_output=True
        ... )
        >>> [row.state for row in rows]
        ['ALIVE']
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
        """Give the row of that id in detail.

        Args:
            resource: What is asked for.
            id: The id, as hexadecimal digits.
            options: How it is asked for.

        Returns:
            The row, ``None`` if there is none; for objects, and tasks with several attempts, a list.

        Raises:
            ValueError: Such rows have no id.
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
        """Give the rows for which all filters hold.

        Args:
            resource: What is asked for.
            options: How it is asked for.
            raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

        Returns:
            The rows.

        Raises:
            RayStateApiException: Rows cannot be filtered by a column; the limit is negative or above
                10,000; a part of the cluster did not answer, and ``raise_on_missing_output``.
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
        """Counts of rows, by function, class or place of creation.

        Args:
            resource: What is asked for.
            options: How it is asked for.
            raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

        Returns:
            The counts, below ``"cluster"``.

        Raises:
            RayStateApiException: A part of the cluster did not answer, and ``raise_on_missing_output``.
        """
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
        raise RayStateApiException(
            f"{id!r} is not a valid {column}: it is not hexadecimal."
        ) from None
    if len(id) != digits:
        raise RayStateApiException(
            f"{id!r} is not a valid {column}: it has {len(id)} hexadecimal digits, not {digits}."
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
