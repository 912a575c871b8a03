"""The state of the cluster, asked for when it is needed: nothing is recorded beforehand.

Tasks and objects are told by the processes that own them, workers by the nodes' daemons, the rest by
the control service. Of tasks that have ended each process remembers the latest 10,000; when it ends, a
node's daemon keeps 1,000 of them, and of one that was killed the processes that ran its tasks tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from heliostat._heliostat import ObjectRef
from heliostat.util.state import logs, logs_afar
from heliostat.util.state.client import Filters, StateApiClient
from heliostat.util.state.common import (
    DEFAULT_LIMIT,
    DEFAULT_RPC_TIMEOUT,
    ActorState,
    ClusterEventState,
    GetApiOptions,
    JobState,
    ListApiOptions,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    StateResource,
    SummaryApiOptions,
    SummaryResource,
    TaskState,
    WorkerState,
)


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
    """List calls: those under way, and the latest that ended of each process that still lives.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each attempt.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_tasks
        >>> @ray.remote
        ... def f():
        ...     return 1
        >>> ref = f.options(name="one").remote()
        >>> ray.get(ref)
        1
        >>> [row.name for row in list_tasks(filters=[("name", "=", "one")])]
        ['one']
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
    """List actors, those of the past too.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_actors
        >>> @ray.remote
        ... class Waiter:
        ...     pass
        >>> waiter = Waiter.options(name="waiter").remote()
        >>> ray.get(waiter.__ray_ready__.remote())
        True
        >>> [actor.class_name for actor in list_actors(filters=[("name", "=", "waiter")])]
        ['Waiter']
    """
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
    """List references to objects.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each process that holds one.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_objects
        >>> ref = ray.put(bytes(10**6))
        >>> [row.object_size >= 10**6 for row in list_objects(filters=[("object_id", "=", ref.hex())])]
        [True]
    """
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
    """List workers and drivers, the latest that ended too.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> from ray.util.state import list_workers
        >>> [row.worker_type for row in list_workers(filters=[("worker_type", "=", "DRIVER")])][:1]
        ['DRIVER']
    """
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
    """List nodes, those of the past too.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_nodes
        >>> [row.state for row in list_nodes()]
        ['ALIVE']
    """
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
    """List jobs, those of the past too.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> from ray.util.state import list_jobs
        >>> "RUNNING" in [row.status for row in list_jobs()]
        True
    """
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
    """List placement groups, those of the past too.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> from ray.util import placement_group, remove_placement_group
        >>> from ray.util.state import list_placement_groups
        >>> group = placement_group([{"CPU": 1}], name="listed")
        >>> group.wait(60)
        True
        >>> [row.state for row in list_placement_groups(filters=[("name", "=", "listed")])]
        ['CREATED']
        >>> remove_placement_group(group)
    """
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
    """List the environments of each node's workers.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_runtime_envs
        >>> @ray.remote(runtime_env={"env_vars": {"LEVEL": "3"}})
        ... def work():
        ...     return "done"
        >>> ray.get(work.remote())
        'done'
        >>> any("LEVEL" in str(row.runtime_env) for row in list_runtime_envs())
        True
    """
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
    """List what went wrong: workers that died, nodes that were lost.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        filters: ``(column, "=" or "!=", value)`` of each; texts match whatever their case. Default: all
            rows.
        limit: How many rows at most, up to 10,000. Default 100.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        detail: Fill all columns. Default False.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        A row for each.

    Raises:
        RayStateApiException: As of :meth:`StateApiClient.list`.

    Examples:
        >>> from ray.util.state import list_cluster_events
        >>> errors = list_cluster_events(filters=[("severity", "=", "ERROR")])
        >>> all(event.message for event in errors)  # a sentence each
        True
    """
    what, strict = StateResource.CLUSTER_EVENTS, raise_on_missing_output
    return _list(what, address, filters, limit, timeout, detail, strict, _explain)


