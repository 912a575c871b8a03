"""Rows of the state API.

Written by `cargo xtask rows` from crates/helio-report/src/columns.rs; do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from heliostat.util.state.schema import (
    DETAIL,
    DETAIL_EVENTS,
    DETAIL_FILTER,
    DETAIL_TIME,
    FILTER,
    SHOWN,
    SHOWN_RESOURCES,
    SHOWN_TIME,
    JobSchema,
    StateSchema,
)


@dataclass
class ActorState(StateSchema):
    """An actor.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_actors
        >>> @ray.remote(num_cpus=0)
        ... class Waiter:
        ...     pass
        >>> waiter = Waiter.options(name="of a row").remote()
        >>> ray.get(waiter.__ray_ready__.remote())
        True
        >>> [actor.state for actor in list_actors(filters=[("name", "=", "of a row")])]
        ['ALIVE']
    """

    actor_id: str = field(metadata=FILTER)
    class_name: str = field(metadata=FILTER)
    state: str = field(metadata=FILTER)
    job_id: str = field(metadata=FILTER)
    name: str | None = field(metadata=FILTER)
    node_id: str | None = field(metadata=FILTER)
    pid: int | None = field(metadata=FILTER)
    ray_namespace: str | None = field(metadata=FILTER)
    serialized_runtime_env: str | None = field(default=None, metadata=DETAIL)
    required_resources: dict[str, float] | None = field(default=None, metadata=DETAIL)
    death_cause: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    is_detached: bool | None = field(default=None, metadata=DETAIL)
    placement_group_id: str | None = field(default=None, metadata=DETAIL_FILTER)
    repr_name: str | None = field(default=None, metadata=DETAIL_FILTER)
    num_restarts: int | None = field(default=None, metadata=DETAIL)
    num_restarts_due_to_lineage_reconstruction: int | None = field(default=None, metadata=DETAIL)
    num_restarts_due_to_node_preemption: int | None = field(default=None, metadata=DETAIL)
    call_site: str | None = field(default=None, metadata=DETAIL)
    label_selector: dict[str, str] | None = field(default=None, metadata=DETAIL)
    fallback_strategy: Any = field(default=None, metadata=DETAIL)
    why: str | None = field(default=None, metadata=DETAIL)
    creation_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    end_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)


@dataclass
class PlacementGroupState(StateSchema):
    """A placement group.

    Examples:
        >>> from ray.util import placement_group, remove_placement_group
        >>> from ray.util.state import list_placement_groups
        >>> group = placement_group([{"CPU": 0.5}], name="of a row")
        >>> group.wait(timeout_seconds=60)
        True
        >>> [row.state for row in list_placement_groups(filters=[("name", "=", "of a row")])]
        ['CREATED']
        >>> remove_placement_group(group)
    """

    placement_group_id: str = field(metadata=FILTER)
    name: str = field(metadata=FILTER)
    creator_job_id: str = field(metadata=FILTER)
    state: str = field(metadata=FILTER)
    bundles: list[dict[str, Any]] | None = field(default=None, metadata=DETAIL)
    is_detached: bool | None = field(default=None, metadata=DETAIL_FILTER)
    stats: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    topology_strategy: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    topology_assignments: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    why: str | None = field(default=None, metadata=DETAIL)
    creation_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)


@dataclass
class NodeState(StateSchema):
    """A node.

    Examples:
        >>> from ray.util.state import list_nodes
        >>> node = list_nodes()[0]
        >>> node.state, node.is_head_node, node["state"]
        ('ALIVE', True, 'ALIVE')
    """

    node_id: str = field(metadata=FILTER)
    node_ip: str = field(metadata=FILTER)
    is_head_node: bool = field(metadata=FILTER)
    state: str = field(metadata=FILTER)
    state_message: str | None = field(metadata=SHOWN)
    node_name: str = field(metadata=FILTER)
    resources_total: dict[str, Any] = field(metadata=SHOWN_RESOURCES)
    labels: dict[str, str] = field(metadata=SHOWN)
    start_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    end_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)


@dataclass(kw_only=True)
class JobState(JobSchema):
    """A job.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_jobs
        >>> me = ray.get_runtime_context().get_job_id()
        >>> [job.status for job in list_jobs() if job.job_id == me]
        ['RUNNING']
    """

    job_id: str | None = field(default=None, metadata=FILTER)
    submission_id: str | None = field(default=None, metadata=FILTER)
    entrypoint: str = field(metadata=SHOWN)
    type: str = field(metadata=FILTER)
    status: str = field(metadata=FILTER)
    message: str | None = field(default=None, metadata=SHOWN)
    error_type: str | None = field(default=None, metadata=SHOWN)
    driver_info: Any = field(default=None, metadata=SHOWN)
    start_time: int | None = field(default=None, metadata=DETAIL)
    end_time: int | None = field(default=None, metadata=DETAIL)
    metadata: dict[str, str] | None = field(default=None, metadata=DETAIL)
    runtime_env: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    driver_agent_http_address: str | None = field(default=None, metadata=DETAIL)
    driver_node_id: str | None = field(default=None, metadata=DETAIL)
    driver_exit_code: int | None = field(default=None, metadata=DETAIL)


@dataclass
class WorkerState(StateSchema):
    """A process that runs or ran tasks or a driver.

    Examples:
        >>> import os
        >>> from ray.util.state import list_workers
        >>> [worker.worker_type for worker in list_workers() if worker.pid == os.getpid()]
        ['DRIVER']
    """

    worker_id: str = field(metadata=FILTER)
    is_alive: bool = field(metadata=FILTER)
    worker_type: str = field(metadata=FILTER)
    exit_type: str | None = field(metadata=FILTER)
    node_id: str = field(metadata=FILTER)
    ip: str = field(metadata=FILTER)
    pid: int = field(metadata=FILTER)
    exit_detail: str | None = field(default=None, metadata=DETAIL)
    worker_launch_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    worker_launched_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    start_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    end_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    debugger_port: int | None = field(default=None, metadata=DETAIL_FILTER)
    num_paused_threads: int | None = field(default=None, metadata=DETAIL_FILTER)
    job_id: str | None = field(default=None, metadata=DETAIL)
    usage: str | None = field(default=None, metadata=DETAIL)
    required_resources: dict[str, float] | None = field(default=None, metadata=DETAIL)
    runtime_env: str | None = field(default=None, metadata=DETAIL)


@dataclass
class ClusterEventState(StateSchema):
    """Something that went wrong in the cluster.

    Examples:
        >>> from ray.util.state import list_cluster_events
        >>> errors = [event.message for event in list_cluster_events() if event.severity == "ERROR"]
    """

    severity: str = field(metadata=FILTER)
    time: str = field(metadata=SHOWN)
    source_type: str = field(metadata=FILTER)
    message: str = field(metadata=SHOWN)
    event_id: str = field(metadata=FILTER)
    custom_fields: dict[str, Any] | None = field(default=None, metadata=DETAIL)


@dataclass
class TaskState(StateSchema):
    """A call.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_tasks
        >>> @ray.remote
        ... def work():
        ...     pass
        >>> ray.get(work.options(name="of a row").remote())
        >>> [(task.type, task.state) for task in list_tasks(filters=[("name", "=", "of a row")])]
        [('NORMAL_TASK', 'FINISHED')]
    """

    task_id: str = field(metadata=FILTER)
    attempt_number: int = field(metadata=FILTER)
    name: str = field(metadata=FILTER)
    state: str = field(metadata=FILTER)
    job_id: str = field(metadata=FILTER)
    actor_id: str | None = field(metadata=FILTER)
    type: str = field(metadata=FILTER)
    func_or_class_name: str = field(metadata=FILTER)
    parent_task_id: str | None = field(metadata=FILTER)
    node_id: str | None = field(metadata=FILTER)
    worker_id: str | None = field(metadata=FILTER)
    worker_pid: int | None = field(metadata=FILTER)
    error_type: str | None = field(metadata=FILTER)
    language: str | None = field(default=None, metadata=DETAIL_FILTER)
    required_resources: dict[str, float] | None = field(default=None, metadata=DETAIL)
    runtime_env_info: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    placement_group_id: str | None = field(default=None, metadata=DETAIL_FILTER)
    events: list[dict[str, Any]] | None = field(default=None, metadata=DETAIL_EVENTS)
    profiling_data: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    creation_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    start_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    end_time_ms: int | None = field(default=None, metadata=DETAIL_TIME)
    task_log_info: dict[str, Any] | None = field(default=None, metadata=DETAIL)
    error_message: str | None = field(default=None, metadata=DETAIL)
    is_debugger_paused: bool | None = field(default=None, metadata=DETAIL_FILTER)
    call_site: str | None = field(default=None, metadata=DETAIL)
    label_selector: dict[str, str] | None = field(default=None, metadata=DETAIL)
    fallback_strategy: Any = field(default=None, metadata=DETAIL)
    why: str | None = field(default=None, metadata=DETAIL)


@dataclass
class ObjectState(StateSchema):
    """A reference that a process holds to an object.

    Examples:
        >>> import os
        >>> import ray
        >>> from ray.util.state import list_objects
        >>> ref = ray.put(bytes(10**6))
        >>> rows = list_objects(filters=[("object_id", "=", ref.hex())])
        >>> [row.object_size >= 10**6 for row in rows if row.pid == os.getpid()]
        [True]
    """

    object_id: str = field(metadata=FILTER)
    object_size: int = field(metadata=FILTER)
    task_status: str = field(metadata=FILTER)
    attempt_number: int = field(metadata=FILTER)
    reference_type: str = field(metadata=FILTER)
    call_site: str = field(metadata=FILTER)
    type: str = field(metadata=FILTER)
    pid: int = field(metadata=FILTER)
    ip: str = field(metadata=FILTER)


@dataclass
class RuntimeEnvState(StateSchema):
    """A runtime environment on a node.

    Examples:
        >>> import ray
        >>> from ray.util.state import list_runtime_envs
        >>> failed = [env.error for env in list_runtime_envs() if not env.success]
    """

    runtime_env: dict[str, Any] = field(metadata=FILTER)
    success: bool = field(metadata=FILTER)
    creation_time_ms: float | None = field(metadata=SHOWN_TIME)
    node_id: str = field(metadata=FILTER)
    ref_cnt: int | None = field(default=None, metadata=DETAIL)
    error: str | None = field(default=None, metadata=DETAIL_FILTER)
    starts: int | None = field(default=None, metadata=DETAIL)
    size: int | None = field(default=None, metadata=DETAIL)
