"""Several plans into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from heliostat.core.platform.spelling import did_you_mean
from heliostat.data import checks
from heliostat.data.dataset.base import Base
from heliostat.data.execute import joins
from heliostat.data.missing import require
from heliostat.data.plan.operators import Exchange, Mix, MixStoppingCondition, Operator


def plans(method: str, others: Iterable[object]) -> list[Operator]:
    """The plans of other datasets.

    Args:
        method: What they were given to, for the error.
        others: The datasets.

    Raises:
        TypeError: One is not a dataset.
    """
    found = []
    for other in others:
        if not isinstance(other, Base):
            hint = f" Write {method}(*datasets) for a list." if isinstance(other, list) else ""
            raise TypeError(f"{method}() takes datasets, got {type(other).__name__}.{hint}")
        found.append(other._plan)
    return found


def mixed(
    plans: tuple[Operator, ...],
    weights: list[float] | None,
    stopping: MixStoppingCondition,
) -> Mix:
    """The blocks of plans by turns."""
    shares = tuple([1.0] * len(plans) if weights is None else weights)
    if len(shares) != len(plans):
        raise ValueError(
            f"Number of datasets ({len(plans)}) must match number of weights ({len(shares)})."
        )
    if any(share <= 0 for share in shares):
        raise ValueError(f"Weights must be positive, got {list(shares)}.")
    return Mix(plans, shares, MixStoppingCondition(stopping))


def joined(
    left: Base,
    right: Base,
    join_type: str,
    num_partitions: int | None,
    on: Sequence[str],
    right_on: Sequence[str] | None,
    suffixes: tuple[str | None, str | None],
    remote_args: dict[str, object],
    executes: bool,
) -> Exchange:
    """The rows of both sides whose keys are the same. ``executes``: to find out the columns, if need be."""
    keys = (on,) if isinstance(on, str) else tuple(on)
    other = on if right_on is None else right_on
    others = (other,) if isinstance(other, str) else tuple(other)
    if join_type not in joins.KINDS:
        near = did_you_mean(str(join_type), joins.KINDS)
        raise ValueError(
            f"Invalid join type: {join_type!r}. Must be one of {', '.join(joins.KINDS)}.{near}"
        )
    plans("join", [right])
    checks.integers(num_partitions=num_partitions)
    if num_partitions is not None and num_partitions < 1:
        raise ValueError(f"`num_partitions` must be positive, got {num_partitions}.")
    if len(keys) != len(others):
        raise ValueError(f"`on` has {len(keys)} columns and `right_on` {len(others)}.")
    run = joins.Join(
        joins.KINDS[join_type], list(keys), list(others), num_partitions, *suffixes, remote_args
    )
    for side, wanted, which in ((left, keys, "left"), (right, others, "right")):
        known = side._known_columns()
        if executes:
            known = side._arrow_schema() or pa.schema([])
        require(wanted, known, f"join: the {which} side")
    return Exchange((left._plan, right._plan), f"Join({join_type})", run)
