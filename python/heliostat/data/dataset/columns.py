"""Transformations of whole columns. All are lazy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from heliostat.data.dataset.base import Base
from heliostat.data.dataset.options import options_of, placed
from heliostat.data.expressions.expr import Expr, Unnest
from heliostat.data.plan import analysis
from heliostat.data.plan.columns import AddColumn, DropColumns, RenameColumns, SelectColumns
from heliostat.data.plan.operators import Compute, Map
from heliostat.data.plan.transforms import MapTables, Project

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset


class Columns(Base):
    """Part of ``Dataset``."""

    def _of_tables(
        self, name: str, function: Callable[[Any], Any], options: dict[str, Any]
    ) -> Dataset:
        where = placed(options, name)
        return self._derive(Map(self._plan, MapTables(function, name), keeps_rows=True, **where))

    def add_column(
        self,
        col: str,
        fn: Callable[[Any], Any],
        *,
        batch_format: str | None = "pandas",
        compute: Any = None,
        concurrency: int | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the dataset with a column more, or with other values in it: what ``fn(batch)`` gives.

        Args:
            col: The column's name.
            fn: Takes a batch; returns a value for each row: an array, a series or a list.
            batch_format: Of the batch: ``"pandas"`` (the default), ``"numpy"`` or ``"pyarrow"``.
            compute: ``TaskPoolStrategy``. Default: tasks.
            concurrency: Tasks at a time. Default: as many as there is room for.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            ValueError: ``batch_format`` is none of the three, or ``fn`` cannot be called.

        Examples:
            >>> import ray
            >>> ray.data.range(2).add_column("twice", lambda df: df["id"] * 2).take_all()
            [{'id': 0, 'twice': 0}, {'id': 1, 'twice': 2}]
        """
        if batch_format not in ("pandas", "numpy", "pyarrow"):
            raise ValueError(
                f"batch_format argument must be pandas, numpy or pyarrow, got {batch_format!r}."
            )

        if not callable(fn):
            raise ValueError(f"`fn` must be callable, got {fn!r}.")
        made: Dataset = self.map_batches(  # type: ignore[attr-defined] # of Maps
            AddColumn(str(col), fn, batch_format),
            batch_format="pyarrow",
            concurrency=concurrency,
            udf_modifying_row_count=False,
            **ray_remote_args,
        )
        return made

    def with_column(
        self,
        column_name: str,
        expr: Expr,
        *,
        compute: Compute | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the dataset with a column more, or with other values in it.

        Args:
            column_name: The column.
            expr: An expression of ``ray.data.expressions`` that gives its values.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks; actors for an
                expression with classes in it.
            num_cpus: CPUs of each task or actor. Default 1.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: Heap bytes of each task or actor, for scheduling.
            **ray_remote_args: Further options of the tasks or actors.

        Raises:
            TypeError: It is no expression, or ``unnest``, which gives several columns.

        Examples:
            >>> import ray
            >>> from ray.data.expressions import col
            >>> ray.data.range(2).with_column("next", col("id") + 1).take_all()
            [{'id': 0, 'next': 1}, {'id': 1, 'next': 2}]
        """
        return self.with_columns({column_name: expr}, **options_of(locals(), "column_name", "expr"))

    def with_columns(
        self,
        exprs: Mapping[str, Expr] | Unnest | None = None,
        *more_exprs: Mapping[str, Expr] | Unnest,
        compute: Compute | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the dataset with columns more. All expressions see the columns as they were before.

        Args:
            exprs: Expressions by column, or ``unnest(expression)``, which gives a column for each field of
                a struct.
            *more_exprs: More of both. Of columns with the same name the last one counts.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
                pool for classes.
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            TypeError: An argument is neither; a value is not an expression; ``unnest`` of what is known to be
                no struct.

        Examples:
            >>> import ray
            >>> from ray.data.expressions import col
            >>> ray.data.range(1).with_columns({"a": col("id") + 1, "b": col("id") + 2}).take_all()
            [{'id': 0, 'a': 1, 'b': 2}]
        """
        options = options_of(locals(), "exprs", "more_exprs")
        items = _projected([e for e in (exprs, *more_exprs) if e is not None])
        schema = analysis.schema(self._plan)
        for _, expr in items:
            if isinstance(expr, Unnest) and (kind := expr.type_in(schema)) is not None:
                expr.check(kind)
        keeps_state = any(expr.keeps_state for _, expr in items)
        where = placed(options, "an expression with classes in it", is_class=keeps_state)
        return self._derive(Map(self._plan, Project(tuple(items)), keeps_rows=True, **where))

    def drop_columns(
        self,
        cols: str | list[str],
        *,
        compute: Compute | None = None,
        concurrency: int | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the dataset without some columns.

        Args:
            cols: A column or several.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
                pool for classes.
            concurrency: Workers of a stage, or (least, most).
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            KeyError: There is no such column.
            ValueError: A name comes twice.

        Examples:
            >>> import ray
            >>> ray.data.from_items([{"a": 1, "b": 2}]).drop_columns("b").take_all()
            [{'a': 1}]
        """
        options = options_of(locals(), "cols")
        names = [cols] if isinstance(cols, str) else list(cols)
        if len(set(names)) != len(names):
            raise ValueError(f"drop_columns got a name twice: {names}")

        return self._of_tables("DropColumns", DropColumns(tuple(names)), options)

    def select_columns(
        self,
        cols: str | list[str],
        *,
        compute: Compute | None = None,
        concurrency: int | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the dataset with only these columns, in this order.

        Args:
            cols: A column or several.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
                pool for classes.
            concurrency: Workers of a stage, or (least, most).
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            ValueError: A name comes twice, or is not a text.
            KeyError: While executing: there is no such column.

        Examples:
            >>> import ray
            >>> ray.data.from_items([{"a": 1, "b": 2}]).select_columns(["b"]).take_all()
            [{'b': 2}]
        """
        options = options_of(locals(), "cols")
        names = [cols] if isinstance(cols, str) else list(cols)
        if not all(isinstance(c, str) for c in names):
            raise ValueError("select_columns requires all elements of 'cols' to be strings.")
        if len(set(names)) != len(names):
            raise ValueError(f"select_columns got a name twice: {names}")

        return self._of_tables("SelectColumns", SelectColumns(tuple(names)), options)

    def rename_columns(
        self,
        names: dict[str, str] | list[str],
        *,
        concurrency: int | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the dataset with other column names.

        Args:
            names: A dict from old to new names, or a list of all new names.
            concurrency: Workers of a stage, or (least, most).
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            TypeError: ``names`` is neither a dict nor a list.
            ValueError: Names come twice, or a list has the wrong length.
            KeyError: While executing: there is no such column.

        Examples:
            >>> import ray
            >>> ray.data.range(1).rename_columns({"id": "n"}).take_all()
            [{'n': 0}]
        """
        options = options_of(locals(), "names")
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
        return self._of_tables("RenameColumns", RenameColumns(given), options)


def _projected(given: list[Any]) -> list[tuple[str, Expr]]:
    """(column, expression) of the arguments of ``with_columns``; of ``unnest`` the name is empty."""
    items: list[tuple[str, Expr]] = []
    for one in given:
        if isinstance(one, Unnest):
            items.append(("", one))
        elif isinstance(one, Mapping):
            items.extend(one.items())
        else:
            raise TypeError(
                "with_columns() takes dicts from column to expression, and unnest(expression); got "
                f"{type(one).__name__}."
            )
    for name, expr in items:
        if name and isinstance(expr, Unnest):
            expr.alias(name)  # raises
        if not isinstance(expr, Expr):
            raise TypeError(
                f"the column {name!r} needs an expression, such as lit({expr!r}), not a "
                f"{type(expr).__name__}."
            )
    return items
