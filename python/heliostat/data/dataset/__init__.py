"""``Dataset``: lazy, streamed.

Its methods stand in chapters, each a class on top of the one before: what a dataset is (``base``), the
steps that are added to its plan (``transforms``), what executes it (``consume``), what writes it
(``write``), and here what makes several datasets or a few numbers of it. Their work is done by functions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, NoReturn

import heliostat as ray
from heliostat.data import block
from heliostat.data.dataset import preview, splits, summarize, summary
from heliostat.data.dataset.schema import Schema
from heliostat.data.dataset.summary import DatasetSummary
from heliostat.data.dataset.write import Writers
from heliostat.data.plan import analysis
from heliostat.data.plan.operators import InputBlocks
from heliostat.data.sources.options import spelled_methods

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.actor import ActorHandle
    from heliostat.data.aggregation import AggregateFnV2
    from heliostat.data.aliases import Aggregation, Row, Value
    from heliostat.data.dataset.summary import Aggregations
    from heliostat.data.datatype import DataType
    from heliostat.data.iterate.iterator import DataIterator

__all__ = ["Dataset", "MaterializedDataset", "Schema"]


@spelled_methods("Dataset")
class Dataset(Writers):
    """Rows in named columns, in blocks that are made when they are needed.

    Made by ``from_...``, ``read_...`` and ``range``; transformations give new datasets and run nothing.
    What consumes a dataset executes it as a stream, within a part of the object store's memory.

    Examples:
        >>> import ray
        >>> ds = ray.data.range(6).map(lambda row: {"n": row["id"] * 2})
        >>> ds.filter(expr=ray.data.expressions.col("n") > 4).take_all()
        [{'n': 6}, {'n': 8}, {'n': 10}]
    """

    # --- parts of it ---

    def streaming_split(
        self, n: int, *, equal: bool = False, locality_hints: list[str] | None = None
    ) -> list[DataIterator]:
        """Return ``n`` iterators that share one execution an epoch; together they see every row once.

        They can be sent to other workers. An epoch begins when all have begun it, so all of them have
        to iterate at the same time.

        Args:
            n: Consumers.
            equal: All get the same number of rows; what is left over is dropped.
            locality_hints: The node id of each consumer, which prefers blocks made there.

        Raises:
            ValueError: ``n`` is not positive, or there is not one hint each.

        Examples:
            >>> import ray
            >>> left, right = ray.data.range(10).streaming_split(2, equal=True)
        """
        from heliostat.data.split.iterator import streaming_split

        return streaming_split(self, n, equal, locality_hints)

    def split(
        self, n: int, *, equal: bool = False, locality_hints: list[ActorHandle] | None = None
    ) -> list[MaterializedDataset]:
        """Execute the dataset and return it in parts.

        Args:
            n: How many.
            equal: Parts of the same length; what is left over is dropped. Default False.
            locality_hints: One for each part. Is checked and not used.

        Returns:
            The parts.

        Raises:
            ValueError: ``n`` is not positive, or there is not one hint each.

        Examples:
            >>> import ray
            >>> [part.count() for part in ray.data.range(4).split(2, equal=True)]
            [2, 2]
        """
        return splits.parts(self, n, equal, locality_hints)

    def split_at_indices(self, indices: list[int]) -> list[MaterializedDataset]:
        """Execute the dataset and return it cut at these row numbers.

        Args:
            indices: Row numbers, in order: each begins a part.

        Returns:
            The parts.

        Raises:
            ValueError: There are none, or they do not rise.

        Examples:
            >>> import ray
            >>> [part.count() for part in ray.data.range(5).split_at_indices([1, 3])]
            [1, 2, 2]
        """
        return splits.at_indices(self, indices)

    def split_proportionately(self, proportions: list[float]) -> list[MaterializedDataset]:
        """Execute the dataset and return it in parts of these fractions, and the rest.

        Args:
            proportions: Fractions of the rows, whose sum is below 1.

        Returns:
            The parts.

        Raises:
            ValueError: There are none, they are not positive, their sum is not below 1, or there are
                too few rows for a part to have any.

        Examples:
            >>> import ray
            >>> [part.count() for part in ray.data.range(10).split_proportionately([0.2, 0.5])]
            [2, 5, 3]
        """
        return splits.proportionately(self, proportions)

    def train_test_split(
        self,
        test_size: int | float,
        *,
        shuffle: bool = False,
        seed: int | None = None,
        stratify: str | None = None,
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        """Execute the dataset and return its first rows, and its last ones for testing.

        Args:
            test_size: Rows, or a fraction between 0 and 1; the rows for training are rounded down.
            shuffle: Put all rows in random order first.
            seed: Of that.
            stratify: A column whose values are to be in both parts in the same proportions.

        Returns:
            The rows for training, and those for testing.

        Raises:
            ValueError: ``test_size`` is out of range.
            TypeError: ``test_size`` is not a number.

        Examples:
            >>> import ray
            >>> train, test = ray.data.range(10).train_test_split(0.2)
            >>> train.count(), test.count()
            (8, 2)
        """
        return splits.train_and_test(self, test_size, shuffle, seed, stratify)

    # --- a few numbers ---

    def aggregate(self, *aggs: Aggregation) -> Row:
        """Return the results of aggregations by name; see ``ray.data.aggregate``.

        Args:
            *aggs: Aggregations of ``ray.data.aggregate``.

        Raises:
            ValueError: There is none.
            TypeError: One is not an aggregation.

        Examples:
            >>> import ray
            >>> from ray.data.aggregate import Mean, Sum
            >>> ray.data.range(5).aggregate(Sum("id"), Mean("id"))
            {'sum(id)': 10, 'mean(id)': 2.0}
        """
        return summarize.total(self, aggs)

    def summary(
        self,
        columns: list[str] | None = None,
        override_dtype_agg_mapping: Mapping[DataType | pa.DataType, Aggregations] | None = None,
    ) -> DatasetSummary:
        """Return statistics of columns.

        Of numbers: count, mean, min, max, std (of all values, ``ddof=0``), approx_quantile (the
        median), missing_pct and zero_pct. Of times: count, min, max, missing_pct. Of others: count,
        missing_pct, and approx_topk, the ten values that occur most. Percentages are from 0 to 100.

        Args:
            columns: Default: all.
            override_dtype_agg_mapping: By ``DataType``, a function that gives the aggregations of a
                column of that type, instead.

        Raises:
            ValueError: There is no such column.
        """
        return summary.of(self, columns, override_dtype_agg_mapping)

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Value:
        """Return the sum of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).sum("id")
            10
        """
        from heliostat.data.aggregate import Sum

        return summarize.single(self, Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Value:
        """Return the least value of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).min("id")
            0
        """
        from heliostat.data.aggregate import Min

        return summarize.single(self, Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Value:
        """Return the greatest value of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).max("id")
            4
        """
        from heliostat.data.aggregate import Max

        return summarize.single(self, Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Value:
        """Return the average of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ray.data.range(5).mean("id")
            2.0
        """
        from heliostat.data.aggregate import Mean

        return summarize.single(self, Mean, on, ignore_nulls=ignore_nulls)

    def std(
        self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Value:
        """Return the standard deviation of a column; of several (default: all), a dict.

        Args:
            on: A column, or several. Default: all.
            ddof: Degrees of freedom taken off the count. Default 1.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> round(ray.data.range(5).std("id"), 3)
            1.581
        """
        from heliostat.data.aggregate import Std

        return summarize.single(self, Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    def unique(self, column: str, ignore_nulls: bool = False) -> list[Value]:
        """Return the different values of a column.

        Args:
            column: The column.
            ignore_nulls: Leave the missing value out. Default False.

        Examples:
            >>> import ray
            >>> sorted(ray.data.from_items([1, 2, 1]).unique("item"))
            [1, 2]
        """
        from heliostat.data.aggregate import Unique

        found: list[Value] = summarize.single(self, Unique, column, ignore_nulls=ignore_nulls) or []
        return found

    # --- itself ---

    def copy(self, dataset: Dataset | None = None) -> Dataset:
        """Return a dataset of the same plan and settings.

        Args:
            dataset: What is copied. Default: this one.
        """
        source = dataset if dataset is not None else self
        return type(source)(source._plan, source._context.copy())

    def set_name(self, name: str | None) -> None:
        """Set what progress and statistics call it.

        Args:
            name: The name; ``None``: none.
        """
        self._name = name

    @property
    def name(self) -> str | None:
        """The name of the dataset in progress and statistics."""
        return self._name

    def get_dataset_id(self) -> str:
        """Return a name that no other dataset of this process has."""
        return self._id

    def has_serializable_lineage(self) -> bool:
        """Return whether :meth:`serialize_lineage` works: no blocks are of this cluster alone."""
        return not analysis.blocks(self._plan)

    def serialize_lineage(self) -> bytes:
        """Return the plan and settings as bytes, good for another cluster too.

        Raises:
            ValueError: The dataset begins with blocks in this cluster's object store.
        """
        if not self.has_serializable_lineage():
            raise ValueError(
                "This dataset begins with blocks in the object store, which do not outlive the "
                "cluster: make it with read_...() or range() instead of from_...()."
            )
        data: bytes = ray.cloudpickle.dumps((self._plan, self._context))
        return data

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """Return the dataset of :meth:`serialize_lineage`.

        Args:
            serialized_ds: The bytes. Only those that you trust: they are a pickle.
        """
        return Dataset(*pickle.loads(serialized_ds))

    def __len__(self) -> int:
        raise AttributeError(
            "Use `ds.count()` to compute the length of a distributed Dataset. "
            "This may be an expensive operation."
        )

    def __bool__(self) -> bool:
        return True  # so that `if dataset:` asks whether there is one

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "`Dataset` objects aren't iterable. To iterate records, call `ds.iter_rows()` or "
            "`ds.iter_batches()`. For more information, read "
            "https://docs.ray.io/en/latest/data/iterating-over-data.html."
        )

    def __repr__(self) -> str:
        schema = self._schema if self._schema_known else analysis.schema(self._plan)
        if schema is None or not len(schema):
            return preview.chain(self._plan, self._name)
        return preview.text(schema, analysis.rows(self._plan), None, None)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The dataset as a notebook shows it, without an execution."""
        schema = self._schema if self._schema_known else analysis.schema(self._plan)
        if schema is None or not len(schema):
            return f"<pre>{escape(repr(self))}</pre>"
        return preview.table(type(self).__name__, schema, analysis.rows(self._plan), self._shown())

    def _shown(self) -> list[Row]:
        """The rows that there are to show."""
        return []


