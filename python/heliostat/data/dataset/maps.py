"""Transformations of rows and batches. All are lazy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from heliostat.data import block
from heliostat.data.dataset.base import Base
from heliostat.data.dataset.options import options_of, placed
from heliostat.data.expressions import text
from heliostat.data.expressions.expr import Expr, Unnest
from heliostat.data.plan import analysis
from heliostat.data.plan.columns import RandomSample
from heliostat.data.plan.operators import Compute, Limit, Map
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
from heliostat.data.seeds import checked

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset


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
        where = placed(options, udf.name, is_class=udf.is_class)
        return self._derive(
            Map(self._plan, make(udf), min_rows=min_rows, keeps_rows=keeps_rows, **where)
        )

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

        Examples:
            >>> import ray
            >>> ray.data.range(3).map(lambda row: {"n": row["id"] ** 2}).take_all()
            [{'n': 0}, {'n': 1}, {'n': 4}]
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

        Args:
            fn: A function, or a class whose instances are called, one per actor. It returns a list of
                dicts, or yields dicts.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
                pool for classes.
            fn_args: Further positional arguments of ``fn``. Default: none.
            fn_kwargs: Keyword arguments of ``fn``. Default: none.
            fn_constructor_args: Positional arguments of the class, if ``fn`` is one. Default: none.
            fn_constructor_kwargs: Keyword arguments of the class. Default: none.
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            concurrency: Workers of a stage, or (least, most).
            ray_remote_args_fn: Gives further options of ``ray.remote`` when the dataset is executed.
                Default: none.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            ValueError: While executing: ``fn`` returned no dicts.

        Examples:
            >>> import ray
            >>> ds = ray.data.from_items(["a b", "c"])
            >>> ds.flat_map(lambda row: [{"word": w} for w in row["item"].split()]).take_all()
            [{'word': 'a'}, {'word': 'b'}, {'word': 'c'}]
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
            fn: Called with each row, a dict; or a class whose instances are, one per actor.
            expr: An expression of ``ray.data.expressions``, such as ``col("x") > 5``; much faster.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
                pool for classes.
            fn_args: Further positional arguments of ``fn``. Default: none.
            fn_kwargs: Keyword arguments of ``fn``. Default: none.
            fn_constructor_args: Positional arguments of the class, if ``fn`` is one. Default: none.
            fn_constructor_kwargs: Keyword arguments of the class. Default: none.
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            concurrency: Workers of a stage, or (least, most).
            ray_remote_args_fn: Gives further options of ``ray.remote`` when the dataset is executed.
                Default: none.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            ValueError: Not exactly one of ``fn`` and ``expr`` is given, or ``fn`` is no function.
            TypeError: ``expr`` is no expression.

        Examples:
            >>> import ray
            >>> from ray.data.expressions import col
            >>> ray.data.range(5).filter(expr=col("id") >= 3).take_all()
            [{'id': 3}, {'id': 4}]
        """
        if (fn is None) == (expr is None):
            raise ValueError("Exactly one of 'fn' or 'expr' must be provided.")
        options = options_of(locals(), "expr")
        if fn is not None:
            if not callable(fn):
                raise ValueError(
                    "fn must be a UserDefinedFunction (a function or a class), but got an object of "
                    f"{type(fn).__name__}. Pass an expression, or the text of one, as filter(expr=...)."
                )
            return self._map(FilterRows, fn, options)
        if isinstance(expr, str):
            warnings.warn(
                "String expressions are deprecated. Use ray.data.expressions instead, for example "
                "ds.filter(expr=col('column') > 5).",
                DeprecationWarning,
                stacklevel=2,
            )
            expr = text.parse(expr)
        if not isinstance(expr, Expr) or isinstance(expr, Unnest):
            raise TypeError(
                "filter(expr=...) takes an expression with one truth value a row, such as "
                f"col('x') > 5, not {expr!r}."
            )
        given = [k for k in options if k.startswith("fn_")]
        if given:
            raise ValueError(f"{', '.join(given)} have no meaning with `expr`.")
        where = placed(options, repr(expr), is_class=expr.keeps_state)
        return self._derive(Map(self._plan, FilterExpression(expr), **where))

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

        The fast way to change many rows: a batch is a dict of NumPy arrays, unless ``batch_format`` says
        else. A class is made once in each actor; use one to load a model once.

        Args:
            fn: A function, or a class whose instances are called. It may be async. It returns a dict of
                arrays or lists of one length, a DataFrame or a table, or yields several of them. The number
                of rows may change.
            batch_size: Rows of a batch. Default ``None``: a batch is a block; ``"auto"``: as many rows of a
                block as take 16 MiB.
            compute: ``TaskPoolStrategy`` or ``ActorPoolStrategy``. Default: tasks for functions, an actor
                pool for classes.
            batch_format: ``"default"`` and ``"numpy"``: a dict of arrays; ``"pandas"``: a DataFrame;
                ``"pyarrow"``: a table; ``None``: as the block is.
            zero_copy_batch: Arrays may be read-only views of the store. Default True; False: copies that
                may be written to.
            fn_args: Further positional arguments of ``fn``. Default: none.
            fn_kwargs: Keyword arguments of ``fn``. Default: none.
            fn_constructor_args: Positional arguments of the class, if ``fn`` is one. Default: none.
            fn_constructor_kwargs: Keyword arguments of the class. Default: none.
            num_cpus: The workers' CPUs.
            num_gpus: GPUs of each task or actor. Default 0.
            memory: The workers' heap, in bytes.
            concurrency: Workers of a stage, or (least, most).
            udf_modifying_row_count: Default True; False promises that each batch keeps its number of rows,
                so that a ``limit`` behind it may be done before it.
            ray_remote_args_fn: Gives further options of ``ray.remote`` when the dataset is executed.
                Default: none.
            **ray_remote_args: Further options of ``ray.remote`` for the tasks or actors.

        Raises:
            ValueError: The format is unknown, or GPUs are asked for without a ``batch_size``. While
                executing: ``fn`` returned no batch, or did not keep its promise.
            UserCodeException: While executing: ``fn`` raised. The error is an instance of the class of what
                it raised, too.

        Examples:
            >>> import ray
            >>> ds = ray.data.range(4)
            >>> ds.map_batches(lambda batch: {"n": batch["id"] + 10}).take_all()
            [{'n': 10}, {'n': 11}, {'n': 12}, {'n': 13}]
            >>> class Model:
            ...     def __init__(self, factor):
            ...         self.factor = factor
            ...     def __call__(self, batch):
            ...         batch["id"] = batch["id"] * self.factor
            ...         return batch
            >>> ds.map_batches(Model, fn_constructor_args=[3], concurrency=1, batch_size=2).sum("id")
            18
        """
        options = options_of(
            locals(), "batch_size", "batch_format", "zero_copy_batch", "udf_modifying_row_count"
        )
        if num_gpus and batch_size in (None, "auto"):
            raise ValueError(
                "You must provide `batch_size` to `map_batches` when requesting GPUs. The best size "
                "depends on the model and on the GPU's memory: use the largest that fits."
            )
        if isinstance(batch_size, str) and batch_size != "auto":
            raise ValueError(f"batch_size must be an integer, None or 'auto', got {batch_size!r}.")
        size = batch_size if isinstance(batch_size, int) else 0
        if size < 1 and batch_size not in (None, "auto"):
            raise ValueError("Batch size can't be negative or 0")
        block.check_format(batch_format)
        return self._map(
            lambda udf: MapBatches(
                udf,
                batch_size,
                batch_format,
                zero_copy_batch,
                keeps_rows=not udf_modifying_row_count,
            ),
            fn,
            options,
            min_rows=size,
            keeps_rows=not udf_modifying_row_count,
        )

    # --- fewer rows ---

    def limit(self, limit: int) -> Dataset:
        """Return the first rows. Blocks that are not needed are not computed.

        Args:
            limit: How many rows at most.

        Raises:
            ValueError: ``limit`` is negative.

        Examples:
            >>> import ray
            >>> ray.data.range(1000).limit(2).take_all()
            [{'id': 0}, {'id': 1}]
        """
        if limit < 0:
            raise ValueError(f"limit must not be negative, got {limit}.")
        return self._derive(Limit(self._plan, limit))

    def random_sample(self, fraction: float, *, seed: Any = None) -> Dataset:
        """Return each row with probability ``fraction``.

        Args:
            fraction: The probability, from 0 to 1.
            seed: Makes the choice repeatable: a number, or a ``RandomSeedConfig``. Default: another one
                each time.

        Raises:
            ValueError: ``fraction`` is not between 0 and 1, or the dataset is known to be empty.

        Examples:
            >>> import ray
            >>> ray.data.range(1000).random_sample(0.5, seed=1).count() in range(400, 600)
            True
        """
        if fraction < 0 or fraction > 1:
            raise ValueError("Fraction must be between 0 and 1.")
        if analysis.rows(self._plan) == 0:
            raise ValueError("Cannot sample from an empty Dataset.")

        return self._derive(
            Map(self._plan, MapStream(RandomSample(fraction, checked(seed)), "RandomSample"))
        )
