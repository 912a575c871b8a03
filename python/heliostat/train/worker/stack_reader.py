"""The Python stack of a training worker that cannot answer itself, taken by another process of its node.

Processes that the worker has forked, such as those of a data loader, are asked as the worker is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from heliostat.core.platform import processes

# Processes of a worker that are asked.
_MAX_CHILDREN = 16


@dataclass(frozen=True)
class Place:
    """The place at which a worker's stack can be read: its node and its process."""

    node_id: str
    pid: int


def own_place(node_id: str) -> Place:
    """The place at which this worker's stack can be read."""
    return Place(node_id, os.getpid())


def stack_of(place: Place) -> str:
    """On the worker's node: the stack of its training function, and those of processes that it forked.

    In words where there is none: the process is stopped, or gone.
    """
    return of_function(processes.dumped(place.pid)) + stacks_of_children(place)


def stacks_of_children(place: Place) -> str:
    """The stacks of the processes that the worker has forked; "" without any."""
    sharing = [
        one for one in processes.children(place.pid) if processes.shares_stacks(one, place.pid)
    ]
    return "".join(
        f"What its process {child} is doing:\n{of_function(processes.dumped(child))}"
        for child in sharing[:_MAX_CHILDREN]
    )


def of_function(dumped: str) -> str:
    """A stack from the training function on, or from where a process was forked."""
    shown: list[str] = []
    for frame in reversed(dumped.splitlines()):
        # Above are the worker's own calls, or those by which a process was forked.
        if frame.endswith("in _bootstrap") or (
            frame.endswith("in guard") and "control.py" in frame
        ):
            break
        if "/train/torch/timing.py" not in frame.replace("\\", "/"):
            shown.append(frame)
    while shown and "/train/worker/actor.py" in shown[-1].replace("\\", "/"):
        shown.pop()
    return "".join(f"{frame}\n" for frame in reversed(shown))
