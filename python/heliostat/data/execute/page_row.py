"""The view of an execution for the head's page: the plan, the output of each operator, and its
bound.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from heliostat.data.execute.physical import Physical
from heliostat.data.execute.stats import ExecutionStats
from heliostat.util.row_writer import Past, RowWriter

NAMESPACE = "_data_runs"
EVERY_S = 1.0
# LIMIT-1: points of the past, operators of a plan, and nodes that are named.
_POINTS, _OPERATORS, _NODES = 120, 200, 32


class ExecutionRow:
    """Tells of one execution. One that ends well within a second is not told of."""

    def __init__(self, label: str) -> None:
        self._told = RowWriter(NAMESPACE, label, EVERY_S)
        self._began = time.monotonic()
        self._past = Past(_POINTS)

    def show(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        """Called often; tells once a second."""
        if self._told.is_due:
            self._told.write(self._seen(operators, stats, "RUNNING", ""))

    def close(
        self, operators: Sequence[Physical], stats: ExecutionStats, state: str, why: str
    ) -> None:
        """The execution is over."""
        if self._told.has_begun or state == "FAILED":
            self._told.write(self._seen(operators, stats, state, why), is_over=True)

    def _seen(
        self, operators: Sequence[Physical], stats: ExecutionStats, state: str, why: str
    ) -> dict[str, object]:
        elapsed = time.monotonic() - self._began
        held = sum(operator.held_bytes() for operator in operators)
        self._past.add(elapsed, float(stats.rows), float(held))
        numbers = {id(operator): number for number, operator in enumerate(operators)}
        return {
            "state": state,
            "why": why[-2000:],
            "took_s": elapsed,
            "rows": stats.rows,
            "held_bytes": held,
            "budget_bytes": stats.budget_bytes,
            "past": self._past.points,
            "operators": [_operator(one, numbers) for one in operators[:_OPERATORS]],
        }


def _operator(operator: Physical, numbers: dict[int, int]) -> dict[str, object]:
    stats = operator.stats
    blocks, size = operator.backlog()
    running = operator.running()
    return {
        "name": operator.name,
        "sources": [numbers[id(one)] for one in operator.sources if id(one) in numbers],
        "bound": bound(operator),
        "waits": "" if operator.done else operator.waits_for(),
        "tasks": max(0, stats.tasks - running - stats.failed),
        "expected": getattr(operator, "expected_blocks", 0),
        "running": running,
        "failed": stats.failed,
        "actors": stats.actors,
        "cpus": operator.cpus,
        "gpus": operator.gpus,
        "rows": int(stats.rows.total),
        "bytes": int(stats.bytes.total),
        "wall_s": stats.wall.total,
        "udf_s": stats.udf.total,
        "backlog_blocks": blocks,
        "backlog_bytes": size,
        "nodes": dict(sorted(stats.nodes.items(), key=lambda of: -of[1])[:_NODES]),
    }


def bound(operator: Physical) -> str:
    """Return the bound of an operator: ``memory``, its ``tasks``, its ``input``, or ``""``, once it
    is done.
    """
    if operator.over_budget:
        return "memory"
    if operator.running():
        return "tasks"
    return "" if operator.done else "input"
