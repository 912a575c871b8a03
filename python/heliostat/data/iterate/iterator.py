"""Iterating over batches and rows; what a training worker gets as its shard."""

from __future__ import annotations

import abc
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

import heliostat as ray
from heliostat.core.platform.annotations import RayDeprecationWarning
from heliostat.data import block
from heliostat.data.execute.measurements import LoopMeasurements
from heliostat.data.execute.stats import ExecutionStats
from heliostat.data.iterate import batching, prefetch
from heliostat.data.iterate.position import Position, Shuffle, loaded
from heliostat.data.iterate.watch import Timed, Watch
from heliostat.data.iterate.zero_copy import Lender, Loan
from heliostat.data.plan.operators import Bundle
from heliostat.data.sources.options import spelled_methods

if TYPE_CHECKING:
    import pyarrow as pa
    import tensorflow as tf

    from heliostat.data.aliases import Batch, Function, Row, Value
    from heliostat.data.collate_fn import CollateFn
    from heliostat.data.context import DataContext
    from heliostat.data.dataset import MaterializedDataset, Schema
    from heliostat.data.dataset.consume import Consumers
    from heliostat.data.iterate.torch_dataset import Features, TorchDataset

T = TypeVar("T")


# Goes around the batches of every loop in this process: training takes the time that a loop waits.
_around: list[Callable[[Iterator[Any]], Iterator[Any]]] = []