def get_actor(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> ActorState | None:
    """Give the actor of that id in detail.

    Args:
        id: The id, as hexadecimal digits.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        The row; ``None``: there is none.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_actor
        >>> @ray.remote
        ... class Counter:
        ...     def id(self):
        ...         return ray.get_runtime_context().get_actor_id()
        >>> counter = Counter.remote()
        >>> get_actor(ray.get(counter.id.remote())).state
        'ALIVE'
    """
    found: ActorState | None = _get(StateResource.ACTORS, id, address, timeout, _explain)
    return found


def get_job(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> JobState | None:
    """Give the job of that id in detail.

    Args:
        id: The job's id or its submission id.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        The row; ``None``: there is none.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_job
        >>> get_job(ray.get_runtime_context().get_job_id()).status
        'RUNNING'
    """
    found: JobState | None = _get(StateResource.JOBS, id, address, timeout, _explain)
    return found


def get_placement_group(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> PlacementGroupState | None:
    """Give the placement group of that id in detail.

    Args:
        id: The id, as hexadecimal digits.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        The row; ``None``: there is none.

    Examples:
        >>> from ray.util import get_placement_group, placement_group, remove_placement_group
        >>> group = placement_group([{"CPU": 1}], name="single")
        >>> group.wait(60)
        True
        >>> get_placement_group("single").id == group.id
        True
        >>> remove_placement_group(group)
    """
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
    """Give the node of that id in detail.

    Args:
        id: The id, as hexadecimal digits.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        The row; ``None``: there is none.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_node
        >>> get_node(ray.get_runtime_context().get_node_id()).state
        'ALIVE'
    """
    found: NodeState | None = _get(StateResource.NODES, id, address, timeout, _explain)
    return found


def get_worker(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> WorkerState | None:
    """Give the worker of that id in detail.

    Args:
        id: The id, as hexadecimal digits.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        The row; ``None``: there is none.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_worker
        >>> get_worker(ray.get_runtime_context().get_worker_id()).worker_type
        'DRIVER'
    """
    found: WorkerState | None = _get(StateResource.WORKERS, id, address, timeout, _explain)
    return found


def get_objects(
    id: str,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> list[ObjectState]:
    """Give every reference to the object of that id.

    Args:
        id: The id, as hexadecimal digits.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        A row for each process that holds one.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_objects
        >>> ref = ray.put(bytes(10**6))
        >>> [row.object_id == ref.hex() for row in get_objects(ref.hex())]
        [True]
    """
    found: list[ObjectState] = _get(StateResource.OBJECTS, id, address, timeout, _explain)
    return found


def get_task(
    id: str | ObjectRef,
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    _explain: bool = False,
) -> TaskState | list[TaskState] | None:
    """Give the call of that id, or the one that makes an object, in detail.

    Args:
        id: The call's id, as hexadecimal digits, or the reference that it returned.
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.

    Returns:
        The row; ``None``: there is none; a list where there are several attempts.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_task
        >>> @ray.remote
        ... def work():
        ...     return 1
        >>> ref = work.remote()
        >>> ray.get(ref)
        1
        >>> get_task(ref).name
        'work'
    """
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
    """Count the calls of each function by state.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        The counts, below ``"cluster"``.

    Examples:
        >>> import ray
        >>> from ray.util.state import summarize_tasks
        >>> @ray.remote
        ... def work():
        ...     return 1
        >>> ray.get(work.remote())
        1
        >>> "work" in str(summarize_tasks())
        True
    """
    what = SummaryResource.TASKS
    return _summary(what, address, timeout, raise_on_missing_output, _explain)


def summarize_actors(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Count the actors of each class by state.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        The counts, below ``"cluster"``.

    Examples:
        >>> import ray
        >>> from ray.util.state import summarize_actors
        >>> @ray.remote
        ... class Summarized:
        ...     pass
        >>> actor = Summarized.remote()
        >>> ray.get(actor.__ray_ready__.remote())
        True
        >>> "Summarized" in str(summarize_actors())
        True
    """
    what = SummaryResource.ACTORS
    return _summary(what, address, timeout, raise_on_missing_output, _explain)


def summarize_objects(
    address: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
    raise_on_missing_output: bool = True,
    _explain: bool = False,
) -> dict[str, Any]:
    """Count references by kind, and the bytes of their objects.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        timeout: Is checked and not used: who does not answer is waited for 10 seconds.
        raise_on_missing_output: Raise when a part of the cluster does not answer. Default True.

    Returns:
        The counts, below ``"cluster"``.

    Examples:
        >>> import ray
        >>> from ray.util.state import summarize_objects
        >>> ref = ray.put(bytes(10**6))
        >>> "cluster" in summarize_objects()
        True
    """
    what = SummaryResource.OBJECTS
    return _summary(what, address, timeout, raise_on_missing_output, _explain)


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: int = DEFAULT_RPC_TIMEOUT,
) -> dict[str, list[str]]:
    """List a node's log files.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        node_id: The node's id, as hexadecimal digits; or ``node_ip``.
        node_ip: The node's address.
        glob_filter: A pattern of names, such as ``"worker*"``. Default: all.
        timeout: Seconds that the node has to answer. Default 30.

    Returns:
        Their names by kind: ``worker_out``, ``worker_err``, ``raylet``, ...

    Raises:
        AssertionError: No node is named.
        RayStateApiException: There is no such node.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_logs
        >>> node = ray.get_runtime_context().get_node_id()
        >>> names = list_logs(node_id=node, glob_filter="worker*")
        >>> set(names) <= {"worker_out", "worker_err"}
        True
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
    """Read a log file: that of an actor, a task, a process, a submitted job's driver, or a file by its name.

    Args:
        address: The cluster: its ``host:port``, or the URL of its head's server. Default: this
            process's.
        node_id: The node's id, for ``filename`` and ``pid``.
        node_ip: The node's address, likewise.
        filename: The file's name on the node.
        actor_id: The actor whose log is meant, as hexadecimal digits.
        task_id: The task, likewise.
        pid: The process on the node.
        follow: Give what is written from now on, too. Default False.
        tail: How many of the file's last lines; -1: all. Default -1.
        timeout: Seconds that a server of another cluster has to answer. Default 30.
        suffix: ``"out"`` (the default) or ``"err"``.
        encoding: How bytes become text. Default ``"utf-8"``; ``None``: parts are bytes.
        errors: What is done with bytes that are not text, as of ``bytes.decode``. Default ``"strict"``.
        submission_id: The job whose driver's log is meant.
        attempt_number: The task's attempt, from 0. Default 0.
        filter_ansi_code: Leave colours out. Default False.

    Returns:
        The parts of the file.

    Raises:
        ValueError: It is not said which file.
        RayStateApiException: There is no such file.

    Examples:
        >>> import ray
        >>> from ray.util.state import get_log, list_logs
        >>> node = ray.get_runtime_context().get_node_id()
        >>> name = list_logs(node_id=node)["raylet"][0]
        >>> lines = "".join(get_log(node_id=node, filename=name, tail=2)).splitlines()
        >>> len(lines) <= 2
        True
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
