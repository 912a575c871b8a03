"""What the task that this process runs is called by, and what lives as long as it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_index = 0
_execution = 0
_kept: dict[Any, Any] = {}


def index() -> int:
    """The task's number within its operator, from 0, in the order of its inputs.

    It is the same at every attempt and every execution.
    """
    return _index


def execution() -> int:
    """How often datasets with the same settings were executed before, from 0."""
    return _execution


def kept(key: Any, make: Callable[[], Any]) -> Any:
    """What ``make`` gave when this task first asked for ``key``."""
    if key not in _kept:
        _kept[key] = make()
    return _kept[key]


def begin(number: int, of_execution: int) -> None:
    """A task begins in this process."""
    global _index, _execution
    _index, _execution = number, of_execution
    _kept.clear()
