"""``BlockAccessor``: the same operations on tables and DataFrames, for sources and sinks of the user's."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar, Union

import numpy as np
import pyarrow as pa

from heliostat.data import block as blocks
from heliostat.data import frames, missing
from heliostat.data.aliases import Batch, Function
from heliostat.data.block import BlockMetadata
from heliostat.data.column_accessor import BlockColumn, BlockColumnAccessor

if TYPE_CHECKING:
    import pandas
    import pandas as pd

    from heliostat.data.aliases import Row, Value

Block = Union["pa.Table", "pandas.DataFrame"]
BatchColumn = Union[BlockColumn, "np.ndarray"]
DataBatch = Batch
DataBatchColumn = BatchColumn
CallableClass = type
UserDefinedFunction = Function | type
Schema = pa.Schema
T = TypeVar("T", contravariant=True)  # noqa: PLC0105 # the name that programs import
U = TypeVar("U", covariant=True)  # noqa: PLC0105 # likewise
KeyType = TypeVar("KeyType")
AggType = TypeVar("AggType")


class BlockType(enum.Enum):
    """The type of a block."""

    ARROW = "arrow"
    PANDAS = "pandas"


class BatchFormat(str, enum.Enum):
    """The format of a batch."""

    ARROW = "pyarrow"
    NUMPY = "numpy"
    PANDAS = "pandas"


class BlockAccessor:
    """A block, a ``pyarrow.Table`` or a ``pandas.DataFrame``, and what can be done with it.

    Operations give blocks, not accessors, and leave the block as it is.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._is_arrow = isinstance(block, pa.Table)

    @staticmethod
    def for_block(block: Block) -> BlockAccessor:
        """Return the accessor of a block.

        Raises:
            TypeError: It is neither a table nor a DataFrame.
        """
        if isinstance(block, pa.RecordBatch):
            block = pa.Table.from_batches([block])
        if isinstance(block, bytes):
            return ArrowBlockAccessor.from_bytes(block)
        if isinstance(block, pa.Table):
            return ArrowBlockAccessor(block)
        if type(block).__name__ == "DataFrame":
            return PandasBlockAccessor(block)
        raise TypeError(f"Not a block type: {block} ({type(block)})")

    @classmethod
    def batch_to_block(cls, batch: DataBatch, block_type: BlockType | None = None) -> Block:
        """Return a batch as a block: a dict of arrays becomes a table."""
        if isinstance(batch, Mapping):
            is_pandas = block_type is BlockType.PANDAS
            return (
                cls.batch_to_pandas_block(batch) if is_pandas else cls.batch_to_arrow_block(batch)
            )
        return batch

    @classmethod
    def batch_to_arrow_block(cls, batch: Mapping[str, BatchColumn]) -> Block:
        """Return a dict of arrays as a table."""
        return blocks.from_batch(batch, "the function")

    @classmethod
    def batch_to_pandas_block(cls, batch: Mapping[str, BatchColumn]) -> Block:
        """Return a dict of arrays as a DataFrame."""
        return frames.to_pandas(blocks.from_batch(batch, "the function"))

    # --- about it ---

    def block_type(self) -> BlockType:
        """Return whether it is a table or a DataFrame."""
        return BlockType.ARROW if self._is_arrow else BlockType.PANDAS

    def num_rows(self) -> int:
        """Return the number of rows."""
        return len(self._block)

    def size_bytes(self) -> int:
        """Return the size in memory."""
        if self._is_arrow:
            return int(self._block.nbytes)
        return int(self._block.memory_usage(index=True, deep=True).sum())

    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._block.column_names if self._is_arrow else self._block.columns)

    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        return self.to_arrow().schema

    def get_metadata(
        self, input_files: list[str] | None = None, exec_stats: object = None, **_: object
    ) -> BlockMetadata:
        """Return the number of rows and bytes, as :class:`ReadTask` takes them."""
        return BlockMetadata(
            self.num_rows(), self.size_bytes(), input_files=input_files, exec_stats=exec_stats
        )

    # --- figures of a column ---

    def _of(self, on: str) -> BlockColumnAccessor:
        if on not in self.column_names():
            raise ValueError(missing.no_columns([on], self.column_names()))
        return BlockColumnAccessor.for_column(self._block[on])

    def count(self, on: str, ignore_nulls: bool = False) -> int:
        """Return the number of rows, or of values of a column where ``ignore_nulls``."""
        found: int = self._of(on).count(ignore_nulls=ignore_nulls)
        return found

    def sum(self, on: str, ignore_nulls: bool) -> Value:
        """Return the sum of a column; ``None`` of no values, and of a missing one unless ``ignore_nulls``."""
        return self._of(on).sum(ignore_nulls=ignore_nulls)

    def min(self, on: str, ignore_nulls: bool) -> Value:
        """Return the least value of a column, with ``None`` as :meth:`sum` has it."""
        return self._of(on).min(ignore_nulls=ignore_nulls)

    def max(self, on: str, ignore_nulls: bool) -> Value:
        """Return the greatest value of a column, with ``None`` as :meth:`sum` has it."""
        return self._of(on).max(ignore_nulls=ignore_nulls)

    def mean(self, on: str, ignore_nulls: bool) -> Value:
        """Return the average of a column, with ``None`` as :meth:`sum` has it."""
        return self._of(on).mean(ignore_nulls=ignore_nulls)

    def sum_of_squared_diffs_from_mean(
        self, on: str, ignore_nulls: bool, mean: float | None = None
    ) -> Value:
        """Return the sum of the squares of the differences from the mean. Default: the column's own."""
        return self._of(on).sum_of_squared_diffs_from_mean(ignore_nulls=ignore_nulls, mean=mean)

    # --- in another form ---

    def to_block(self) -> Block:
        """Return the block itself."""
        return self._block

    def to_default(self) -> Block:
        """Return the block as functions of batches get it by default."""
        return self._block

    def to_arrow(self) -> pa.Table:
        """Return a ``pyarrow.Table``."""
        return self._block if self._is_arrow else frames.from_pandas(self._block)

    def to_pandas(self) -> pd.DataFrame:
        """Return a ``pandas.DataFrame``."""
        return frames.to_pandas(self._block) if self._is_arrow else self._block

    def to_numpy(
        self, columns: str | list[str] | None = None
    ) -> np.ndarray | dict[str, np.ndarray]:
        """Return arrays by column; of one column given by its name, the array."""
        table = blocks.joined(self.to_arrow())
        if isinstance(columns, str):
            return blocks.to_numpy(table.select([columns]))[columns]
        return blocks.to_numpy(table if columns is None else table.select(columns))

    def to_batch_format(self, batch_format: str | None) -> DataBatch:
        """Return a batch: "default" and "numpy" a dict of arrays, "pandas", "pyarrow"; None: as it is.

        Raises:
            ValueError: There is no such format.
        """
        blocks.check_format(batch_format)
        if batch_format is None:
            return self._block
        if batch_format == "pandas":
            return self.to_pandas()
        return blocks.to_batch(blocks.joined(self.to_arrow()), batch_format)

    def iter_rows(self, public_row_format: bool = True) -> Iterator[Row]:
        """Return the rows as dicts."""
        return blocks.rows(self.to_arrow())

    # --- rows and columns ---

    def slice(self, start: int, end: int, copy: bool = False) -> Block:
        """Return the rows from ``start`` to ``end``; with ``copy`` in memory of their own."""
        if not self._is_arrow:
            part = self._block.iloc[start:end].reset_index(drop=True)
            return part.copy() if copy else part
        part = self._block.slice(start, end - start)
        return blocks.compact(part) if copy else part

    def take(self, indices: list[int]) -> Block:
        """Return the rows at these places, in that order."""
        if not self._is_arrow:
            return self._block.take(indices).reset_index(drop=True)
        return blocks.take(self._block, np.asarray(indices, dtype=np.int64))

    def random_shuffle(self, random_seed: int | None) -> Block:
        """Return the rows in random order."""
        order = np.random.default_rng(random_seed).permutation(self.num_rows())
        return self.take(list(order))

    def select(self, columns: list[str]) -> Block:
        """Return some columns."""
        return self._block.select(columns) if self._is_arrow else self._block[columns]

    def drop(self, columns: list[str]) -> Block:
        """Return the other columns."""
        return (
            self._block.drop_columns(columns)
            if self._is_arrow
            else self._block.drop(columns=columns)
        )

    def rename_columns(self, columns_rename: dict[str, str]) -> Block:
        """Return the block with other names, by old name."""
        if not self._is_arrow:
            return self._block.rename(columns=columns_rename)
        names = [columns_rename.get(name, name) for name in self._block.column_names]
        return self._block.rename_columns(names)

    def upsert_column(self, column_name: str, column_data: BatchColumn) -> Block:
        """Return the block with a column more, or with other values in it."""
        if not self._is_arrow:
            return self._block.assign(**{column_name: column_data})
        made = blocks.from_batch({column_name: column_data}, "upsert_column").column(column_name)
        return blocks.with_columns(self._block, {column_name: made})

    def zip(self, other: Block) -> Block:
        """Return the columns of both blocks; a name that is taken gets "_1".

        Raises:
            ValueError: They differ in their numbers of rows.
        """
        right = BlockAccessor.for_block(other)
        if right.num_rows() != self.num_rows():
            raise ValueError(
                f"Cannot zip blocks of {self.num_rows()} and {right.num_rows()} rows: they must have "
                "the same number."
            )
        names = self.column_names()
        table = right.to_arrow()
        columns = {f"{n}_1" if n in names else n: table.column(n) for n in table.column_names}
        return blocks.with_columns(self.to_arrow(), columns)


class ArrowBlockAccessor(BlockAccessor):
    """A ``pyarrow.Table``."""

    @classmethod
    def from_bytes(cls, data: bytes) -> ArrowBlockAccessor:
        """Return the table that a stream of Arrow IPC has."""
        return cls(pa.ipc.open_stream(data).read_all())


class PandasBlockAccessor(BlockAccessor):
    """A ``pandas.DataFrame``."""
