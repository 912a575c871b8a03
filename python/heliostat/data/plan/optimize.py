"""The plan that is executed: with the same rows as the plan that was written, and less to do.

- Conditions move down to the source, which leaves out what its statistics exclude and evaluates the
  rest while it reads.
- A limit over steps that make one row of each moves into a source that knows its numbers of rows.
- Each operator says which columns of its input it needs, and the source reads no others.
- A source is told when only a function of rows gets its tables.

A condition moves only over steps that do not depend on which rows come (not over random samples, row
numbers or the user's functions), and over another condition only if evaluating it cannot fail.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import and_

import pyarrow.compute as pc

from heliostat.data.expressions import fields
from heliostat.data.expressions.expr import (
    AliasExpr,
    Call,
    ColumnExpr,
    Expr,
    LiteralExpr,
    UnnestExpr,
)
from heliostat.data.plan import analysis
from heliostat.data.plan.columns import DropColumns, RenameColumns, SelectColumns
from heliostat.data.plan.operators import (
    Exchange,
    Limit,
    Map,
    Operator,
    Pushable,
    Read,
    Union,
    is_plain,
)
from heliostat.data.plan.transforms import (
    FilterExpression,
    FlatMapRows,
    MapRows,
    MapTables,
    Names,
    Project,
)

# Functions that fail for no value of their types. What fails for a type fails wherever it is evaluated.
_TOTAL = frozenset(
    (
        pc.less, pc.less_equal, pc.greater, pc.greater_equal, pc.equal, pc.not_equal,
        pc.and_kleene, pc.or_kleene, pc.invert, pc.is_null, pc.is_valid, fields.is_in,
        pc.starts_with, pc.ends_with, pc.utf8_length, pc.utf8_lower, pc.utf8_upper,
    )
)  # fmt: skip


def optimized(plan: Operator) -> Operator:
    """The plan to execute."""
    return _for_rows(_with_columns(_with_limits(_with_filters(plan)), None))


# --- conditions ------------------------------------------------------------------------------------


def _with_filters(plan: Operator) -> Operator:
    plan = analysis.over(plan, [_with_filters(source) for source in plan.inputs])
    if not isinstance(plan, Map) or not isinstance(plan.transform, FilterExpression):
        return plan
    if not is_plain(plan):
        return plan
    source = plan.source
    kept: list[Expr] = []
    for part in _conjuncts(plan.transform.expression):
        moves = part.movable and (not kept or _is_total(part))
        below = _filtered(source, part) if moves else None
        if below is None:
            kept.append(part)
        else:
            source = below
    if source is plan.source:
        return plan
    return (
        replace(plan, source=source, transform=FilterExpression(reduce(and_, kept)))
        if kept
        else source
    )


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, Call) and condition.function is pc.and_kleene:
        return [part for operand in condition.operands for part in _conjuncts(operand)]
    return [condition]


def _is_total(expr: Expr) -> bool:
    """Whether evaluating it fails for no values."""
    if isinstance(expr, Call) and expr.function not in _TOTAL:
        return False
    if not isinstance(expr, Call | ColumnExpr | LiteralExpr | AliasExpr):
        return False
    return all(map(_is_total, expr.operands))


def _filtered(plan: Operator, condition: Expr) -> Operator | None:
    """The plan whose source leaves out the rows that do not meet the condition; None: it cannot."""
    if isinstance(plan, Read):
        tasks = plan.tasks.with_filter(condition) if isinstance(plan.tasks, Pushable) else None
        return None if tasks is None else replace(plan, tasks=tasks, rows=None, size=None)
    if isinstance(plan, Union):
        several = [_filtered(source, condition) for source in plan.sources]
        found = [source for source in several if source is not None]
        return replace(plan, sources=tuple(found)) if len(found) == len(several) else None
    if isinstance(plan, Exchange) and getattr(plan.run, "passes_filters", False):
        below = _filtered(plan.sources[0], condition)
        return None if below is None else replace(plan, sources=(below,))
    if not isinstance(plan, Map):
        return None
    moved = _before(plan, condition)
    source = None if moved is None else _filtered(plan.source, moved)
    return None if source is None else replace(plan, source=source)


def _before(step: Map, condition: Expr) -> Expr | None:
    """The condition as it is before a step; None: there is none that keeps the same rows."""
    read = condition.columns()
    if read is None:
        return None
    transform = step.transform
    if isinstance(transform, FilterExpression):
        return condition if transform.expression.movable and _is_total(condition) else None
    if isinstance(transform, Project):
        made = dict(transform.items)
        if not all(e.movable and not isinstance(e, UnnestExpr) for e in made.values()):
            return None
        if any(not isinstance(made[name], ColumnExpr) for name in read & set(made)):
            return None  # it would be computed twice
        return condition.replaced({name: made[name] for name in read & set(made)})
    if not isinstance(transform, MapTables):
        return None
    function = transform.function
    if isinstance(function, SelectColumns):
        return condition if read <= set(function.names) else None
    if isinstance(function, DropColumns):
        return condition if not read & set(function.names) else None
    if isinstance(function, RenameColumns):
        return _renamed(function, analysis.names(step.source), condition)
    return None


def _renamed(rename: RenameColumns, there: tuple[str, ...] | None, condition: Expr) -> Expr | None:
    new = rename.of(there) if there is not None else None
    if new is None or len(set(new.values())) < len(new):
        return None
    old = {after: ColumnExpr(before) for before, after in new.items()}
    read = condition.columns() or frozenset()
    return condition.replaced(old) if read <= set(old) else None


# --- limits ----------------------------------------------------------------------------------------


def _with_limits(plan: Operator) -> Operator:
    plan = analysis.over(plan, [_with_limits(source) for source in plan.inputs])
    if not isinstance(plan, Limit):
        return plan
    if isinstance(plan.source, Limit):
        return replace(plan.source, rows=min(plan.rows, plan.source.rows))
    return _limited(plan.source, plan.rows) or plan


def _limited(plan: Operator, rows: int) -> Operator | None:
    """The plan whose source has only so many rows; None: it cannot."""
    if isinstance(plan, Map) and plan.keeps_rows and plan.transform.is_by_row:
        source = _limited(plan.source, rows)
        return None if source is None else replace(plan, source=source)
    if not isinstance(plan, Read) or plan.rows is None or not isinstance(plan.tasks, Pushable):
        return None
    tasks = plan.tasks.with_limit(rows)
    if tasks is None:
        return None
    size = None if plan.size is None else plan.size * min(rows, plan.rows) // max(1, plan.rows)
    return replace(plan, tasks=tasks, rows=min(rows, plan.rows), size=size)


# --- columns ---------------------------------------------------------------------------------------


def _with_columns(plan: Operator, needed: Names) -> Operator:
    """The plan with no more columns than ``needed``, as far as that saves anything."""
    if isinstance(plan, Read):
        if needed is None or not isinstance(plan.tasks, Pushable):
            return plan
        tasks = plan.tasks.with_columns(needed)
        schema = plan.schema
        if schema is not None:
            import pyarrow as pa

            schema = pa.schema([f for f in schema if f.name in needed], schema.metadata)
        return plan if tasks is None else replace(plan, tasks=tasks, schema=schema, size=None)
    if isinstance(plan, Map):
        transform = plan.transform.narrowed(needed, analysis.names(plan.source))
        source = _with_columns(plan.source, transform.reads(needed))
        if source is plan.source and transform is plan.transform:
            return plan
        return replace(plan, source=source, transform=transform)
    if isinstance(plan, Exchange):
        reads = getattr(plan.run, "reads", None)
        several = reads(needed) if reads is not None else [None] * len(plan.sources)
        return analysis.over(
            plan, [_with_columns(s, n) for s, n in zip(plan.sources, several, strict=True)]
        )
    return analysis.over(plan, [_with_columns(source, needed) for source in plan.inputs])


# --- forms of tables ---------------------------------------------------------------------------------


def _for_rows(plan: Operator) -> Operator:
    """The plan whose sources know that functions of rows follow in their tasks."""
    if isinstance(plan, Map) and isinstance(plan.source, Read):
        read = plan.source
        takes = isinstance(plan.transform, MapRows | FlatMapRows) and is_plain(plan)
        if takes and isinstance(read.tasks, Pushable) and not read.remote_args:
            return replace(plan, source=replace(read, tasks=read.tasks.for_rows()))
        return plan
    return analysis.over(plan, [_for_rows(source) for source in plan.inputs])
