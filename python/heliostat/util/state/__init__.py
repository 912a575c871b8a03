"""What is in the cluster: nodes, actors, jobs."""

from __future__ import annotations

from heliostat.util.state.api import (
    get_actor,
    get_job,
    get_node,
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
from heliostat.util.state.common import ActorState, JobState, NodeState
from heliostat.util.state.exception import RayStateApiException

__all__ = [
    "ActorState",
    "JobState",
    "NodeState",
    "RayStateApiException",
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
