"""Steps that call the program's function, or evaluate a condition, on each row or batch of a plan."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from heliostat.data import block, checks
from heliostat.data.dataset.placement import Options
from heliostat.data.expressions import text
from heliostat.data.expressions.expr import Expr, UnnestExpr
from heliostat.data.plan import analysis
from heliostat.data.plan.columns import RandomSample
from heliostat.data.plan.operators import Limit, Map, Operator
from heliostat.data.plan.transforms import (
    FilterExpression,
    FilterRows,
    FlatMapRows,
    MapBatches,
    MapRows,
    MapStream,
)
from heliostat.data.seeds import RandomSeedConfig, checked

if TYPE_CHECKING:
    from heliostat.data.aliases import Function


def rows(plan: Operator, fn: Function, options: Options) -> Map:
    """Make a row out of each row."""
    udf = options.udf(fn)
    return options.step(plan, MapRows(udf), udf.name, is_class=udf.is_class, keeps_rows=True)


def flat_rows(plan: Operator, fn: Callable[..., object], options: Options) -> Map:
    """Any number of rows out for each row in."""
    udf = options.udf(fn)
    return options.step(plan, FlatMapRows(udf), udf.name, is_class=udf.is_class)


def chosen(plan: Operator, fn: Function | None, expr: Expr | str | None, options: Options) -> Map:
    """The rows that a function or an expression is true for."""
    if (fn is None) == (expr is None):
        raise ValueError("Exactly one of 'fn' or 'expr' must be provided.")
    if fn is not None:
        if not callable(fn):
            raise ValueError(
                "fn must be a UserDefinedFunction (a function or a class), but got an object of "
                f"{type(fn).__name__}. Pass an expression, or the text of one, as filter(expr=...)."
            )
        udf = options.udf(fn)
        return options.step(plan, FilterRows(udf), udf.name, is_class=udf.is_class)
    if isinstance(expr, str):
        warnings.warn(
            "String expressions are deprecated. Use ray.data.expressions instead, for example "
            "ds.filter(expr=col('column') > 5).",
            DeprecationWarning,
            stacklevel=3,
        )
        expr = text.parse(expr)
    if not isinstance(expr, Expr) or isinstance(expr, UnnestExpr):
        raise TypeError(
            "filter(expr=...) takes an expression with one truth value a row, such as "
            f"col('x') > 5, not {expr!r}."
        )
    if options.arguments:
        raise ValueError(f"{', '.join(options.arguments)} have no meaning with `expr`.")
    return options.step(plan, FilterExpression(expr), repr(expr), is_class=expr.keeps_state)


def batches(
    plan: Operator,
    fn: Callable[..., object],
    batch_size: int | str | None,
    batch_format: str | None,
    zero_copy_batch: bool,
    keeps_rows: bool,
    options: Options,
) -> Map:
    """Any number of rows out for each batch."""
    if options.remote_args.get("num_gpus") and batch_size in (None, "auto"):
        raise ValueError(
            "You must provide `batch_size` to `map_batches` when requesting GPUs. The best size "
            "depends on the model and on the GPU's memory: use the largest that fits."
        )
    if not (batch_size is None or batch_size == "auto" or isinstance(batch_size, int)):
        raise ValueError(f"batch_size must be an integer, None or 'auto', got {batch_size!r}.")
    size = batch_size if isinstance(batch_size, int) else 0
    if size < 1 and batch_size not in (None, "auto"):
        raise ValueError("Batch size can't be negative or 0")
    block.check_format(batch_format)
    udf = options.udf(fn)
    return options.step(
        plan,
        MapBatches(udf, batch_size, batch_format, zero_copy_batch, keeps_rows=keeps_rows),
        udf.name,
        is_class=udf.is_class,
        min_rows=size,
        keeps_rows=keeps_rows,
    )


def first(plan: Operator, limit: int) -> Limit:
    """The first rows."""
    checks.integers(limit=limit)
    if limit < 0:
        raise ValueError(f"limit must not be negative, got {limit}.")
    return Limit(plan, limit)


def sampled(plan: Operator, fraction: float, seed: int | RandomSeedConfig | None) -> Map:
    """Each row with a probability."""
    checks.number("fraction", fraction)
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Fraction must be between 0 and 1, got {fraction}.")
    if analysis.rows(plan) == 0:
        raise ValueError("Cannot sample from an empty Dataset.")
    return Map(plan, MapStream(RandomSample(fraction, checked(seed)), "RandomSample"))
