"""Joins one side of which is small: it is executed first, and the steps of the other side join with it.

So no row of the large side is moved, and a read, the join and what follows it are one task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import heliostat as ray
from heliostat.data import block
from heliostat.data.execute import joins
from heliostat.data.execute.joins import Join, joined
from heliostat.data.plan import analysis
from heliostat.data.plan.operators import Bundle, Exchange, InputBlocks, Limit, Map, Operator, Read
from heliostat.data.plan.transforms import FilterExpression, MapStream, MapTables

if TYPE_CHECKING:
    import pyarrow as pa


Run = Callable[[Operator], Iterator[Bundle]]


def resolved(plan: Operator, run: Run) -> Operator:
    """The plan with a map for each join one side of which is known to be small.

    ``run`` executes the plan of such a side.
    """
    if isinstance(plan, Exchange) and isinstance(plan.run, Join):
        sources = [resolved(source, run) for source in plan.sources]
        return _joined(plan, plan.run, sources, run)
    return analysis.over(plan, [resolved(source, run) for source in plan.inputs])


def foreseen(plan: Operator) -> Operator:
    """The plan as :func:`resolved` is expected to make it, without executing anything: for its description.

    A side may turn out to be larger than its source says, and the join is shuffled then.
    """
    sources = [foreseen(source) for source in plan.inputs]
    if isinstance(plan, Exchange) and isinstance(plan.run, Join) and not plan.run.remote_args:
        side = _small_side(plan.run, *map(_size, sources))
        if side is not None:
            name = f"{plan.name}[{('left', 'right')[side]} side broadcast]"
            return Map(sources[1 - side], MapStream(Foreseen(sources[side]), name))
    return analysis.over(plan, sources)


@dataclass
class Foreseen:
    """The place of a small side in a plan that is only described."""

    side: Operator

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Raise: a plan that is only described is not executed."""
        raise NotImplementedError


def _joined(plan: Exchange, join: Join, sources: list[Operator], run: Run) -> Operator:
    side = _small_side(join, *map(_size, sources))
    if side is None or join.remote_args:
        return analysis.over(plan, sources)
    bundles = tuple(run(sources[side]))
    schema = block.unify([b.schema for b in bundles if b.schema is not None])
    size, rows = sum(b.size for b in bundles), sum(b.rows for b in bundles)
    if size > joins.WHOLE_BYTES_MAX or not rows or schema is None:
        sources[side] = InputBlocks(bundles)
        return analysis.over(plan, sources)
    # Later steps may run where the join does; the refs live as long as the plan.
    beside = JoinWith(join, [b for b in bundles if b.rows], schema, is_right=side == 1)
    return Map(
        sources[1 - side], MapStream(beside, f"{plan.name}[small {('left', 'right')[side]}]")
    )


def _size(plan: Operator) -> int | None:
    """About how many bytes the plan's blocks have at most; None: unknown."""
    if isinstance(plan, Read) and plan.size is None:
        return getattr(plan.tasks, "size", None)
    if isinstance(plan, Map) and isinstance(plan.transform, FilterExpression | MapTables):
        return _size(plan.source)
    return _size(plan.source) if isinstance(plan, Limit) else analysis.size(plan)


def _small_side(join: Join, left: int | None, right: int | None) -> int | None:
    """The number of the side that is small; None: neither is known to be, or may be."""
    for side, size, other in ((1, right, left), (0, left, right)):
        may = join.kind in (joins.WHOLE_RIGHT if side else joins.WHOLE_LEFT)
        if not may or size is None or size > joins.WHOLE_BYTES_MAX:
            continue
        if other is None or size * 2 <= other:
            return side
    return None


@dataclass
class JoinWith:
    """Each table joined with all of the small side."""

    join: Join
    bundles: list[Bundle]
    schema: pa.Schema  # of the small side
    is_right: bool  # whether that is the right one
    _side: Any = field(default=None, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_side": None}

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        if self._side is None:  # once in a process
            found = ray.get([b.ref for b in self.bundles])
            cut = [b.cut(table) for b, table in zip(self.bundles, found, strict=True)]
            self._side = block.joined(block.concat(cut))
        for table in tables:
            if not table.num_columns:
                yield table
                continue
            left, right = (table, self._side) if self.is_right else (self._side, table)
            self.join.check_names(left.schema, right.schema)
            yield joined(left, right, self.join)