class MaterializedDataset(Dataset):
    """A dataset whose blocks are in the object store.

    Examples:
        >>> import ray
        >>> kept = ray.data.range(4).map_batches(lambda b: {"id": b["id"] * 2}).materialize()
        >>> type(kept).__name__, kept.num_blocks() > 0
        ('MaterializedDataset', True)
        >>> kept.take_all()
        [{'id': 0}, {'id': 2}, {'id': 4}, {'id': 6}]
    """

    _is_materialized = True

    def __repr__(self) -> str:
        assert isinstance(self._plan, InputBlocks)
        schema, rows = analysis.schema(self._plan), analysis.rows(self._plan) or 0
        if schema is None or not len(schema):
            return f"MaterializedDataset(num_rows={rows}, schema=Unknown schema)"
        if rows <= preview.ROWS_MAX:
            return preview.text(schema, rows, self._edge(rows, False), None)
        first, last = self._edge(preview.EDGE, False), self._edge(preview.EDGE, True)
        return preview.text(schema, rows, first, last)

    __str__ = __repr__

    def _shown(self) -> list[Row]:
        return self._edge(preview.ROWS_MAX, False)

    def _edge(self, count: int, from_end: bool) -> list[Row]:
        """The first or the last rows."""
        assert isinstance(self._plan, InputBlocks)
        found: list[Row] = []
        for bundle in reversed(self._plan.bundles) if from_end else self._plan.bundles:
            want = min(count - len(found), bundle.rows)
            if want <= 0:
                continue
            part = bundle.slice(bundle.rows - want if from_end else 0, want)
            rows = list(block.rows(part.cut(ray.get(part.ref))))
            found = rows + found if from_end else found + rows
        return found
