"""The transformations of datasets, as Ray names them. All are lazy: each adds a step to the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from heliostat.core.platform.remote_options import ALL
from heliostat.data.dataset import columns, combine, maps, reorder
from heliostat.data.dataset.base import Base, key_names
from heliostat.data.dataset.options import CALL, PLACE, CallOptions, RemoteOptions, takes
from heliostat.data.dataset.placement import Options
from heliostat.data.execute import exchanges, joins
from heliostat.data.expressions.expr import Expr, UnnestExpr
from heliostat.data.missing import require
from heliostat.data.plan.columns import TrainTestPart
from heliostat.data.plan.operators import Exchange, MixStoppingCondition, Union
from heliostat.data.plan.transforms import MapStream
from heliostat.data.seeds import RandomSeedConfig, checked
from heliostat.data.sources.options import refuse, spelled_methods

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from heliostat.data.aliases import Function, Row
    from heliostat.data.dataset import Dataset
    from heliostat.data.grouped import GroupedData


@spelled_methods("Dataset")
class Transforms(Base):
    """The methods of ``Dataset`` that execute nothing."""

    # --- rows and batches ---

    @takes(CALL)
    def map(self, fn: Callable[..., Row], **options: Unpack[CallOptions]) -> Dataset:
        """Return a dataset with ``fn(row)`` for each row, both dicts.

        ``fn`` is a function, or a class whose instances are called, one per actor.

        Args:
            fn: What is called; may be async.

        Raises:
            ValueError: While executing: ``fn`` returned no dict.

        Examples:
            >>> import ray
            >>> ray.data.range(3).map(lambda row: {"n": row["id"] ** 2}).take_all()
            [{'n': 0}, {'n': 1}, {'n': 4}]
        """
        return self._derive(maps.rows(self._plan, fn, Options.of(options)))

    @takes(CALL)
    def flat_map(self, fn: Callable[..., Iterable[Row]], **options: Unpack[CallOptions]) -> Dataset:
        """Return a dataset with all rows of ``fn(row)``, a list of dicts, for each row.

        Args:
            fn: A function, or a class whose instances are called, one per actor. It returns a list of
                dicts, or yields dicts.

        Raises:
            ValueError: While executing: ``fn`` returned no dicts.

        Examples:
            >>> import ray
            >>> ds = ray.data.from_items(["a b", "c"])
            >>> ds.flat_map(lambda row: [{"word": w} for w in row["item"].split()]).take_all()
            [{'word': 'a'}, {'word': 'b'}, {'word': 'c'}]
        """
        return self._derive(maps.flat_rows(self._plan, fn, Options.of(options)))

    @takes(CALL)
    def filter(
        self,
        fn: Callable[..., bool] | None = None,
        expr: Expr | str | None = None,
        **options: Unpack[CallOptions],
    ) -> Dataset:
        """Return the rows for which ``fn(row)`` or an expression is true.

        Args:
            fn: Called with each row, a dict; or a class whose instances are, one per actor.
            expr: An expression of ``ray.data.expressions``, such as ``col("x") > 5``; much faster.

        Raises:
            ValueError: Not exactly one of ``fn`` and ``expr`` is given, or ``fn`` is not a function.
            TypeError: ``expr`` is not an expression.

        Examples:
            >>> import ray
            >>> from ray.data.expressions import col
            >>> ray.data.range(5).filter(expr=col("id") >= 3).take_all()
            [{'id': 3}, {'id': 4}]
        """
        return self._derive(maps.chosen(self._plan, fn, expr, Options.of(options)))

    @takes(
        CALL,
        batch_format="compute",
        zero_copy_batch="batch_format",
        udf_modifying_row_count="concurrency",
    )
    def map_batches(
        self,
        fn: Callable[..., object],
        *,
        batch_size: int | str | None = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = True,
        udf_modifying_row_count: bool = True,
        **options: Unpack[CallOptions],
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
            batch_format: ``"default"`` and ``"numpy"``: a dict of arrays; ``"pandas"``: a DataFrame;
                ``"pyarrow"``: a table; ``None``: as the block is.
            zero_copy_batch: Arrays may be read-only views of the store. Default True; False: copies that
                may be written to.
            udf_modifying_row_count: Default True; False promises that each batch keeps its number of rows,
                so that a ``limit`` behind it may be done before it.

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
        keeps = not udf_modifying_row_count
        made = Options.of(options)
        plan = maps.batches(self._plan, fn, batch_size, batch_format, zero_copy_batch, keeps, made)
        return self._derive(plan)

    # --- fewer rows ---

    def limit(self, limit: int) -> Dataset:
        """Return the first rows. Blocks that are not needed are not computed.

        Args:
            limit: How many rows at most.

        Raises:
            ValueError: ``limit`` is negative.
            TypeError: It is not an integer.

        Examples:
            >>> import ray
            >>> ray.data.range(1000).limit(2).take_all()
            [{'id': 0}, {'id': 1}]
        """
        return self._derive(maps.first(self._plan, limit))

    def random_sample(
        self, fraction: float, *, seed: int | RandomSeedConfig | None = None
    ) -> Dataset:
        """Return each row with probability ``fraction``.

        Args:
            fraction: The probability, from 0 to 1.
            seed: Makes the choice repeatable: a number, or a ``RandomSeedConfig``. Default: another one
                each time.

        Raises:
            ValueError: ``fraction`` is not between 0 and 1, or the dataset is known to be empty.
            TypeError: It is not a number.

        Examples:
            >>> import ray
            >>> ray.data.range(1000).random_sample(0.5, seed=1).count() in range(400, 600)
            True
        """
        return self._derive(maps.sampled(self._plan, fraction, seed))

    # --- columns ---

    @takes(("compute", "concurrency", *PLACE))
    def add_column(
        self,
        col: str,
        fn: Function,
        *,
        batch_format: str | None = "pandas",
        **options: Unpack[RemoteOptions],
    ) -> Dataset:
        """Return the dataset with a column more, or with other values in it: what ``fn(batch)`` gives.

        Args:
            col: The column's name.
            fn: Takes a batch; returns a value for each row: an array, a series or a list.
            batch_format: Of the batch: ``"pandas"`` (the default), ``"numpy"`` or ``"pyarrow"``.

        Raises:
            ValueError: ``batch_format`` is none of the three, or ``fn`` cannot be called.

        Examples:
            >>> import ray
            >>> ray.data.range(2).add_column("twice", lambda df: df["id"] * 2).take_all()
            [{'id': 0, 'twice': 0}, {'id': 1, 'twice': 2}]
        """
        return self._derive(columns.added(self._plan, col, fn, batch_format, Options.of(options)))

    @takes(("compute", *PLACE))
    def with_column(
        self, column_name: str, expr: Expr, **options: Unpack[RemoteOptions]
    ) -> Dataset:
        """Return the dataset with a column more, or with other values in it.

        Args:
            column_name: The column.
            expr: An expression of ``ray.data.expressions`` that gives its values.

        Raises:
            TypeError: It is not an expression, or ``unnest``, which gives several columns.

        Examples:
            >>> import ray
            >>> from ray.data.expressions import col
            >>> ray.data.range(2).with_column("next", col("id") + 1).take_all()
            [{'id': 0, 'next': 1}, {'id': 1, 'next': 2}]
        """
        given = [{column_name: expr}]
        return self._derive(columns.computed(self._plan, given, Options.of(options)))

    @takes(("compute", *PLACE))
    def with_columns(
        self,
        exprs: Mapping[str, Expr] | UnnestExpr | None = None,
        *more_exprs: Mapping[str, Expr] | UnnestExpr,
        **options: Unpack[RemoteOptions],
    ) -> Dataset:
        """Return the dataset with columns more. All expressions see the columns as they were before.

        Args:
            exprs: Expressions by column, or ``unnest(expression)``, which gives a column for each field of
                a struct.
            *more_exprs: More of both. Of columns with the same name the last one counts.

        Raises:
            TypeError: An argument is neither; a value is not an expression; ``unnest`` of what is known to be
                no struct.

        Examples:
            >>> import ray
            >>> from ray.data.expressions import col
            >>> ray.data.range(1).with_columns({"a": col("id") + 1, "b": col("id") + 2}).take_all()
            [{'id': 0, 'a': 1, 'b': 2}]
        """
        given = (exprs, *more_exprs)
        return self._derive(columns.computed(self._plan, given, Options.of(options)))

    @takes(("compute", "concurrency", *PLACE))
    def drop_columns(self, cols: str | list[str], **options: Unpack[RemoteOptions]) -> Dataset:
        """Return the dataset without some columns.

        Args:
            cols: A column or several.

        Raises:
            KeyError: There is no such column.
            ValueError: A name comes twice.

        Examples:
            >>> import ray
            >>> ray.data.from_items([{"a": 1, "b": 2}]).drop_columns("b").take_all()
            [{'a': 1}]
        """
        return self._derive(columns.dropped(self._plan, cols, Options.of(options)))

    @takes(("compute", "concurrency", *PLACE))
    def select_columns(self, cols: str | list[str], **options: Unpack[RemoteOptions]) -> Dataset:
        """Return the dataset with only these columns, in this order.

        Args:
            cols: A column or several.

        Raises:
            ValueError: A name comes twice, or is not a text.
            KeyError: While executing: there is no such column.

        Examples:
            >>> import ray
            >>> ray.data.from_items([{"a": 1, "b": 2}]).select_columns(["b"]).take_all()
            [{'b': 2}]
        """
        return self._derive(columns.selected(self._plan, cols, Options.of(options)))

    @takes(("concurrency", *PLACE))
    def rename_columns(
        self, names: dict[str, str] | list[str], **options: Unpack[RemoteOptions]
    ) -> Dataset:
        """Return the dataset with other column names.

        Args:
            names: A dict from old to new names, or a list of all new names.

        Raises:
            TypeError: ``names`` is neither a dict nor a list.
            ValueError: Names come twice, or a list has the wrong length.
            KeyError: While executing: there is no such column.

        Examples:
            >>> import ray
            >>> ray.data.range(1).rename_columns({"id": "n"}).take_all()
            [{'n': 0}]
        """
        return self._derive(columns.renamed(self._plan, names, Options.of(options)))

    # --- the order of rows, and the blocks ---

    def random_shuffle(
        self,
        *,
        seed: int | RandomSeedConfig | None = None,
        num_blocks: int | None = None,
        **ray_remote_args: object,
    ) -> Dataset:
        """Return all rows in random order.

        Args:
            seed: A number: the same order at every execution. A ``RandomSeedConfig``: an order of its own
                for each execution, which can be repeated. Default: another order each time.
            num_blocks: Blocks of the result. Default: as many as before.
            **ray_remote_args: Options of ``ray.remote`` for the tasks.

        Examples:
            >>> import ray
            >>> sorted(row["id"] for row in ray.data.range(4).random_shuffle(seed=1).take_all())
            [0, 1, 2, 3]
        """
        refuse("random_shuffle", [name for name in ray_remote_args if name not in ALL], also=ALL)
        run = exchanges.RandomShuffle(checked(seed), num_blocks, ray_remote_args)
        return self._derive(reorder.exchanged(self._plan, "RandomShuffle", run))

    def randomize_block_order(self, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """Return the blocks in random order; rows within a block stay as they are.

        Args:
            seed: As of :meth:`random_shuffle`.
        """
        run = exchanges.RandomizeBlocks(checked(seed))
        return self._derive(reorder.exchanged(self._plan, "RandomizeBlockOrder", run))

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: list[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """Return the same rows in other blocks.

        Args:
            num_blocks: As many blocks, of about the same number of rows.
            target_num_rows_per_block: Blocks of that many rows, made as a stream.
            strict: Kept for compatibility: blocks always have exactly that many rows.
            shuffle: Distribute rows at random.
            keys: Rows with the same values in these columns come into the same block.
            sort: Sort by ``keys``.

        Raises:
            ValueError: Not exactly one of the first two is given, or a number is not positive.

        Examples:
            >>> import ray
            >>> ray.data.range(10).repartition(2).materialize().num_blocks()
            2
        """
        return self._derive(
            reorder.repartitioned(self, num_blocks, target_num_rows_per_block, shuffle, keys)
        )

    def sort(
        self,
        key: str | list[str] | None = None,
        descending: bool | list[bool] = False,
        boundaries: list[object] | None = None,
    ) -> Dataset:
        """Return the rows sorted by one column or several; missing values come last.

        Args:
            key: Column or columns.
            descending: One flag, or one for each column.
            boundaries: Values of the first column at which blocks begin; sampled by default.

        Raises:
            ValueError: There is no key, or not one flag per column.

        Examples:
            >>> import ray
            >>> ray.data.from_items([2, 3, 1]).sort("item", descending=True).take_all()
            [{'item': 3}, {'item': 2}, {'item': 1}]
        """
        return self._derive(reorder.ordered(self, key, descending, boundaries))

    # --- several datasets ---

    def union(self, *other: Dataset) -> Dataset:
        """Return the rows of this dataset and then those of the others.

        Args:
            *other: The other datasets.

        Raises:
            TypeError: One is not a dataset.

        Examples:
            >>> import ray
            >>> ray.data.range(1).union(ray.data.range(2)).take_all()
            [{'id': 0}, {'id': 0}, {'id': 1}]
        """
        return self._derive(Union((self._plan, *combine.plans("union", other))))

    def mix(
        self,
        *other: Dataset,
        weights: list[float] | None = None,
        stopping_condition: MixStoppingCondition = MixStoppingCondition.STOP_ON_LONGEST_DROP,
    ) -> Dataset:
        """Return the blocks of several datasets by turns, their rows in the ratio of ``weights``.

        Every block is of one dataset: the one whose rows are the furthest behind its share.

        Args:
            *other: The other datasets.
            weights: A positive number for this dataset and for each other one. Default: all alike.
            stopping_condition: Whether the first dataset that ends the mix ends it for all, or the others
                go on until all have ended.

        Raises:
            ValueError: There is not one weight for each dataset, or one is not positive.
        """
        plans = (self._plan, *combine.plans("mix", other))
        return self._derive(combine.mixed(plans, weights, stopping_condition))

    def zip(self, *other: Dataset) -> Dataset:
        """Return the columns of several datasets side by side; a name that is taken gets "_1".

        Args:
            *other: The other datasets, of as many rows.

        Raises:
            ValueError: While executing: the numbers of rows differ.

        Examples:
            >>> import ray
            >>> ray.data.range(1).zip(ray.data.from_items(["a"])).take_all()
            [{'id': 0, 'item': 'a'}]
        """
        plans = (self._plan, *combine.plans("zip", other))
        return self._derive(Exchange(plans, "Zip", joins.Zip()))

    def join(
        self,
        ds: Dataset,
        join_type: str,
        num_partitions: int | None = None,
        on: tuple[str, ...] | str = ("id",),
        right_on: tuple[str, ...] | str | None = None,
        left_suffix: str | None = None,
        right_suffix: str | None = None,
        *,
        partition_size_hint: int | None = None,
        aggregator_ray_remote_args: dict[str, object] | None = None,
        validate_schemas: bool = False,
    ) -> Dataset:
        """Return this dataset joined with another one.

        Args:
            ds: The right side.
            join_type: "inner", "left_outer", "right_outer", "full_outer", "left_semi", "right_semi",
                "left_anti" or "right_anti".
            num_partitions: Tasks that join; default: by the data.
            on: Key columns.
            right_on: Key columns of the right side, if they have other names.
            left_suffix: Added to columns that both sides have, besides the keys.
            right_suffix: The same, for the right side.
            partition_size_hint: Without effect.
            aggregator_ray_remote_args: Options of the joining tasks.
            validate_schemas: Find out both sides' columns now, if that takes to execute them; else the keys
                are looked at now where the columns are known, and when it is executed, before rows move.

        Raises:
            ValueError: An unknown kind of join, keys that do not match, or one that a side lacks. While
                executing: both sides have a column of the same name, and no suffix tells them apart.

        Examples:
            >>> import ray
            >>> left = ray.data.from_items([{"id": 1, "a": "x"}, {"id": 2, "a": "y"}])
            >>> right = ray.data.from_items([{"id": 2, "b": "z"}])
            >>> left.join(right, "inner", on="id").take_all()
            [{'id': 2, 'a': 'y', 'b': 'z'}]
        """
        suffixes = (left_suffix, right_suffix)
        remote = aggregator_ray_remote_args or {}
        plan = combine.joined(
            self, ds, join_type, num_partitions, on, right_on, suffixes, remote, validate_schemas
        )
        return self._derive(plan)

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: str = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: object,
    ) -> tuple[Dataset, Dataset]:
        """Return two datasets, one of about ``test_size`` of the rows for testing; executes nothing.

        A row is in the same one of them at every execution.

        Args:
            test_size: The fraction of the rows for testing, between 0 and 1.
            split_type: "random", or "hash": by the hash of the values of a column, so that rows with the
                same value stay together.
            hash_column: That column.
            seed: Of "random".
            **ray_remote_kwargs: Options of the tasks.

        Raises:
            ValueError: An argument is out of range, or of the other ``split_type``.
        """
        keep = TrainTestPart.checked(test_size, split_type, hash_column, seed)
        made = Options.of(ray_remote_kwargs)
        train, test = (
            self._derive(
                made.step(self._plan, MapStream(one, "StreamingTrainTestSplit"), "the split")
            )
            for one in keep
        )
        return train, test

    # --- groups ---

    def groupby(
        self, key: str | list[str] | None, num_partitions: int | None = None
    ) -> GroupedData:
        """Return the dataset in groups of rows that have the same values in some columns.

        Args:
            key: A column or several; ``None``: all rows are one group.
            num_partitions: Tasks that group. Default: by the data.

        Raises:
            ValueError: There is no such column.

        Examples:
            >>> import ray
            >>> ds = ray.data.from_items([{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 3}])
            >>> ds.groupby("k").sum("v").take_all()
            [{'k': 'a', 'sum(v)': 4}, {'k': 'b', 'sum(v)': 2}]
        """
        from heliostat.data.grouped import GroupedData

        keys = [] if key is None else key_names(key)
        require(keys, self._known_columns(), "groupby")
        return GroupedData(self, keys, num_partitions)
