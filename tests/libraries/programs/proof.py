"""What the programs print for the tests: that results are the same, and that the cluster made them."""

from __future__ import annotations

import ray
from ray.util.state import list_actors, list_tasks


def ran() -> set[str]:
    """The names of the tasks and actor classes that ran, or run, on the cluster of this driver."""
    tasks = {task.name for task in list_tasks(limit=10_000)}
    return tasks | {actor.class_name for actor in list_actors()}


def on_the_cluster(*names: str) -> None:
    """These tasks or actors ran there."""
    assert ray.is_initialized()
    found = ran()
    for name in names:
        assert any(name in one for one in found), f"no {name} among {sorted(found)}"
    print("cluster=yes")
