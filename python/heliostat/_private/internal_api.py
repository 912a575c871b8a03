"""``ray._private.internal_api``: who holds references to what, as text.

``free`` is not here, as it is no more in Ray 2.60: an object's memory is free when nobody refers to it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NoReturn

import heliostat
from heliostat._private import missing
from heliostat.util.state import list_objects
from heliostat.util.state.common import ObjectState

__all__ = ["memory_summary"]

_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
_GROUPS = {"NODE_ADDRESS": "ip", "STACK_TRACE": "call_site"}
_ORDERS = {"OBJECT_SIZE": "object_size", "PID": "pid", "REFERENCE_TYPE": "reference_type"}
_COLUMNS = ("ip", "pid", "type", "call_site", "task_status", "size", "reference_type", "object_id")
_ROWS_MAX = 10_000


def memory_summary(
    address: str | None = None,
    group_by: str = "NODE_ADDRESS",
    sort_by: str = "OBJECT_SIZE",
    units: str = "B",
    line_wrap: bool = True,
    stats_only: bool = False,
    num_entries: int | None = None,
) -> str:
    """The references that processes of the cluster hold, a line each, and how much that is together.

    ``address``: another cluster than this process's. ``group_by``: ``NODE_ADDRESS`` or ``STACK_TRACE``.
    ``sort_by``: ``OBJECT_SIZE``, ``PID`` or ``REFERENCE_TYPE``. ``units``: ``B``, ``KB``, ``MB`` or
    ``GB``. ``stats_only``: the last line alone. ``num_entries``: at most so many lines of each group.
    ``line_wrap`` does nothing: lines are not wrapped. ``ValueError`` for other words.
    """
    if address is None and not heliostat.is_initialized():
        address = "auto"
    group, order = _word("group_by", group_by, _GROUPS), _word("sort_by", sort_by, _ORDERS)
    unit = _word("units", units, _UNITS)
    objects: list[ObjectState] = list_objects(
        address, limit=_ROWS_MAX, raise_on_missing_output=False
    )
    sizes = {row.object_id: _size(row) for row in objects}
    total = f"{len(sizes)} objects, {_text(sum(sizes.values()), unit, units)}"
    if stats_only:
        return f"Together: {total}\n"
    groups: dict[str, list[ObjectState]] = defaultdict(list)
    for row in objects:
        groups[str(getattr(row, group))].append(row)
    lines: list[str] = []
    for name, rows in sorted(groups.items()):
        # The largest come first, anything else in the order of the alphabet.
        rows.sort(key=lambda row: getattr(row, order) or 0, reverse=order == "object_size")
        held = sum({row.object_id: _size(row) for row in rows}.values())
        lines.append(f"--- {name}: {len(rows)} references, {_text(held, unit, units)} ---")
        lines += _table([_cells(row, unit, units) for row in rows[:num_entries]])
        lines.append("")
    return "\n".join([*lines, f"Together: {total}", ""])


def _word(parameter: str, given: str, known: dict[str, Any]) -> Any:
    if given not in known:
        raise ValueError(f"{parameter} must be one of {list(known)}, got {given!r}")
    return known[given]


def _size(row: ObjectState) -> int:
    return max(row.object_size or 0, 0)  # an object that is not there yet has none


def _text(count: int, unit: int, units: str) -> str:
    return f"{count} B" if unit == 1 else f"{count / unit:.2f} {units}"


def _cells(row: ObjectState, unit: int, units: str) -> list[str]:
    size = _text(row.object_size, unit, units) if (row.object_size or -1) >= 0 else "?"
    fields = {**{name: getattr(row, name, None) for name in _COLUMNS}, "size": size}
    return [str(fields[name]) for name in _COLUMNS]


def _table(rows: list[list[str]]) -> list[str]:
    heads = [name.replace("_", " ") for name in _COLUMNS]
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [heads, *rows]
    ]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.internal_api.{name}"))
