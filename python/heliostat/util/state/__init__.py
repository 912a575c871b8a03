"""What is in the cluster: tasks, objects, workers, actors, nodes, jobs, placement groups."""

from __future__ import annotations

from heliostat.util.state.api import (
    get_actor,
    get_job,
    get_node,
    get_objects,
    get_placement_group,
    get_task,
    get_worker,
    list_actors,
    list_jobs,
    list_nodes,
    list_objects,
    list_placement_groups,
    list_runtime_envs,
    list_tasks,
    list_workers,
    summarize_actors,
    summarize_objects,
    summarize_tasks,
)
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

__all__ = [
    "ActorState",
    "JobState",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "RayStateApiException",
    "TaskState",
    "WorkerState",
    "get_actor",
    "get_job",
    "get_node",
    "get_objects",
    "get_placement_group",
    "get_task",
    "get_worker",
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
