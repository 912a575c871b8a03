"""What a dataset looks like when it is printed: nothing is executed for it."""

from __future__ import annotations

from typing import Any

from heliostat.data.dataset.schema import type_name

EDGE = 5  # rows that are shown at the beginning and at the end
ROWS_MAX = 2 * EDGE
CELL_MAX = 24


def text(schema: Any, rows: int | None, first: list[Any] | None, last: list[Any] | None) -> str:
    """A box with columns, types and, if given, rows."""
    names = list(schema.names)
    head = [names, ["---"] * len(names), [type_name(t) for t in schema.types]]
    body = [[_cell(row.get(n)) for n in names] for row in first or []]
    if last:
        body += [["…"] * len(names), *[[_cell(row.get(n)) for n in names] for row in last]]
    widths = [max(len(line[i]) for line in [*head, *body]) for i in range(len(names))]
    shape = f"shape: ({'?' if rows is None else rows}, {len(names)})"
    lines = [shape, _rule(widths, "╭┬╮"), *(_line(line, widths) for line in head)]
    if body:
        lines += [_rule(widths, "╞╪╡", "═"), *(_line(line, widths) for line in body)]
    lines.append(_rule(widths, "╰┴╯"))
    if first is None:
        lines.append("(Dataset isn't materialized)")
    else:
        shown = len(first) + len(last or [])
        lines.append(f"(Showing {shown} of {rows} rows)")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    said = f"array{value.shape}" if hasattr(value, "shape") and value.shape else str(value)
    said = said.replace("\n", " ")
    return said if len(said) <= CELL_MAX else said[: CELL_MAX - 1] + "…"


def _rule(widths: list[int], ends: str, fill: str = "─") -> str:
    left, middle, right = tuple(ends)
    return left + middle.join(fill * (w + 2) for w in widths) + right


def _line(cells: list[str], widths: list[int]) -> str:
    return "│ " + " ┆ ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " │"
