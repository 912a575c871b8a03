"""The text of a dataset that is printed: nothing is executed for it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from heliostat.data.dataset.schema import type_name
from heliostat.data.plan import analysis
from heliostat.data.plan.operators import Exchange, Limit, Operator

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Row


EDGE = 5  # rows that are shown at the beginning and at the end
ROWS_MAX = 2 * EDGE
CELL_MAX = 40


def text(
    schema: pa.Schema, rows: int | None, first: list[Row] | None, last: list[Row] | None
) -> str:
    """A box with columns, types and, if given, rows."""
    names = list(schema.names)
    kinds = [_short(type_name(t)) for t in schema.types]
    head = [[_short(n) for n in names], ["---"] * len(names), kinds]
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


def table(title: str, schema: pa.Schema, rows: int | None, shown: list[Row]) -> str:
    """The preview for notebooks: a table of HTML."""
    columns = zip(schema.names, schema.types, strict=True)
    head = "".join(
        f"<th>{escape(n)}<br><small>{escape(type_name(t))}</small></th>" for n, t in columns
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(row.get(n)))}</td>" for n in schema.names) + "</tr>"
        for row in shown
    )
    count = "an unknown number of" if rows is None else rows
    said = f"showing {len(shown)}" if shown else "not materialized"
    return (
        f"<table><caption>{title}: {count} rows, {said}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def chain(plan: Operator, name: str | None) -> str:
    """The operators of a plan whose columns are not known, the last one first, down to its source."""
    steps = []
    at, branches = plan, False
    while at.inputs:
        steps.append(_step(at))
        branches = branches or len(at.inputs) > 1
        at = at.inputs[0]
    schema, rows = (None, None) if branches else (analysis.schema(at), analysis.rows(at))
    lines = [*steps, _source(schema, rows, name)]
    return "\n".join(
        f"{'   ' * (depth - 1)}+- {line}" if depth else line for depth, line in enumerate(lines)
    )


def _source(schema: pa.Schema, rows: int | None, name: str | None) -> str:
    columns = "Unknown schema"
    if schema is not None and len(schema):
        pairs = zip(schema.names, schema.types, strict=True)
        columns = "{" + ", ".join(f"{n}: {type_name(t)}" for n, t in pairs) + "}"
    begin = f"name={name}, " if name else ""
    return f"Dataset({begin}num_rows={'?' if rows is None else rows}, schema={columns})"


def _step(operator: Operator) -> str:
    if isinstance(operator, Limit):
        return f"limit={operator.rows}"
    if not isinstance(operator, Exchange):
        return operator.name
    return "Join" if operator.name.startswith("Join(") else operator.name.partition("[")[0]


def _cell(value: object) -> str:
    return _short(str(value).replace("\n", " "))


def _short(text: str) -> str:
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"


def _rule(widths: list[int], ends: str, fill: str = "─") -> str:
    left, middle, right = tuple(ends)
    return left + middle.join(fill * (w + 2) for w in widths) + right


def _line(cells: list[str], widths: list[int]) -> str:
    return "│ " + " ┆ ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " │"
