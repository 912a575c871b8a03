"""One dataset into several: materialized, or streamed to consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.data.dataset.base import Base
from heliostat.data.dataset.options import placed
from heliostat.data.execute.exchanges import at_rows
from heliostat.data.plan.columns import TrainTestPart
from heliostat.data.plan.operators import Bundle, InputBlocks, Map
from heliostat.data.plan.transforms import MapStream

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset, MaterializedDataset
    from heliostat.data.iterate.iterator import DataIterator


class Splits(Base):
    """Part of ``Dataset``."""

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

        return streaming_split(self, n, equal, locality_hints)  # type: ignore[arg-type] # a Dataset

    def _have(self) -> list[Bundle]:
        if isinstance(self._plan, InputBlocks):
            return list(self._plan.bundles)
        return list(self._bundles())

    def _parts(self, bundles: list[Bundle], ends: list[int]) -> list[MaterializedDataset]:
        from heliostat.data.dataset import MaterializedDataset

        return [
            MaterializedDataset(InputBlocks(tuple(part)), self._context)
            for part in at_rows(bundles, ends)
        ]

    def split(
        self, n: int, *, equal: bool = False, locality_hints: list[Any] | None = None
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
        if n <= 0:
            raise ValueError(f"The number of splits {n} is not positive.")
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(
                f"The length of locality_hints {len(locality_hints)} doesn't equal the number of "
                f"splits {n}."
            )
        bundles = self._have()
        total = sum(b.rows for b in bundles)
        each, more = divmod(total, n)
        extra = 0 if equal else more
        return self._parts(bundles, [each * (i + 1) + min(i + 1, extra) for i in range(n)])

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
        if len(indices) < 1:
            raise ValueError("indices must be at least of length 1")
        if sorted(indices) != list(indices):
            raise ValueError("indices must be sorted")
        if indices[0] < 0:
            raise ValueError("indices must be positive")
        bundles = self._have()
        total = sum(b.rows for b in bundles)
        return self._parts(bundles, [*(min(i, total) for i in indices), total])

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
        if len(proportions) < 1:
            raise ValueError("proportions must be at least of length 1")
        if sum(proportions) >= 1:
            raise ValueError("proportions must sum to less than 1")
        if any(p <= 0 for p in proportions):
            raise ValueError("proportions must be bigger than 0")
        bundles = self._have()
        total = sum(b.rows for b in bundles)
        ends, done = [], 0.0
        for proportion in proportions:
            done += proportion
            ends.append(int(total * done + 1e-9))
        for i in reversed(range(len(ends) - 1)):  # no part is empty
            ends[i] = min(ends[i], ends[i + 1] - 1)
        if ends[0] <= 0:
            raise ValueError(
                f"Couldn't create non-empty splits of {total} rows with the proportions {proportions}."
            )
        return self._parts(bundles, [*ends, total])

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
        if not isinstance(test_size, int | float):
            raise TypeError(f"`test_size` must be int or float got {type(test_size)}.")
        if isinstance(test_size, float):
            if test_size <= 0 or test_size >= 1:
                raise ValueError(
                    "If `test_size` is a float, it must be bigger than 0 and smaller than 1."
                )
        elif test_size < 1:
            raise ValueError(f"If `test_size` is an int, it must be positive, got {test_size}.")
        if stratify is not None:
            if shuffle:
                raise ValueError("`stratify` cannot be used with `shuffle`.")
            return self._stratified(stratify, test_size)
        source: Any = self.random_shuffle(seed=seed) if shuffle else self  # type: ignore[attr-defined] # of Reorder
        bundles = source._have()
        total = sum(b.rows for b in bundles)
        count = test_size
        if isinstance(test_size, float):
            count = total - int(total * (1 - test_size) + 1e-9)
        if count >= total:
            raise ValueError(
                f"`test_size` of {count} rows must be less than the size of the dataset ({total})."
            )
        train, test = self._parts(bundles, [total - count, total])
        return train, test

    def streaming_train_test_split(
        self,
        test_size: float,
        *,
        split_type: str = "random",
        hash_column: str | None = None,
        seed: int | None = None,
        **ray_remote_kwargs: Any,
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
        if not 0 < test_size < 1:
            raise ValueError(f"test_size must be between 0 and 1, got {test_size}.")
        if split_type not in ("random", "hash"):
            raise ValueError(f"Invalid split type: {split_type!r}. Use 'random' or 'hash'.")
        if split_type == "hash":
            if seed is not None:
                raise ValueError("seed is not supported for hash split: the values decide.")
            if hash_column is None:
                raise ValueError("hash_column is required for hash split.")
        elif hash_column is not None:
            raise ValueError(
                "hash_column is not supported for random split: use split_type='hash'."
            )
        parts = [
            self._derive(
                Map(
                    self._plan,
                    MapStream(run, "StreamingTrainTestSplit"),
                    **placed(dict(ray_remote_kwargs), "the split"),
                )
            )
            for run in (
                TrainTestPart(test_size, hash_column, seed, wants_test)
                for wants_test in (False, True)
            )
        ]
        return parts[0], parts[1]

    def _stratified(
        self, column: str, test_size: int | float
    ) -> tuple[MaterializedDataset, MaterializedDataset]:
        grouped = self.groupby(column)  # type: ignore[attr-defined] # of Summarize
        fraction = test_size
        if not isinstance(test_size, float):
            fraction = test_size / max(1, self.count())  # type: ignore[attr-defined] # of Consume
        mark = "_is_test_row"

        def marked(group: Any) -> Any:
            rows = group.num_rows
            tests = int(rows * fraction + 1e-9)
            import pyarrow as pa

            return group.append_column(mark, pa.array([i >= rows - tests for i in range(rows)]))

        both = grouped.map_groups(marked, batch_format="pyarrow").materialize()
        from heliostat.data.expressions import col

        train, test = (
            both.filter(expr=col(mark) == wanted).drop_columns([mark]).materialize()
            for wanted in (False, True)
        )
        return train, test