def set_around(around: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
    """Have ``around`` hand on the batches of every loop in this process."""
    _around[:] = [around]


class Repeatable(Generic[T], Iterable[T]):
    """Every ``for`` over it is an epoch of its own."""

    def __init__(self, make: Callable[[], Iterator[T]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[T]:
        made = self._make()
        return _around[0](made) if _around else made


@spelled_methods("DataIterator")
class DataIterator(abc.ABC):
    """A stream of batches that can be gone through any number of times.

    ``Dataset.iterator()``, ``Dataset.streaming_split()`` and ``train.get_dataset_shard()`` give one.
    It can be sent to other workers.

    Examples:
        >>> import ray
        >>> rows = ray.data.range(4).iterator()
        >>> [batch["id"].tolist() for batch in rows.iter_batches(batch_size=2)]
        [[0, 1], [2, 3]]
        >>> [row["id"] for row in rows.iter_rows()]  # once more
        [0, 1, 2, 3]
    """

    _place = Position()  # of the loop that was begun last
    _begun = False  # whether it has begun
    _consumers = 1  # that share the dataset

    @abc.abstractmethod
    def _epoch(self, execution: int | None = None) -> tuple[Iterator[Bundle], ExecutionStats, int]:
        """The bundles of a new epoch, and the number of its execution, which may be given."""

    def state_dict(self) -> dict[str, object]:
        """Return how far the loop has come, as a dict of plain values that may be put into a checkpoint.

        It counts the rows of all batches that the loop has been given, not those made ahead. Each
        consumer of ``streaming_split`` has a state of its own; consumers of equal shares that go in step
        may all be given the state of one.
        """
        place = self._place
        return place._replace(consumers=self._consumers).state()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Let the next loop go on where the state was taken; loops after it are epochs as usual.

        The rows before are passed over: what makes them is executed again, and blocks that lie before
        are not fetched. They are the same rows if the dataset makes the same rows in the same order at
        each execution: what draws at random needs a seed, and functions must not depend on time. With
        ``locality_hints`` on several nodes, shares may differ. All consumers of ``streaming_split``
        have to load a state before any of them begins.

        Args:
            state: What ``state_dict`` returned.

        Raises:
            ValueError: It is not a state of an iterator, or of one with another number of consumers. While
                iterating: the batch size or the buffer of a local shuffle is another, or the epoch has
                fewer rows.
        """
        self._place, self._begun = loaded(state, self._consumers), False

    @abc.abstractmethod
    def schema(self) -> Schema | None:
        """Return names and types of the columns; None when they cannot be known."""

    @abc.abstractmethod
    def stats(self) -> str:
        """Return what the last epoch did, in words."""

    @abc.abstractmethod
    def get_context(self) -> DataContext:
        """Return the settings of the dataset."""

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
        """Return batches; each ``for`` over them is an epoch.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread.
            batch_size: Rows of a batch; None: a batch is a block.
            batch_format: "default" and "numpy": a dict of arrays, which are read-only views of
                shared memory where possible; "pandas"; "pyarrow" and None: a table.
            drop_last: Leave out the last batch if it has fewer rows.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many.
            local_shuffle_seed: Makes that repeatable.

        Raises:
            ValueError: The format is unknown, or the sizes make no sense.
        """
        batching.check(batch_size, local_shuffle_buffer_size, batch_format)
        context = self.get_context()

        collate = None if _collate_fn is None else Timed(_collate_fn)

        def finish(table: pa.Table, loan: Loan | None) -> Batch:
            batch = block.to_batch(table, batch_format, context)
            return batch if collate is None else collate(batch)

        def is_view(table: pa.Table, loan: Loan | None) -> bool:
            if _collate_fn is not None or batch_format == "pandas":
                return False
            return batch_format in ("pyarrow", None) or block.has_arrays(table)

        return self._batches(
            finish,
            is_view,
            prefetch_batches,
            batch_size,
            drop_last,
            local_shuffle_buffer_size,
            local_shuffle_seed,
            collate=collate,
            makes_arrays=(
                batch_format in ("default", "numpy")
                and _collate_fn is None
                and local_shuffle_buffer_size is None
            ),
        )

    def _batches(
        self,
        finish: Callable[[pa.Table, Loan | None], T],
        is_view: Callable[[pa.Table, Loan | None], bool],
        prefetch_batches: int,
        batch_size: int | None,
        drop_last: bool,
        shuffle_buffer: int | None,
        seed: int | None,
        receive: Callable[[Any], T] | None = None,
        collate: Timed[T] | None = None,  # the part of `finish` that is the program's
        makes_arrays: bool = False,  # whether `finish` does no more than that
    ) -> Repeatable[T]:
        def epoch() -> Iterator[T]:
            asked = time.perf_counter()
            place = self._begin(shuffle_buffer, batch_size, seed)
            bundles, stats, execution = self._epoch(place.execution)
            watch = Watch(stats.loop)
            stats.loop.begin_s += time.perf_counter() - asked
            self._place = place = place._replace(execution=execution)
            room = prefetch.Room(max(0, prefetch_batches))
            mixed = place.shuffle

            def make() -> Iterator[tuple[tuple[T, int], bool]]:
                try:
                    lender = Lender()
                    blocks = _tables(bundles, lender, room, 0 if mixed else place.rows, watch)
                    tables = _pieces(blocks, batch_size is None)
                    if makes_arrays and batch_size is not None:
                        full = (table for table in tables if table.num_rows)
                        arrays = batching.arrays(full, batch_size, drop_last)
                        for columns, is_cut in watch.cutting(arrays):
                            rows = len(next(iter(columns.values()), range(batch_size)))
                            yield (cast("T", columns), rows), is_cut
                        return
                    drawn = mixed.seed if mixed else None
                    cuts = batching.cut(tables, batch_size, drop_last, shuffle_buffer, drawn)
                    for table in watch.cutting(_after(cuts, place.rows) if mixed else cuts):
                        # Shuffled rows lie in memory of their own already.
                        loan = Loan() if shuffle_buffer else lender.loan
                        is_lent = not shuffle_buffer and is_view(table, loan)
                        with watch.finishing(collate):
                            batch = finish(table, loan)
                        yield (batch, table.num_rows), is_lent
                        del batch
                finally:
                    close = getattr(bundles, "close", None)
                    if close is not None:
                        close()

            made = prefetch.ahead(make(), room) if prefetch_batches > 0 else (b for b, _ in make())
            yield from self._taken(made, place, stats, receive, asked)

        return Repeatable(epoch)

    def _begin(self, window: int | None, batch_size: int | None, seed: int | None) -> Position:
        """The position at which a new loop begins: that of the loaded state, or the next epoch."""
        place = self._place.next_epoch() if self._begun else self._place
        shuffle = None
        if window is not None and batch_size is not None:
            drawn = seed if seed is not None else int(np.random.default_rng().integers(2**62))
            shuffle = Shuffle(drawn, window, batch_size)
        self._place, self._begun = place.mixed(shuffle), True
        return self._place

    def _taken(
        self,
        items: Generator[tuple[T, int], None, None],
        place: Position,
        stats: ExecutionStats,
        receive: Callable[[T], T] | None,
        begun: float,
    ) -> Iterator[T]:
        """The batches; the state and the figures go with them. One generator, as each costs a batch time."""
        measured, user, wait = LoopMeasurements(stats), stats.user, stats.wait
        try:
            left = asked = time.perf_counter()
            for item, rows in items:
                if receive is not None:
                    made = time.perf_counter()
                    item = receive(item)  # noqa: PLW2901 # the same batch, elsewhere
                    stats.loop.receive_s += time.perf_counter() - made
                got = time.perf_counter()
                if not wait.count:
                    stats.loop.first_s += got - begun
                user.add(asked - left)
                wait.add(got - asked)
                stats.taken_rows += rows
                measured.show(got)
                left = got
                self._place = place = place.moved(rows)
                yield item
                del item
                asked = time.perf_counter()
            self._place, self._begun = place.next_epoch(), False
        finally:
            measured.tell()
            items.close()

    def iter_rows(self) -> Iterable[Row]:
        """Return rows as dicts; each ``for`` over them is an epoch."""

        def epoch() -> Iterator[Row]:
            tables = self._batches(lambda t, _: t, lambda t, _: True, 1, None, False, None, None)
            for table in tables:
                had = self._place._replace(rows=self._place.rows - table.num_rows)
                for number, row in enumerate(block.rows(table), 1):
                    self._place = had.moved(number)
                    yield row

        return Repeatable(epoch)

    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: object = None,
        device: object = "auto",
        collate_fn: Function | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> Iterable[Any]:
        """Return batches of torch tensors; each ``for`` over them is an epoch.

        A column of numbers has the shape (rows,), one of arrays (rows, *shape of each), one of lists of
        numbers of one length (rows, length). The loop may write to the tensors; the dataset stays as
        it is.

        Args:
            prefetch_batches: Batches made in advance, in a thread.
            batch_size: Rows of a batch; None: a batch is a block.
            dtypes: A torch dtype for all columns, or a dict by column. Default: as the data is.
            device: Where the tensors go; "auto": the training worker's device. Copies to a GPU run
                beside the loop's kernels, on a CUDA stream of their own.
            collate_fn: Makes a batch from a dict of arrays (or from what the base class of a
                ``CollateFn`` says). It may return anything; tensors in it are moved to the device.
            drop_last: Leave out the last batch if it has fewer rows.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many.
            local_shuffle_seed: Makes that repeatable.
            pin_memory: Make tensors in pinned memory, from which a GPU copies faster.

        Raises:
            ValueError: ``dtypes`` and ``collate_fn`` are both given.
            TypeError: While iterating, a column is of strings, bytes or times.
            RuntimeError: While iterating, a column is of lists or arrays that differ in shape, has
                missing values among its strings or truth values, or is of other objects.
        """
        from heliostat.data.iterate import torch_batches

        if collate_fn is not None and dtypes is not None:
            raise ValueError(
                "collate_fn cannot be used with dtypes. You should manually convert the output "
                "Torch tensors to the desired dtype inside collate_fn."
            )
        batching.check(batch_size, local_shuffle_buffer_size)
        target = torch_batches.default_device() if device in ("auto", None) else device
        plain = collate_fn is None and dtypes is None and str(target) == "cpu" and not pin_memory

        def is_view(table: pa.Table, loan: Loan | None) -> bool:
            return plain and loan is not None and block.has_arrays(table)

        route = torch_batches.route(collate_fn, dtypes, target, pin_memory, self.get_context())
        # The function's input is made along with its call: both count as its own time.
        collate = None if collate_fn is None else Timed(route.make)
        return self._batches(
            route.make if collate is None else collate,
            is_view,
            prefetch_batches,
            batch_size,
            drop_last,
            local_shuffle_buffer_size,
            local_shuffle_seed,
            route.receive,
            collate,
        )

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: object = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> Iterable[Row]:
        """Return batches as dicts of TensorFlow's tensors; each ``for`` over them is an epoch.

        The others are those of :meth:`iter_batches`.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows that go through a stage together.
            dtypes: A ``tf.DType`` for all columns, or a dict by column. Default: as the data is.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: The sizes make no sense. While iterating, a column is of lists or arrays that
                differ in shape.
        """
        from heliostat.data.iterate import tf_batches

        return self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=tf_batches.collator(dtypes),
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
        feature_type_spec: object = None,
        label_type_spec: object = None,
        additional_type_spec: object = None,
    ) -> tf.data.Dataset:
        """Return a ``tf.data.Dataset`` of batches (features, labels), as ``Model.fit`` takes them.

        Each ``for`` over it is an epoch. Members are tensors of shape (rows,) for numbers and
        (rows, *shape of each) for arrays; ragged tensors for lists and for arrays that differ in shape.

        The others are those of :meth:`iter_batches`.

        Args:
            feature_columns: The name of the column that is the model's input; a list of them: the
                input is a dict of tensors.
            label_columns: The same for its targets.
            additional_columns: The same for a third member, such as weights of the rows.
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows of a batch.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.
            feature_type_spec: The ``tf.TypeSpec`` of the features, or a dict by column. Default: what
                the schema says, which executes a part of the dataset if it is not known yet.
            label_type_spec: That of the labels.
            additional_type_spec: That of the third member.

        Raises:
            ImportError: TensorFlow is not installed.
            ValueError: There is no such column, or TensorFlow has no tensors of its type.
        """
        from heliostat.data.iterate import tf_batches

        batches = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        parts = [(feature_columns, feature_type_spec), (label_columns, label_type_spec)]
        if additional_columns is not None:
            parts.append((additional_columns, additional_type_spec))
        return tf_batches.as_dataset(batches, self.schema, parts)

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int = 256,
        dtypes: object = None,
        collate_fn: CollateFn[Value] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        synchronize_batches: bool = False,
        paddings: object = None,
    ) -> Iterable[Any]:
        """Return batches as dicts of JAX arrays; each ``for`` over them is an epoch.

        An array has the batches of all JAX processes, one behind the other, and its rows are spread
        over all devices; each process gives its own devices their rows.

        The others are those of :meth:`iter_batches`.

        Args:
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            batch_size: Rows of a batch of this process: a multiple of its devices.
            dtypes: A JAX dtype for all columns, or a dict by column. Default: as the data is.
            collate_fn: An object of a ``CollateFn``; it returns an array, or a dict of arrays.
            drop_last: Leave out the last batch if it has fewer rows, and with
                ``synchronize_batches`` the batches that not all processes have.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.
            synchronize_batches: Compare the sizes of batches among the processes before each, so that
                none waits for ever for a batch that another does not have.
            paddings: A value for the rows that the last batch lacks, or a dict by column; with
                ``synchronize_batches`` processes without rows go on with batches of it.

        Raises:
            ImportError: JAX is not installed.
            ValueError: The sizes make no sense, or the ``collate_fn`` has none of the base classes.
                While iterating: a batch has not the same rows for each device and there are no
                ``paddings``, or a column is of lists or arrays that differ in shape.
            TypeError: While iterating, a column is of strings, bytes, times or objects.
        """
        from heliostat.data.iterate import jax_batches

        batch_format = jax_batches.format_for(collate_fn)
        placing = jax_batches.Placing(batch_size, drop_last, dtypes, paddings, synchronize_batches)
        made = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=batch_format,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
            _collate_fn=collate_fn,
        )
        return Repeatable(lambda: placing.batches(made))

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: Features = None,
        label_column_dtype: object = None,
        feature_column_dtypes: object = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> TorchDataset:
        """Return torch's ``IterableDataset`` of pairs (features, label).

        Deprecated by Ray: :meth:`iter_torch_batches` gives tensors by column. A ``DataLoader`` of it
        needs ``batch_size=None``, for its items are batches.

        The others are those of :meth:`iter_batches`.

        Args:
            label_column: The label's column; None: the label is None.
            feature_columns: Names of the columns of one tensor, side by side; a list or a dict of such
                lists: as many tensors. Default: all but the label's.
            label_column_dtype: The label's torch dtype. Default: as the data is.
            feature_column_dtypes: One torch dtype for the features, or one for each of several tensors.
            batch_size: Rows of a batch.
            prefetch_batches: Batches made in advance, in a thread; 0: none and no thread. Default 1.
            drop_last: Leave out the last batch if it has fewer rows. Default False.
            local_shuffle_buffer_size: Draw rows at random from a window of at least this many. Default: no
                shuffle.
            local_shuffle_seed: Makes that repeatable. Default: another order each time.
            unsqueeze_label_tensor: The label has the shape (rows, 1) rather than (rows,).
            unsqueeze_feature_tensors: The same for each column of the features.

        Raises:
            TypeError: The dtypes do not have the form of the columns.
            ValueError: They have other keys or another length. While iterating: there is no such
                column, it is not of numbers, or the columns of a tensor differ in shape.
        """
        warnings.warn(
            "DataIterator.to_torch is deprecated. Use DataIterator.iter_torch_batches instead.",
            RayDeprecationWarning,
            stacklevel=2,
        )
        from heliostat.data.iterate.torch_dataset import Pairs, TorchDataset

        pairs = Pairs(
            label_column,
            label_column_dtype,
            feature_columns,
            feature_column_dtypes,
            unsqueeze_label_tensor,
            unsqueeze_feature_tensors,
        )
        tables = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format="pyarrow",
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        return TorchDataset(tables, pairs)

    def materialize(self) -> MaterializedDataset:
        """Run one epoch and keep its blocks in the object store."""
        from heliostat.data.dataset import MaterializedDataset
        from heliostat.data.plan.operators import InputBlocks

        bundles, _, _ = self._epoch()
        return MaterializedDataset(InputBlocks(tuple(bundles)), self.get_context())


def _tables(
    bundles: Iterator[Bundle], lender: Lender, room: prefetch.Room, passed: int, watch: Watch
) -> Iterator[pa.Table]:
    """The tables of bundles, without the first ``passed`` rows."""
    left = passed
    for bundle in watch.waiting(bundles):
        if left:
            skipped = min(left, bundle.rows)
            left -= skipped
            bundle = bundle.slice(skipped, bundle.rows - skipped)  # noqa: PLW2901 # the rest of it
        if bundle.rows:
            lender.turn_to(bundle)
            with watch.fetching(bundle):
                table = bundle.cut(ray.get(bundle.ref))
            yield table
            del table
        del bundle
        with watch.pausing():
            room.wait()
    _require_passed(left, passed)


def _pieces(tables: Iterator[pa.Table], whole: bool) -> Iterator[pa.Table]:
    """The rows with each column of a table in one piece; also whether tables have to stay whole."""
    for table in tables:
        if whole:
            yield block.joined(table)
        else:
            yield from batching.pieces(table)
        del table


def _after(tables: Iterator[pa.Table], passed: int) -> Iterator[pa.Table]:
    """The batches after those of the first ``passed`` rows."""
    left = passed
    for table in tables:
        if left > 0:
            left -= table.num_rows
        else:
            yield table
    _require_passed(left, passed)


def _require_passed(left: int, passed: int) -> None:
    if left > 0:
        raise ValueError(
            f"the state that was loaded is after {passed} rows of its epoch, and this epoch has only "
            f"{passed - left}: the dataset is not the one that the state is of."
        )


class PlanIterator(DataIterator):
    """Executes the plan of a dataset in the process that iterates, once an epoch."""

    def __init__(self, dataset: Consumers) -> None:
        self._dataset = dataset

    def _epoch(self, execution: int | None = None) -> tuple[Iterator[Bundle], ExecutionStats, int]:
        number = self._dataset.context._next_execution(execution)
        bundles, stats = self._dataset._execute(number=number)
        return bundles, stats, number

    def schema(self) -> Schema | None:
        """Return names and types of the columns."""
        found: Schema | None = self._dataset.schema()
        return found

    def stats(self) -> str:
        """Return what the last epoch did, in words."""
        text: str = self._dataset.stats()
        return text

    def get_context(self) -> DataContext:
        """Return the settings of the dataset."""
        context: DataContext = self._dataset.context
        return context

    def __repr__(self) -> str:
        return f"DataIterator({self._dataset!r})"
