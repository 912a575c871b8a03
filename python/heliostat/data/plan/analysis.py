"""Facts about a plan's rows and columns that need no execution."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from heliostat.data import block
from heliostat.data.expressions.expr import UnnestExpr
from heliostat.data.plan.columns import DropColumns, RenameColumns, SelectColumns
from heliostat.data.plan.operators import (
    Exchange,
    FromOne,
    InputBlocks,
    Limit,
    Map,
    Mix,
    MixStoppingCondition,
    Operator,
    Pushable,
    Read,
    Rebundle,
    Union,
)
from heliostat.data.plan.transforms import FilterExpression, MapTables, Project

if TYPE_CHECKING:
    import pyarrow as pa


def rows(plan: Operator) -> int | None:
    """The number of rows; None: unknown."""
    if isinstance(plan, InputBlocks):
        return sum(b.rows for b in plan.bundles)
    if isinstance(plan, Read):
        return plan.rows
    if isinstance(plan, Limit):
        below = rows(plan.source)
        return None if below is None else min(below, plan.rows)
    if isinstance(plan, Union) or _is_whole(plan):
        counts = [rows(source) for source in plan.inputs]
        return None if None in counts else sum(c for c in counts if c is not None)
    if isinstance(plan, Rebundle) or (isinstance(plan, Map | Exchange) and plan.keeps_rows):
        return rows(plan.inputs[0])
    return None


def _is_whole(plan: Operator) -> bool:
    """Whether it is a mix that gives all rows of its inputs."""
    return isinstance(plan, Mix) and plan.stopping is MixStoppingCondition.STOP_ON_LONGEST_DROP


def counted(plan: Operator) -> tuple[int, Operator | None]:
    """The rows that are certain without executing the plan, and the plan of all others, if any."""
    found = rows(plan)
    if found is not None:
        return found, None
    if isinstance(plan, Rebundle) or (isinstance(plan, Exchange) and plan.keeps_rows):
        return counted(plan.inputs[0])
    if isinstance(plan, Map) and plan.keeps_rows and plan.transform.udf is None:
        return counted(plan.source)
    if not isinstance(plan, Read) or not isinstance(plan.tasks, Pushable):
        return 0, plan
    sure, tasks = plan.tasks.counted()
    return sure, None if tasks is None else replace(plan, tasks=tasks)


def size(plan: Operator) -> int | None:
    """Bytes in memory; None: unknown."""
    if isinstance(plan, InputBlocks):
        return sum(b.size for b in plan.bundles)
    if isinstance(plan, Read):
        return plan.size
    if isinstance(plan, Rebundle) or (isinstance(plan, Exchange) and plan.keeps_rows):
        return size(plan.inputs[0])
    return None


def schema(plan: Operator) -> pa.Schema | None:
    """The Arrow schema; None: unknown."""
    if isinstance(plan, InputBlocks):
        return block.unify([b.schema for b in plan.bundles if b.schema is not None])
    if isinstance(plan, Read):
        return plan.schema
    if isinstance(plan, Map) and isinstance(plan.transform, FilterExpression):
        return schema(plan.source)
    if isinstance(plan, Limit | Rebundle) or (isinstance(plan, Exchange) and plan.keeps_rows):
        return schema(plan.inputs[0])
    if isinstance(plan, Union | Mix):
        found = [schema(source) for source in plan.sources]
        return None if any(s is None for s in found) else block.unify(found)
    return None


def names(plan: Operator) -> tuple[str, ...] | None:
    """The names of the columns, also where their types are not known; None: unknown."""
    if not isinstance(plan, Map):
        if isinstance(plan, Limit | Rebundle) or (isinstance(plan, Exchange) and plan.keeps_rows):
            return names(plan.inputs[0])
        found = schema(plan)
        return tuple(found.names) if found is not None and len(found) else None
    transform, there = plan.transform, names(plan.source)
    if there is None or isinstance(transform, FilterExpression):
        return there
    if isinstance(transform, Project):
        if any(isinstance(expr, UnnestExpr) for _, expr in transform.items):
            return None
        return tuple(dict.fromkeys((*there, *(name for name, _ in transform.items))))
    function = transform.function if isinstance(transform, MapTables) else None
    if isinstance(function, SelectColumns):
        return function.names
    if isinstance(function, DropColumns):
        return tuple(name for name in there if name not in function.names)
    if isinstance(function, RenameColumns):
        new = function.of(there)
        return tuple(new.values()) if new is not None else None
    return None


def blocks(plan: Operator) -> bool:
    """Whether it begins with blocks that are there."""
    return isinstance(plan, InputBlocks) or any(blocks(source) for source in plan.inputs)


def files(plan: Operator) -> list[str]:
    """The files that it reads."""
    if isinstance(plan, Read):
        return plan.files() if plan.files is not None else []
    if isinstance(plan, InputBlocks):
        return [f for b in plan.bundles for f in b.files]
    return [f for source in plan.inputs for f in files(source)]


def over(plan: Operator, inputs: list[Operator]) -> Operator:
    """The operator over other inputs."""
    if not inputs or all(a is b for a, b in zip(plan.inputs, inputs, strict=True)):
        return plan
    if isinstance(plan, Exchange | Union | Mix):
        return replace(plan, sources=tuple(inputs))
    assert isinstance(plan, FromOne), plan
    return replace(plan, source=inputs[0])
