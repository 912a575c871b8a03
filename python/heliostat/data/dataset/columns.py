"""Steps on whole columns of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from heliostat.data import checks
from heliostat.data.dataset import maps
from heliostat.data.dataset.placement import Options
from heliostat.data.expressions.expr import Expr, UnnestExpr
from heliostat.data.plan import analysis
from heliostat.data.plan.columns import AddColumn, DropColumns, RenameColumns, SelectColumns
from heliostat.data.plan.operators import Map, Operator
from heliostat.data.plan.transforms import MapTables, Project

if TYPE_CHECKING:
    import pyarrow as pa


def added(
    plan: Operator, col: str, fn: Callable[..., object], batch_format: str | None, options: Options
) -> Map:
    """A column more, whose values a function of batches gives."""
    if batch_format not in ("pandas", "numpy", "pyarrow"):
        raise ValueError(
            f"batch_format argument must be pandas, numpy or pyarrow, got {batch_format!r}."
        )
    if not callable(fn):
        raise ValueError(f"`fn` must be callable, got {fn!r}.")
    step = AddColumn(str(col), fn, batch_format)
    return maps.batches(plan, step, None, "pyarrow", True, True, options)


def computed(
    plan: Operator, given: Iterable[Mapping[str, Expr] | UnnestExpr | None], options: Options
) -> Map:
    """Columns more, whose values expressions give."""
    items = _projected([one for one in given if one is not None])
    schema = analysis.schema(plan)
    for _, expr in items:
        if isinstance(expr, UnnestExpr) and (kind := expr.type_in(schema)) is not None:
            expr.check(kind)
    keeps_state = any(expr.keeps_state for _, expr in items)
    name = "an expression with classes in it"
    step = Project(tuple(items))
    return options.step(plan, step, name, is_class=keeps_state, keeps_rows=True)


def dropped(plan: Operator, cols: str | list[str], options: Options) -> Map:
    """Without some columns."""
    names = checks.names("cols", cols)
    if len(set(names)) != len(names):
        raise ValueError(f"drop_columns got a name twice: {names}")
    return _of_tables(plan, "DropColumns", DropColumns(tuple(names)), options)


def selected(plan: Operator, cols: str | list[str], options: Options) -> Map:
    """Only some columns, in this order."""
    names = checks.names("cols", cols)
    if not all(isinstance(c, str) for c in names):
        raise ValueError("select_columns requires all elements of 'cols' to be strings.")
    if len(set(names)) != len(names):
        raise ValueError(f"select_columns got a name twice: {names}")
    return _of_tables(plan, "SelectColumns", SelectColumns(tuple(names)), options)


def renamed(plan: Operator, names: dict[str, str] | list[str], options: Options) -> Map:
    """Other names of columns."""
    if not isinstance(names, dict | list | tuple):
        raise TypeError(
            f"rename_columns takes a dict from old to new names or a list, got {type(names)}."
        )
    if isinstance(names, dict):
        new = list(names.values())
        if not names:
            raise ValueError("rename_columns received 'names' with no entries.")
    else:
        new = list(names)
    if not all(isinstance(n, str) for n in new):
        raise ValueError("rename_columns requires all new names to be strings.")
    if len(set(new)) != len(new):
        raise ValueError(f"rename_columns received duplicate values: {new}")
    given = dict(names) if isinstance(names, dict) else tuple(new)
    return _of_tables(plan, "RenameColumns", RenameColumns(given), options)


def _of_tables(
    plan: Operator, name: str, function: Callable[[pa.Table], object], options: Options
) -> Map:
    return options.step(plan, MapTables(function, name), name, keeps_rows=True)


def _instead(given: object) -> str:
    if callable(given):
        return "col('x') + 1 (functions are for `map_batches` and `add_column`)"
    return f"lit({given!r})"


def _projected(given: list[Mapping[str, Expr] | UnnestExpr]) -> list[tuple[str, Expr]]:
    """(column, expression) of the arguments of ``with_columns``; of ``unnest`` the name is empty."""
    items: list[tuple[str, Expr]] = []
    for one in given:
        if isinstance(one, UnnestExpr):
            items.append(("", one))
        elif isinstance(one, Mapping):
            items.extend(one.items())
        else:
            raise TypeError(
                "with_columns() takes dicts from column to expression, and unnest(expression); got "
                f"{type(one).__name__}."
            )
    for name, expr in items:
        if name and isinstance(expr, UnnestExpr):
            expr.alias(name)  # raises
        if not isinstance(expr, Expr):
            raise TypeError(
                f"the column {name!r} needs an expression, such as {_instead(expr)}, not "
                f"{type(expr).__name__}."
            )
    return items
