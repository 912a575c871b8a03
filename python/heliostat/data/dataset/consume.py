"""The methods of ``Dataset`` that execute it: rows, batches, counts, schema, conversions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import heliostat as ray
from heliostat.data import block, frames
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import explain, maps
from heliostat.data.dataset.schema import Schema
from heliostat.data.dataset.transforms import Transforms
from heliostat.data.iterate.iterator import DataIterator, PlanIterator
from heliostat.data.plan import analysis
from heliostat.data.plan.operators import Bundle, InputBlocks, Limit, Map
from heliostat.data.plan.transforms import MapStream
from heliostat.data.ref_bundle import BlockEntry, RefBundle
from heliostat.data.sources.options import spelled_methods

if TYPE_CHECKING:
    import daft
    import dask
    import mars
    import modin
    import numpy as np
    import pandas as pd
    import pyspark
    import tensorflow as tf
    import torch

    from heliostat import ObjectRef
    from heliostat.data.aliases import Batch, Function, Row, Value
    from heliostat.data.collate_fn import CollateFn
    from heliostat.data.dataset import MaterializedDataset
    from heliostat.data.execute.stats_summary import DatasetStatsSummary
    from heliostat.data.random_access_dataset import RandomAccessDataset


@spelled_methods("Dataset")
class Consumers(Transforms):
    """The methods of ``Dataset`` that execute it."""

    # --- iterating ---

    def iterator(self) -> DataIterator:
        """Return an iterator that executes the dataset once an epoch; it can be sent to workers."""
        return PlanIterator(self)

    def iter_rows(self) -> Iterable[Row]:
        """Return rows as dicts; each ``for`` over them executes the dataset.

        Examples:
            >>> import ray
            >>> [row["id"] for row in ray.data.range(3).iter_rows()]
            [0, 1, 2]
        """
        return self.iterator().iter_rows()

    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Function | None = None,
    ) -> Iterable[Batch]:
        """Return batches; each ``for`` over them executes the dataset.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows that go through a stage together.
            batch_format: ``"default"`` and ``"numpy"``: a dict of arrays, which are read-only views of
                shared memory where possible; ``"pandas"``: a DataFrame; ``"pyarrow"`` and ``None``: a
                table.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.

        Raises:
            ValueError: The format is unknown, or the sizes make no sense.

        Examples:
            >>> import ray
            >>> for batch in ray.data.range(4).iter_batches(batch_size=2):
            ...     print(batch["id"].tolist())
            [0, 1]
            [2, 3]
        """
        return self.iterator().iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=_collate_fn,
        )

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: torch.dtype | dict[str, torch.dtype] | None = None,
        device: str | torch.device = "auto",
        collate_fn: Function | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Return batches of torch tensors, dicts by column; each ``for`` over them executes the dataset.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows that go through a stage together.
            dtypes: ``CategoricalDtype`` by column, of the results. Default: numbers.
            device: Where the tensors go. Default ``"auto"``: the training worker's device, else the CPU.
            collate_fn: Makes a batch from a dict of arrays, or from what the base class of a ``CollateFn``
                says. Default: a dict of tensors.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.
            pin_memory: Make tensors in pinned memory, from which a GPU copies faster. Default False.

        Raises:
            ValueError: ``dtypes`` and ``collate_fn`` are both given.
            TypeError: While iterating: a column is of strings, bytes or times.

        Examples:
            >>> import ray
            >>> batches = ray.data.range(4).iter_torch_batches(batch_size=2)
            >>> [batch["id"].tolist() for batch in batches]
            [[0, 1], [2, 3]]
        """
        return self.iterator().iter_torch_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            device=device,
            collate_fn=collate_fn,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            pin_memory=pin_memory,
        )

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int = 256,
        dtypes: np.dtype | dict[str, np.dtype] | None = None,
        collate_fn: CollateFn[Value] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        synchronize_batches: bool = False,
        paddings: float | dict[str, float] | None = None,
    ) -> Iterable[Any]:
        """Return batches of JAX arrays, dicts by column; each ``for`` over them executes the dataset.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows that go through a stage together.
            dtypes: ``CategoricalDtype`` by column, of the results. Default: numbers.
            collate_fn: Makes a batch from a dict of arrays, or from what the base class of a ``CollateFn``
                says. Default: a dict of tensors.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.
            synchronize_batches: Compare the sizes of batches among JAX's processes before each. Default
                False.
            paddings: A value for the rows that the last batch lacks, or a dict by column. Default: none.

        Raises:
            ImportError: JAX is not installed.
            ValueError: The sizes make no sense.
        """
        return self.iterator().iter_jax_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            collate_fn=collate_fn,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            synchronize_batches=synchronize_batches,
            paddings=paddings,
        )

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: tf.DType | dict[str, tf.DType] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Row]:
        """Return batches of TensorFlow's tensors, dicts by column; each ``for`` executes the dataset.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows that go through a stage together.
            dtypes: ``CategoricalDtype`` by column, of the results. Default: numbers.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: The sizes make no sense.
        """
        return self.iterator().iter_tf_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            dtypes=dtypes,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )

    def to_tf(
        self,
        feature_columns: str | list[str],
        label_columns: str | list[str],
        *,
        additional_columns: str | list[str] | None = None,
        prefetch_batches: int = 1,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: tf.TypeSpec | dict[str, tf.TypeSpec] | None = None,
        label_type_spec: tf.TypeSpec | dict[str, tf.TypeSpec] | None = None,
        additional_type_spec: tf.TypeSpec | dict[str, tf.TypeSpec] | None = None,
    ) -> tf.data.Dataset:
        """Return a ``tf.data.Dataset`` of batches (features, labels), as ``Model.fit`` takes them.

        Args:
            feature_columns: The column of the model's input; a list of them: the input is a dict.
            label_columns: The same for its targets.
            additional_columns: The same for a third member, such as weights of the rows. Default: none.
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows of a batch. Default 1.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.
            feature_type_spec: The ``tf.TypeSpec`` of the features, or a dict by column. Default: by the
                schema.
            label_type_spec: That of the labels.
            additional_type_spec: That of the third member.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: There is no such column, or TensorFlow has no tensors of its type.
        """
        return self.iterator().to_tf(
            feature_columns,
            label_columns,
            additional_columns=additional_columns,
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            feature_type_spec=feature_type_spec,
            label_type_spec=label_type_spec,
            additional_type_spec=additional_type_spec,
        )

    def iter_internal_ref_bundles(self) -> Iterator[RefBundle]:
        """Return the blocks as references, each a whole block, with their numbers of rows and bytes."""
        for bundle in map(whole, self._bundles()):
            about = BlockMetadata(bundle.rows, bundle.size, None, list(bundle.files))
            entry = BlockEntry(bundle.ref, about)
            yield RefBundle((entry,), bundle.schema, not bundle.given)

    # --- a few rows ---

    def take(self, limit: int = 20) -> list[Row]:
        """Return the first rows as dicts; only what they need is executed.

        Args:
            limit: How many rows at most. Default 20.

        Examples:
            >>> import ray
            >>> ray.data.range(100).take(2)
            [{'id': 0}, {'id': 1}]
        """
        return self._rows(limit)

    def _rows(self, limit: int) -> list[Row]:
        plan = maps.first(self._plan, limit)
        return [row for table in self._tables(plan) for row in block.rows(table)]

    def take_all(self, limit: int | None = None) -> list[Row]:
        """Return all rows as dicts.

        Args:
            limit: Raise rather than return more rows. Default: no limit.

        Raises:
            ValueError: There are more than ``limit``.

        Examples:
            >>> import ray
            >>> ray.data.range(2).take_all()
            [{'id': 0}, {'id': 1}]
        """
        if limit is None:
            return [row for table in self._tables() for row in block.rows(table)]
        found = self._rows(limit + 1)
        if len(found) > limit:
            raise ValueError(f"The dataset has more than the given limit of {limit} records.")
        return found

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Batch:
        """Return the first rows as a batch.

        Args:
            batch_size: Rows of the batch at most. Default 20.
            batch_format: As of :meth:`iter_batches`.

        Raises:
            ValueError: The dataset is empty, or the format unknown.

        Examples:
            >>> import ray
            >>> ray.data.range(100).take_batch(3)["id"].tolist()
            [0, 1, 2]
        """
        block.check_format(batch_format)
        tables = [t for t in self._tables(Limit(self._plan, batch_size)) if t.num_rows]
        if not tables:
            raise ValueError("The dataset is empty.")
        return block.to_batch(block.joined(block.concat(tables)), batch_format, self._context)

    def show(self, limit: int = 20) -> None:
        """Print the first rows.

        Args:
            limit: How many rows at most. Default 20.

        Examples:
            >>> import ray
            >>> ray.data.range(2).show()
            {'id': 0}
            {'id': 1}
        """
        for row in self.take(limit):
            print(row)  # noqa: T201 # what the method is for

    # --- about the dataset ---

    def count(self) -> int:
        """Return the number of rows; executes the dataset if it is not known.

        Examples:
            >>> import ray
            >>> ray.data.range(5).count()
            5
        """
        found, rest = analysis.counted(self._to_execute())
        if rest is None:
            return found
        counting = Map(rest, MapStream(_Count(), "Count"))
        counts = (t["rows"][0].as_py() for t in self._tables(counting) if t.num_rows)
        return found + int(sum(counts))

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Return names and types of the columns.

        Args:
            fetch_if_missing: Execute as much as is needed if they are not known.

        Returns:
            None for a dataset without rows whose columns nobody knows.

        Examples:
            >>> import ray
            >>> ray.data.range(5).schema().names
            ['id']
        """
        found = self._known_columns() if not fetch_if_missing else self._arrow_schema()
        if found is None and self._lacks_columns:
            found = pa.schema([])
        return None if found is None else Schema(found)

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """Return the names of the columns.

        Args:
            fetch_if_missing: Execute the beginning of the dataset where they are not known. Default True;
                False: return ``None`` then.

        Examples:
            >>> import ray
            >>> ray.data.range(5).columns()
            ['id']
        """
        found = self.schema(fetch_if_missing)
        return list(found.names) if found is not None else None

    def size_bytes(self) -> int:
        """Return the size in memory; executes the dataset if it is not known."""
        found = analysis.size(self._plan)
        return found if found is not None else sum(b.size for b in self._bundles())

    def num_blocks(self) -> int:
        """Return the number of blocks of a materialized dataset.

        Raises:
            NotImplementedError: It is not materialized, so the number is not known.
        """
        if not isinstance(self._plan, InputBlocks):
            raise NotImplementedError(
                "Number of blocks is only available for `MaterializedDataset`, because the number of "
                "blocks may change during execution. Call `ds.materialize()` to get one."
            )
        return len(self._plan.bundles)

    def input_files(self) -> list[str]:
        """Return the files that the dataset reads."""
        return sorted(set(analysis.files(self._plan)))

    def stats(self) -> str:
        """Return what the last execution did, operator by operator, in words."""
        return self._stats.text() if self._stats is not None else ""

    def get_stats_summary(self, detail: bool = False) -> DatasetStatsSummary:
        """Return what :meth:`stats` says as numbers; without operators if it was not executed.

        Args:
            detail: Has no effect: the figures are the same.
        """
        from heliostat.data.execute.stats_summary import summary_of

        return summary_of(self._stats, self._id, self._name or "Dataset")

    def explain(self) -> None:
        """Print the plan as written, the plan that is executed, and what of that is one task.

        The second says what each source is told to leave out: columns, rows by a filter, a limit. The
        third says of a join whether the rows of both sides are shuffled, or one side is small enough
        to be executed first and broadcast to the tasks of the other.
        """
        print(explain.text(self._plan, self._to_execute(), self._context))  # noqa: T201 # what the method is for

    # --- all of it ---

    def materialize(self) -> MaterializedDataset:
        """Execute the dataset and keep its blocks in the object store.

        Examples:
            >>> import ray
            >>> ds = ray.data.range(3).materialize()
            >>> ds.count(), ds.count()
            (3, 3)
        """
        from heliostat.data.dataset import MaterializedDataset

        made = MaterializedDataset(InputBlocks(tuple(self._bundles())), self._context)
        made._stats = self._stats
        return made

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return everything as one DataFrame.

        Args:
            limit: Raise rather than return more rows. Default: no limit.

        Raises:
            ValueError: There are more than ``limit`` rows.

        Examples:
            >>> import ray
            >>> len(ray.data.range(3).to_pandas())
            3
        """
        if limit is not None:
            count = self.count()
            if count > limit:
                raise ValueError(
                    f"the dataset has more than the given limit of {limit} rows: {count}. If you are "
                    f"sure that a DataFrame with {count} rows will fit in local memory, set "
                    "ds.to_pandas(limit=None) to disable limits."
                )
        import pyarrow as pa

        tables = list(self._tables())
        return frames.to_pandas(block.concat(tables) if tables else pa.table({}), self._context)

    def to_arrow_refs(self) -> list[ObjectRef]:
        """Return references to the blocks, as tables.

        Examples:
            >>> import ray
            >>> [ray.get(ref).num_rows for ref in ray.data.range(3, override_num_blocks=1).to_arrow_refs()]
            [3]
        """
        return [whole(bundle).ref for bundle in self._bundles()]

    def to_pandas_refs(self) -> list[ObjectRef]:
        """Return references to the blocks, as DataFrames."""
        convert = ray.remote(frames.to_pandas)
        refs: list[ObjectRef] = [convert.remote(r, self._context) for r in self.to_arrow_refs()]
        return refs

    def to_numpy_refs(self, *, column: str | None = None) -> list[ObjectRef]:
        """Return references to the blocks, as dicts of arrays, or as arrays of one column.

        Args:
            column: The column. Default: all.
        """

        def convert(table: pa.Table) -> np.ndarray | dict[str, np.ndarray]:
            arrays = block.to_numpy(block.joined(table))
            return arrays if column is None else block.named(arrays, column)

        remote = ray.remote(convert)
        return [remote.remote(ref) for ref in self.to_arrow_refs()]

    def to_random_access_dataset(
        self, key: str, num_workers: int | None = None
    ) -> RandomAccessDataset:
        """Sort the dataset and return what finds its rows by the values of ``key``.

        Of several rows with one key it finds the first.

        Args:
            key: The column.
            num_workers: Actors that look rows up, without a CPU of their own. Default: four a node.

        Returns:
            What finds rows by key.
        """
        from heliostat.data.random_access_dataset import WORKERS_PER_NODE, RandomAccessDataset

        count = WORKERS_PER_NODE * len(ray.nodes()) if num_workers is None else num_workers
        return RandomAccessDataset(self, key, count)

    # --- other libraries ---

    def to_dask(
        self, meta: pd.DataFrame | None = None, verify_meta: bool = True
    ) -> dask.dataframe.DataFrame:
        """Return a Dask DataFrame with a partition for each block.

        Args:
            meta: An empty frame with the columns and types. Default: as the first block's.
            verify_meta: Has no effect.
        """
        from heliostat.data.sources import libraries

        return libraries.to_dask(self, meta, verify_meta)

    def to_modin(self) -> modin.pandas.DataFrame:
        """Return a Modin DataFrame with a partition for each block."""
        from heliostat.data.sources import libraries

        return libraries.to_modin(self)

    def to_spark(self, spark: pyspark.sql.SparkSession) -> pyspark.sql.DataFrame:
        """Return a Spark DataFrame of a session of RayDP.

        Args:
            spark: The session.
        """
        from heliostat.data.sources import libraries

        return libraries.to_spark(self, spark)

    def to_daft(self) -> daft.DataFrame:
        """Return a Daft DataFrame of all rows."""
        from heliostat.data.sources import libraries

        return libraries.to_daft(self)

    def to_mars(self) -> mars.dataframe.DataFrame:
        """Return a Mars DataFrame of all rows."""
        from heliostat.data.sources import libraries

        return libraries.to_mars(self)

    def get_internal_block_refs(self) -> list[ObjectRef]:
        """Return references to the blocks."""
        return self.to_arrow_refs()


def whole(bundle: Bundle) -> Bundle:
    """The bundle as a block of its own."""
    if bundle.is_whole:
        return bundle
    cut = ray.remote(lambda table, start, rows: block.compact(table.slice(start, rows)))
    ref = cut.remote(bundle.ref, bundle.start, bundle.rows)
    return Bundle(ref, bundle.rows, bundle.size, bundle.schema, node=bundle.node)


class _Count:
    """The number of rows of all tables."""

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        import pyarrow as pa

        yield pa.table({"rows": [sum(table.num_rows for table in tables)]})

    def reads(self, needed: frozenset[str] | None) -> frozenset[str]:
        """No column."""
        return frozenset()
