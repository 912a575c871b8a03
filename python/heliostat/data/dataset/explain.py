"""The text of ``Dataset.explain``: the plan as written, as it is executed, and what of that is one task."""

from __future__ import annotations

from collections.abc import Iterator

from heliostat.data.context import DataContext
from heliostat.data.execute.joins import Join
from heliostat.data.execute.planner import chain, follow
from heliostat.data.execute.small_sides import Foreseen, foreseen
from heliostat.data.plan.operators import ActorPoolStrategy, Exchange, Map, Operator, Read, describe


def text(written: Operator, executed: Operator, context: DataContext) -> str:
    """The three parts, each below its title."""
    parts = {
        "Logical Plan": describe(written),
        "Logical Plan (Optimized)": describe(executed),
        "Physical Plan": "\n".join(_lines(foreseen(executed), 0, context)),
    }
    return "\n\n".join(f"-------- {title} --------\n{said}" for title, said in parts.items())


def _name(plan: Operator) -> str:
    is_join = isinstance(plan, Exchange) and isinstance(plan.run, Join)
    return f"{plan.name}[both sides shuffled]" if is_join else plan.name


def _lines(plan: Operator, depth: int, context: DataContext) -> Iterator[str]:
    mark = "   " * (depth - 1) + "+- " if depth else ""
    if not isinstance(plan, Map | Read):
        yield f"{mark}{_name(plan)}"
        for source in plan.inputs:
            yield from _lines(source, depth + 1, context)
        return
    steps, source, reads = chain(plan)
    if isinstance(source, Exchange) and follow(steps, source, context):
        yield f"{mark}{'->'.join(_name(p) for p in (source, *steps))}"
        for one in source.inputs:
            yield from _lines(one, depth + 1, context)
        return
    parts = [source, *steps] if reads else list(steps)
    pool = steps and isinstance(steps[0].compute, ActorPoolStrategy)
    yield f"{mark}{'Actors' if pool else 'Tasks'}[{'->'.join(p.name for p in parts)}]"
    if not reads:
        yield from _lines(source, depth + 1, context)
    for step in steps:
        small = getattr(step.transform, "function", None)
        if isinstance(small, Foreseen):
            yield from _lines(small.side, depth + 1, context)
