"""Shuffling, sorting and changing the number of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.data.dataset.base import Base, key_names
from heliostat.data.execute import exchanges
from heliostat.data.missing import require
from heliostat.data.plan.operators import Rebundle
from heliostat.data.seeds import checked

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset


class Reorder(Base):
    """Part of ``Dataset``."""

    def random_shuffle(
        self, *, seed: Any = None, num_blocks: int | None = None, **ray_remote_args: Any
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
        return self._exchange(
            "RandomShuffle",
            exchanges.RandomShuffle(checked(seed), num_blocks, ray_remote_args),
            keeps_rows=True,
        )

    def randomize_block_order(self, *, seed: Any = None) -> Dataset:
        """Return the blocks in random order; rows within a block stay as they are.

        Args:
            seed: As of :meth:`random_shuffle`.
        """
        run = exchanges.RandomizeBlocks(checked(seed))
        return self._exchange("RandomizeBlockOrder", run, keeps_rows=True)

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
        if (num_blocks is None) == (target_num_rows_per_block is None):
            raise ValueError(
                "Exactly one of `num_blocks` or `target_num_rows_per_block` must be set."
            )
        for value in (num_blocks, target_num_rows_per_block):
            if value is not None and value < 1:
                raise ValueError(f"the number of blocks or rows must be positive, got {value}.")
        if target_num_rows_per_block is not None:
            if shuffle or keys:
                raise ValueError("`shuffle` and `keys` need `num_blocks`.")
            return self._derive(Rebundle(self._plan, target_num_rows_per_block))
        assert num_blocks is not None
        if keys:
            known = self.schema(fetch_if_missing=False)  # type: ignore[attr-defined] # of Consume
            require(keys, known, "repartition")
            run: Any = exchanges.Sort([(k, "ascending") for k in keys], num_blocks)
        elif shuffle:
            run = exchanges.RandomShuffle(None, num_blocks, {})
        else:
            run = exchanges.Repartition(num_blocks)
        return self._exchange(f"Repartition[{num_blocks}]", run, keeps_rows=True)

    def sort(
        self,
        key: str | list[str] | None = None,
        descending: bool | list[bool] = False,
        boundaries: list[Any] | None = None,
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
        if not key:
            raise ValueError("The 'key' parameter cannot be None for sorting.")
        keys = key_names(key)
        flags = [descending] * len(keys) if isinstance(descending, bool) else list(descending)
        if len(flags) != len(keys):
            raise ValueError(
                f"Length of `descending` ({len(flags)}) does not match the number of keys ({len(keys)})."
            )
        order = [(k, "descending" if d else "ascending") for k, d in zip(keys, flags, strict=True)]
        known = self.schema(fetch_if_missing=False)  # type: ignore[attr-defined] # of Consume
        require(keys, known, "sort")
        return self._exchange("Sort", exchanges.Sort(order, None, boundaries), keeps_rows=True)
