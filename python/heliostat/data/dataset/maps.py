"""Transformations of rows, batches and columns. All are lazy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from heliostat.data import block
from heliostat.data.dataset.base import Base
from heliostat.data.plan import task
from heliostat.data.plan.operators import (
    ActorPoolStrategy,
    Compute,
    Limit,
    Map,
    TaskPoolStrategy,
)
from heliostat.data.plan.transforms import (
    FilterExpression,
    FilterRows,
    FlatMapRows,
    MapBatches,
    MapRows,
    MapStream,
    Transform,
)
from heliostat.data.plan.udf import Udf

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset

# Keywords of transformations that are options of their tasks or actors.
_REMOTE = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "runtime_env")
_REMOTE_MORE = ("label_selector", "fallback_strategy", "max_calls")


class Maps(Base):
    """Part of ``Dataset``."""

    def _map(
        self,
        make: Callable[[Udf], Transform],
        fn: Any,
        options: dict[str, Any],
        *,
        min_rows: int = 0,
        keeps_rows: bool = False,
    ) -> Dataset:
        udf = Udf(
            fn,
            tuple(options.pop("fn_args", None) or ()),
            dict(options.pop("fn_kwargs", None) or {}),
            tuple(options.pop("fn_constructor_args", None) or ()),
            dict(options.pop("fn_constructor_kwargs", None) or {}),
        )
        remote_args_fn = options.pop("ray_remote_args_fn", None)
        compute = compute_of(udf, options.pop("compute", None), options.pop("concurrency", None))
        remote_args = {k: v for k, v in options.items() if v is not None}
        plan = Map(
            self._plan, make(udf), compute, remote_args, min_rows, keeps_rows, remote_args_fn
        )
        return self._derive(plan)

    def map(
        self,
        fn: Callable[..., dict[str, Any]],
        *,
        compute: Compute | None = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, ...] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return a dataset with ``fn(row)`` for each row, both dicts.

        ``fn`` is a function, or a class whose instances are called, one per actor.

        Args:
            fn: What is called; may be async.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an
                actor pool for classes.
            fn_args: Further positional arguments of ``fn``.
            fn_kwargs: Keyword arguments of ``fn``.
            fn_constructor_args: Arguments of the class.
            fn_constructor_kwargs: Keyword arguments of the class.
            num_cpus: CPUs of each task or actor. Default 1.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: Heap bytes of each task or actor, for scheduling.
            concurrency: Tasks or actors at a time; ``(min, max)`` for a pool that grows.
            ray_remote_args_fn: Gives further options when the dataset is executed.
            **ray_remote_args: Further options of the tasks or actors.

        Raises:
            ValueError: While executing: ``fn`` returned no dict.
        """
        return self._map(MapRows, fn, options_of(locals()), keeps_rows=True)

    def flat_map(
        self,
        fn: Callable[..., Iterable[dict[str, Any]]],
        *,
        compute: Compute | None = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, ...] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return a dataset with all rows of ``fn(row)``, a list of dicts, for each row.

        The arguments are those of :meth:`map`.
        """
        return self._map(FlatMapRows, fn, options_of(locals()))

    def filter(
        self,
        fn: Callable[..., bool] | None = None,
        expr: Any = None,
        *,
        compute: Compute | None = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, ...] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return the rows for which ``fn(row)`` or an expression is true.

        Args:
            fn: Called with each row, a dict. The other arguments are those of :meth:`map`.
            expr: An expression of ``ray.data.expressions``, such as ``col("x") > 5``; much faster.

        Raises:
            ValueError: Not exactly one of ``fn`` and ``expr`` is given.
        """
        if (fn is None) == (expr is None):
            raise ValueError("Exactly one of 'fn' or 'expr' must be provided.")
        options = options_of(locals())
        options.pop("expr", None)
        if fn is not None:
            return self._map(FilterRows, fn, options)
        from heliostat.data import expressions

        if isinstance(expr, str):
            warnings.warn(
                "String expressions are deprecated. Use ray.data.expressions instead, for example "
                "ds.filter(expr=col('column') > 5).",
                DeprecationWarning,
                stacklevel=2,
            )
            expr = expressions.parse(expr)
        given = [k for k in options if k.startswith("fn_") and options[k] is not None]
        if given:
            raise ValueError(f"{', '.join(given)} have no meaning with `expr`.")
        options.pop("concurrency", None)
        remote = {
            k: v for k, v in options.items() if k in (*_REMOTE, *_REMOTE_MORE) and v is not None
        }
        plan = Map(
            self._plan,
            FilterExpression(expr.evaluate, repr(expr)),
            compute or TaskPoolStrategy(),
            remote,
        )
        return self._derive(plan)

    def map_batches(
        self,
        fn: Callable[..., Any],
        *,
        batch_size: int | str | None = None,
        compute: Compute | None = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = True,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, ...] | None = None,
        udf_modifying_row_count: bool = True,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Return a dataset of what ``fn(batch)`` gives for each batch.

        Args:
            fn: A function or class. It returns a dict of arrays, a DataFrame or a table, or yields
                several of them.
            batch_size: Rows of a batch; None or "auto": a batch is a block.
            batch_format: "default" and "numpy": a dict of arrays, "pandas", "pyarrow", None: as is.
            zero_copy_batch: Arrays may be read-only views; False: copies that may be written to.
            udf_modifying_row_count: False promises that each batch keeps its rows.

        The other arguments are those of :meth:`map`.

        Raises:
            ValueError: An unknown format; GPUs without a ``batch_size``; while executing: ``fn``
                returned no batch.
        """
        if num_gpus and batch_size in (None, "auto"):
            raise ValueError(
                "You must provide `batch_size` to `map_batches` when requesting GPUs. The best size "
                "depends on the model and on the GPU's memory: use the largest that fits."
            )
        if isinstance(batch_size, str) and batch_size != "auto":
            raise ValueError(f"batch_size must be an integer, None or 'auto', got {batch_size!r}.")
        size = None if isinstance(batch_size, str) else batch_size
        if size is not None and size < 1:
            raise ValueError("Batch size can't be negative or 0")
        block.check_format(batch_format)
        options = options_of(locals())
        for name in (
            "batch_size",
            "batch_format",
            "zero_copy_batch",
            "udf_modifying_row_count",
            "size",
        ):
            options.pop(name, None)
        return self._map(
            lambda udf: MapBatches(udf, size, batch_format, zero_copy_batch),
            fn,
            options,
            min_rows=size or 0,
            keeps_rows=not udf_modifying_row_count,
        )

    # --- columns ---

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
        """Return the dataset with a column more (or another one): what ``fn(batch)`` gives.

        Raises:
            ValueError: ``batch_format`` is none of "pandas", "numpy", "pyarrow".
        """
        if batch_format not in ("pandas", "numpy", "pyarrow"):
            raise ValueError(
                f"batch_format argument must be pandas, numpy or pyarrow, got {batch_format!r}."
            )

        def add_column(table: Any) -> Any:
            made = fn(block.to_batch(table, batch_format))
            column = block.from_batch({col: _values(made)}, "add_column's function").column(col)
            return block.with_columns(table, {col: column})

        return self.map_batches(
            add_column,
            batch_format="pyarrow",
            concurrency=concurrency,
            udf_modifying_row_count=False,
            **ray_remote_args,
        )

    def with_column(self, column_name: str, expr: Any, **ray_remote_args: Any) -> Dataset:
        """Return the dataset with a column more: the value of an expression."""
        return self.with_columns({column_name: expr}, **ray_remote_args)

    def with_columns(self, exprs: dict[str, Any], **ray_remote_args: Any) -> Dataset:
        """Return the dataset with columns more, by name; later ones may use earlier ones."""

        def add(table: Any) -> Any:
            for name, expression in exprs.items():
                table = block.with_columns(table, {name: expression.column(table)})
            return table

        return self._map_tables("Project", add, keeps_rows=True)

    def drop_columns(self, cols: str | list[str], **_: Any) -> Dataset:
        """Return the dataset without columns.

        Raises:
            KeyError: There is no such column.
        """
        cols = [cols] if isinstance(cols, str) else list(cols)
        if len(set(cols)) != len(cols):
            raise ValueError(f"drop_columns got a name twice: {cols}")

        def drop(table: Any) -> Any:
            missing = [c for c in cols if c not in table.column_names]
            if missing and table.num_columns:
                raise KeyError(
                    f"drop_columns: column(s) not found in dataset schema: {missing}. Available "
                    f"columns: {table.column_names}"
                )
            return table.drop_columns([c for c in cols if c in table.column_names])

        return self._map_tables("DropColumns", drop, keeps_rows=True)

    def select_columns(self, cols: str | list[str], **_: Any) -> Dataset:
        """Return the dataset with only these columns, in this order.

        Raises:
            ValueError: A name comes twice.
            KeyError: While executing: there is no such column.
        """
        cols = [cols] if isinstance(cols, str) else list(cols)
        if not all(isinstance(c, str) for c in cols):
            raise ValueError("select_columns requires all elements of 'cols' to be strings.")
        if len(set(cols)) != len(cols):
            raise ValueError(f"select_columns got a name twice: {cols}")

        def select(table: Any) -> Any:
            missing = [c for c in cols if c not in table.column_names]
            if missing and table.num_columns:
                raise KeyError(
                    f"select_columns: there is no column {missing}; the columns are "
                    f"{table.column_names}"
                )
            return table.select([c for c in cols if c in table.column_names])

        return self._map_tables("SelectColumns", select, keeps_rows=True)

    def rename_columns(self, names: dict[str, str] | list[str], **_: Any) -> Dataset:
        """Return the dataset with other column names: a dict from old to new, or all names.

        Raises:
            ValueError: Names come twice, or a list has the wrong length.
        """
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

        def rename(table: Any) -> Any:
            if isinstance(names, dict):
                return table.rename_columns([names.get(n, n) for n in table.column_names])
            if len(new) != table.num_columns and table.num_columns:
                raise ValueError(
                    f"rename_columns got {len(new)} names for the columns {table.column_names}"
                )
            return table.rename_columns(new) if table.num_columns else table

        return self._map_tables("RenameColumns", rename, keeps_rows=True)

    # --- fewer rows ---

    def limit(self, limit: int) -> Dataset:
        """Return the first ``limit`` rows. Blocks that are not needed are not computed."""
        if limit < 0:
            raise ValueError(f"limit must not be negative, got {limit}.")
        return self._derive(Limit(self._plan, limit))

    def random_sample(self, fraction: float, *, seed: Any = None) -> Dataset:
        """Return each row with probability ``fraction``.

        Raises:
            ValueError: ``fraction`` is not between 0 and 1.
        """
        if fraction < 0 or fraction > 1:
            raise ValueError("Fraction must be between 0 and 1.")

        def sample(tables: Any) -> Any:
            rng: Any = None
            for table in tables:
                if rng is None:
                    # Blocks must not all draw the same numbers.
                    rng = np.random.default_rng(None if seed is None else [seed, task.index()])
                yield table.filter(rng.random(table.num_rows) < fraction)

        return self._derive(Map(self._plan, MapStream(sample, "RandomSample")))


def options_of(given: dict[str, Any]) -> dict[str, Any]:
    """The options among a method's arguments."""
    options = {k: v for k, v in given.items() if k not in ("self", "fn", "ray_remote_args")}
    options.update(given.get("ray_remote_args") or {})
    return options


