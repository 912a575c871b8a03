"""What can be said of a plan's rows and columns without executing it."""

from __future__ import annotations

from typing import Any

from heliostat.data import block
from heliostat.data.plan.operators import (
    Exchange,
    InputBlocks,
    Limit,
    Map,
    Operator,
    Read,
    Rebundle,
    Union,
)
from heliostat.data.plan.transforms import FilterExpression


def rows(plan: Operator) -> int | None:
    """The number of rows; None: unknown."""
    if isinstance(plan, InputBlocks):
        return sum(b.rows for b in plan.bundles)
    if isinstance(plan, Read):
        return plan.rows
    if isinstance(plan, Limit):
        below = rows(plan.source)
        return None if below is None else min(below, plan.rows)
    if isinstance(plan, Union):
        counts = [rows(source) for source in plan.sources]
        return None if None in counts else sum(c for c in counts if c is not None)
    if isinstance(plan, Rebundle) or (isinstance(plan, Map | Exchange) and plan.keeps_rows):
        return rows(plan.inputs[0])
    return None


def size(plan: Operator) -> int | None:
    """Bytes in memory; None: unknown."""
    if isinstance(plan, InputBlocks):
        return sum(b.size for b in plan.bundles)
    if isinstance(plan, Read):
        return plan.size
    if isinstance(plan, Rebundle) or (isinstance(plan, Exchange) and plan.keeps_rows):
        return size(plan.inputs[0])
    return None


def schema(plan: Operator) -> Any:
    """The Arrow schema; None: unknown."""
    if isinstance(plan, InputBlocks):
        return block.unify([b.schema for b in plan.bundles if b.schema is not None])
    if isinstance(plan, Read):
        return plan.schema
    if isinstance(plan, Map) and isinstance(plan.transform, FilterExpression):
        return schema(plan.source)
    if isinstance(plan, Limit | Rebundle) or (isinstance(plan, Exchange) and plan.keeps_rows):
        return schema(plan.inputs[0])
    if isinstance(plan, Union):
        found = [schema(source) for source in plan.sources]
        return None if any(s is None for s in found) else block.unify(found)
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
