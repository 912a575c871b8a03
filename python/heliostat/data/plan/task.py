"""The number of the task that this process runs: the same at every attempt and every execution."""

from __future__ import annotations

_index = 0


def index() -> int:
    """The task's number within its operator, from 0, in the order of its inputs."""
    return _index


def begin(number: int) -> None:
    """A task begins in this process."""
    global _index
    _index = number