def compute_of(udf: Udf, compute: Any, concurrency: Any) -> Compute:
    """Where a function runs.

    Raises:
        ValueError: The arguments contradict each other.
    """
    if compute is not None:
        if concurrency is not None:
            raise ValueError("`concurrency` and `compute` cannot both be given.")
        if not isinstance(compute, TaskPoolStrategy | ActorPoolStrategy):
            raise ValueError(
                f"compute must be a TaskPoolStrategy or an ActorPoolStrategy, got {compute!r}."
            )
        if udf.is_class and isinstance(compute, TaskPoolStrategy):
            raise ValueError(
                f"{udf.name} is a class, which needs actors: use compute=ActorPoolStrategy(...)."
            )
        return compute
    if isinstance(concurrency, tuple | list):
        if not udf.is_class:
            raise ValueError(
                f"`concurrency` is a tuple {concurrency}, which is for classes; {udf.name} is a function."
            )
        if len(concurrency) not in (2, 3) or not all(isinstance(n, int) for n in concurrency):
            raise ValueError(
                "`concurrency` is expected to be (min, max) or (min, max, initial), got "
                f"{concurrency}."
            )
        least, most, *initial = concurrency
        return ActorPoolStrategy(
            min_size=least, max_size=most, initial_size=initial[0] if initial else None
        )
    if concurrency is not None and (not isinstance(concurrency, int) or concurrency < 1):
        raise ValueError(f"`concurrency` must be a positive integer, got {concurrency!r}.")
    if udf.is_class:
        return ActorPoolStrategy(size=concurrency) if concurrency else ActorPoolStrategy()
    return TaskPoolStrategy(concurrency)


def _values(made: Any) -> Any:
    """What a function of ``add_column`` returned, as a column: a series, an array, a frame of one."""
    if hasattr(made, "iloc") and hasattr(made, "to_numpy"):
        import pyarrow as pa

        if hasattr(made, "columns"):
            made = made.iloc[:, 0]
        return made.tolist() if made.dtype == object else pa.Array.from_pandas(made)
    return made
