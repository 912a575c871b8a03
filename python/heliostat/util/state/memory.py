"""The holders of references to each object, as text: ``heliostat memory``, and ``memory_summary``
for programs.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import heliostat
from heliostat.core.platform import settings
from heliostat.util.commands import table, terminal_width
from heliostat.util.state import list_objects
from heliostat.util.state.common import ObjectState
from heliostat.util.state.exception import RayStateApiException

__all__ = ["memory_summary"]

_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
_GROUPS = {"NODE_ADDRESS": "ip", "STACK_TRACE": "call_site"}
_ORDERS = {"OBJECT_SIZE": "object_size", "PID": "pid", "REFERENCE_TYPE": "reference_type"}
_COLUMNS = ("ip", "pid", "type", "call_site", "task_status", "size", "reference_type", "object_id")
_ROWS_MAX = 10_000
_NO_SITE = "disabled"


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
    return _summary(address, group_by, sort_by, units, stats_only, num_entries, None)


def _summary(
    address: str | None,
    group_by: str,
    sort_by: str,
    units: str,
    stats_only: bool,
    num_entries: int | None,
    width: int | None,
) -> str:
    """:func:`memory_summary`; ``width``: of the terminal that the lines are to fit into."""
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
        return f"Total: {total}\n"
    groups: dict[str, list[ObjectState]] = defaultdict(list)
    for row in objects:
        groups[str(getattr(row, group))].append(row)
    # Without RAY_record_ref_creation_sites nobody knows the places.
    has_sites = any(row.call_site != _NO_SITE for row in objects)
    columns = [name for name in _COLUMNS if has_sites or name != "call_site"]
    if width is not None:  # what the lines of a group have in common stands above them
        columns = [name for name in columns if name != group]
    heads = [name.replace("_", " ") for name in columns]
    numbers = [columns.index(name) for name in ("pid", "size")]
    longest = [i for i, name in enumerate(columns) if name in ("call_site", "object_id")]
    lines: list[str] = []
    for name, rows in sorted(groups.items()):
        # The largest come first, anything else in the order of the alphabet.
        rows.sort(key=lambda row: getattr(row, order) or 0, reverse=order == "object_size")
        held = sum({row.object_id: _size(row) for row in rows}.values())
        lines.append(f"--- {name}: {len(rows)} references, {_text(held, unit, units)} ---")
        cells = [heads, *(_cells(row, unit, units, columns) for row in rows[:num_entries])]
        lines += table(cells, width, longest, numbers)
        lines.append("")
    if any("…" in line for line in lines):
        lines += ["Cut to the terminal's width; --wide shows lines whole.", ""]
    if width is not None and objects and not has_sites:
        note = (
            "Where references are made is not recorded: RAY_record_ref_creation_sites=1 in the"
            " environment of `start` and of drivers turns it on."
        )
        lines += [*textwrap.wrap(note, width), ""]
    return "\n".join([*lines, f"Total: {total}", ""])


def _word(parameter: str, given: str, known: dict[str, Any]) -> Any:
    if given not in known:
        raise ValueError(f"{parameter} must be one of {list(known)}, got {given!r}")
    return known[given]


def _size(row: ObjectState) -> int:
    return max(row.object_size or 0, 0)  # an object that is not there yet has none


def _text(count: int, unit: int, units: str) -> str:
    return f"{count} B" if unit == 1 else f"{count / unit:.2f} {units}"


def _cells(row: ObjectState, unit: int, units: str, columns: list[str]) -> list[str]:
    size = _text(row.object_size, unit, units) if (row.object_size or -1) >= 0 else "?"
    return [size if name == "size" else str(getattr(row, name, None)) for name in columns]


def main(arguments: Sequence[str], program: str) -> int:
    """Print what is asked for; the exit code."""
    parser = argparse.ArgumentParser(
        prog=f"{program} memory",
        description="Print which process holds references to which objects, and how large they are.",
        epilog="Processes with RAY_record_ref_creation_sites=1 note where references are made.",
    )
    parser.add_argument(
        "--address",
        help="of the cluster's head [default: $RAY_ADDRESS, else the cluster of this machine]",
    )
    parser.add_argument("--group-by", choices=list(_GROUPS), default="NODE_ADDRESS")
    parser.add_argument("--sort-by", choices=list(_ORDERS), default="OBJECT_SIZE")
    parser.add_argument("--units", choices=list(_UNITS), default="B", help="of sizes")
    parser.add_argument(
        "--wide",
        "--no-format",
        action="store_true",
        help="show lines whole, however narrow the terminal is; elsewhere they always are",
    )
    parser.add_argument("--stats-only", action="store_true", help="print the total alone")
    parser.add_argument(
        "--num-entries", "--n", type=int, metavar="N", help="at most so many lines of each group"
    )
    options = parser.parse_args(arguments)
    try:
        text = _summary(
            options.address or settings.text("ADDRESS") or "auto",
            options.group_by,
            options.sort_by,
            options.units,
            options.stats_only,
            options.num_entries,
            None if options.wide else terminal_width(),
        )
    except (ConnectionError, RayStateApiException) as error:
        print(error, file=sys.stderr)
        return 1
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], sys.argv[1]))
