"""The name of the task that this process runs, and the objects that live as long as the task."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from heliostat.data.aliases import Value


T = TypeVar("T")

_index = 0
_execution = 0
_kept: dict[object, Value] = {}
_files: list[str] = []
_left_out: dict[str, None] = {}

FILES_SAID_MAX = 3
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlevel = 2


def index() -> int:
    """The task's number within its operator, from 0, in the order of its inputs.

    It is the same at every attempt and every execution.
    """
    return _index


def execution() -> int:
    """The number of earlier executions of datasets with the same settings."""
    return _execution


def kept(key: object, make: Callable[[], T]) -> T:
    """Return the result of ``make`` when this task first asked for ``key``."""
    if key not in _kept:
        _kept[key] = make()
    found: T = _kept[key]
    return found


def leave_out(names: Iterable[str]) -> None:
    """The plan needs no such columns, so that this task does not read them."""
    _left_out.update(dict.fromkeys(names))


def left_out() -> list[str]:
    """Columns of its files that this task has not read."""
    return list(_left_out)


Place = tuple[int, int] | str | None


def place(at: Place, value: object = None) -> str:
    """The place of this task's rows, in words.

    ``at`` is the first, from 0, and how many; a text stands for itself; None: unknown. Rows are counted
    as they come to the function, after the steps that are before it.
    """
    if isinstance(at, str):
        return at
    rows = "a block"
    if at is not None:
        first, count = at
        rows = f"row {first}" if count == 1 else f"rows {first} to {first + count - 1}"
    said = f"{rows} of task {_index}"
    if _files:
        more = f" and {len(_files) - FILES_SAID_MAX} more" if len(_files) > FILES_SAID_MAX else ""
        said += f" (of {', '.join(_files[:FILES_SAID_MAX])}{more})"
    return said if value is None else f"{said}, {_short.repr(value)}"


def begin(number: int, of_execution: int, files: list[str]) -> None:
    """A task begins in this process."""
    global _index, _execution, _files
    _index, _execution, _files = number, of_execution, files
    _kept.clear()
    _left_out.clear()
