"""Exchanges of rows: sorting, and other numbers of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from heliostat.data import checks
from heliostat.data.dataset.base import Base, key_names
from heliostat.data.execute import exchanges
from heliostat.data.missing import require
from heliostat.data.plan.operators import Exchange, Operator, Rebundle

if TYPE_CHECKING:
    from heliostat.data.aliases import Function


def exchanged(plan: Operator, label: str, run: Function) -> Exchange:
    """The same rows, in another order or in other blocks."""
    return Exchange((plan,), label, run, keeps_rows=True)


def repartitioned(
    dataset: Base,
    num_blocks: int | None,
    target_num_rows_per_block: int | None,
    shuffle: bool,
    keys: list[str] | None,
) -> Operator:
    """The same rows in other blocks."""
    if (num_blocks is None) == (target_num_rows_per_block is None):
        raise ValueError("Exactly one of `num_blocks` or `target_num_rows_per_block` must be set.")
    checks.integers(num_blocks=num_blocks, target_num_rows_per_block=target_num_rows_per_block)
    for value in (num_blocks, target_num_rows_per_block):
        if value is not None and value < 1:
            raise ValueError(f"the number of blocks or rows must be positive, got {value}.")
    if target_num_rows_per_block is not None:
        if shuffle or keys:
            raise ValueError("`shuffle` and `keys` need `num_blocks`.")
        return Rebundle(dataset._plan, target_num_rows_per_block)
    assert num_blocks is not None
    run: Callable[..., object] = exchanges.Repartition(num_blocks)
    if keys:
        require(keys, dataset._known_columns(), "repartition")
        run = exchanges.Sort([(k, "ascending") for k in keys], num_blocks)
    elif shuffle:
        run = exchanges.RandomShuffle(None, num_blocks, {})
    return exchanged(dataset._plan, f"Repartition[{num_blocks}]", run)


def ordered(
    dataset: Base,
    key: str | list[str] | None,
    descending: bool | list[bool],
    boundaries: list[object] | None,
) -> Exchange:
    """The rows by the values of columns."""
    if not key:
        raise ValueError("The 'key' parameter cannot be None for sorting.")
    keys = key_names(key)
    if not isinstance(descending, bool | list | tuple):
        raise TypeError(f"`descending` must be a bool or a list of bools, got {descending!r}.")
    flags = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
    if len(flags) != len(keys):
        raise ValueError(
            f"Length of `descending` ({len(flags)}) does not match the number of keys ({len(keys)})."
        )
    order = [(k, "descending" if d else "ascending") for k, d in zip(keys, flags, strict=True)]
    require(keys, dataset._known_columns(), "sort")
    return exchanged(dataset._plan, "Sort", exchanges.Sort(order, None, boundaries))
