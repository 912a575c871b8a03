"""The library's own steps on a table: columns added, dropped, chosen, renamed; rows drawn.

They are classes, not local functions, so that a plan with them can be pickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from heliostat.data import block
from heliostat.data.missing import no_columns
from heliostat.data.plan import task
from heliostat.data.seeds import Seed, drawn

if TYPE_CHECKING:
    from heliostat.data.aliases import Function, Value


@dataclass(frozen=True)
class AddColumn:
    """A column more: what the user's function gives for a batch."""

    name: str
    function: Function
    batch_format: str | None
    __name__ = "add_column"  # what plans call it

    def __call__(self, table: pa.Table) -> pa.Table:
        """Run."""
        made = self.function(block.to_batch(table, self.batch_format))
        columns = block.from_batch({self.name: _values(made)}, "add_column's function")
        if columns.num_rows != table.num_rows:
            raise ValueError(
                f"add_column's function returned {columns.num_rows} values for {table.num_rows} rows; "
                "it must return one for each."
            )
        return block.with_columns(table, {self.name: columns.column(self.name)})


@dataclass(frozen=True)
class DropColumns:
    """The table without some columns."""

    names: tuple[str, ...]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Run."""
        missing = [c for c in self.names if c not in table.column_names]
        if missing and table.num_columns:
            raise KeyError(f"drop_columns: {no_columns(missing, table.column_names)}")
        return table.drop_columns([c for c in self.names if c in table.column_names])

    def reads(self, needed: frozenset[str] | None) -> frozenset[str] | None:
        """All of the table: the dropped ones have to be there."""
        return None if needed is None else needed | set(self.names)

    def narrowed(
        self, needed: frozenset[str] | None, there: tuple[str, ...]
    ) -> DropColumns | SelectColumns:
        """A choice of the others, where nothing is missing."""
        if not set(self.names) <= set(there):
            return self
        rest = tuple(n for n in there if n not in self.names)
        return SelectColumns(rest).narrowed(needed, there)


@dataclass(frozen=True)
class SelectColumns:
    """Some columns, in this order."""

    names: tuple[str, ...]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Run."""
        _require(table, self.names, "select_columns")
        return table.select([c for c in self.names if c in table.column_names])

    def reads(self, needed: frozenset[str] | None) -> frozenset[str]:
        """The chosen ones."""
        return frozenset(self.names)

    def narrowed(self, needed: frozenset[str] | None, there: tuple[str, ...]) -> SelectColumns:
        """Only what is needed, where nothing is missing."""
        if needed is None or not set(self.names) <= set(there):
            return self
        kept = tuple(n for n in self.names if n in needed)
        return SelectColumns(kept or self.names[:1])  # a table of no columns loses its rows


@dataclass(frozen=True)
class RenameColumns:
    """Other names: a mapping from old to new, or all names in order."""

    names: Mapping[str, str] | tuple[str, ...]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Run."""
        if isinstance(self.names, Mapping):
            _require(table, self.names, "rename_columns")
            return table.rename_columns([self.names.get(n, n) for n in table.column_names])
        if len(self.names) != table.num_columns and table.num_columns:
            raise ValueError(
                f"rename_columns got {len(self.names)} names for the columns {table.column_names}"
            )
        return table.rename_columns(list(self.names)) if table.num_columns else table

    def of(self, there: Sequence[str]) -> dict[str, str] | None:
        """New names by the old ones; None: something is missing."""
        if isinstance(self.names, Mapping):
            mapping = self.names
            return {n: mapping.get(n, n) for n in there} if set(mapping) <= set(there) else None
        return dict(zip(there, self.names, strict=True)) if len(self.names) == len(there) else None

    def reads(self, needed: frozenset[str] | None) -> frozenset[str] | None:
        """Return the earlier names of the needed columns, and all that are renamed: they have to be
        there.
        """
        if needed is None or not isinstance(self.names, Mapping):
            return None
        return (needed - set(self.names.values())) | set(self.names)

    def narrowed(self, needed: frozenset[str] | None, there: tuple[str, ...]) -> RenameColumns:
        """Only what is needed, where nothing is missing and no name comes twice."""
        new = self.of(there)
        if needed is None or new is None or len(set(new.values())) < len(new):
            return self
        kept = {a: b for a, b in new.items() if b in needed and a != b}
        while taken := set(kept.values()) & (set(new) - set(kept)):
            # A column that has had such a name is in the table all the same, and moves out of its way.
            kept.update({a: new[a] for a in taken})
        return RenameColumns(kept)


@dataclass(frozen=True)
class RandomSample:
    """Each row with a probability."""

    fraction: float
    seed: Seed

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        rng: np.random.Generator | None = None
        for table in tables:
            if rng is None:
                # Blocks must not all draw the same numbers.
                seed = drawn(self.seed, task.execution())
                rng = np.random.default_rng(None if seed is None else [seed, task.index()])
            yield table.filter(rng.random(table.num_rows) < self.fraction)

    def reads(self, needed: frozenset[str] | None) -> frozenset[str] | None:
        """No column of its own."""
        return needed


@dataclass(frozen=True)
class TrainTestPart:
    """The rows of one side of a split, which two executions draw alike."""

    test_size: float
    hash_column: str | None
    seed: int | None
    wants_test: bool

    @classmethod
    def checked(
        cls, test_size: float, split_type: str, hash_column: str | None, seed: int | None
    ) -> tuple[TrainTestPart, TrainTestPart]:
        """The sides for training and for testing.

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
        return (
            cls(test_size, hash_column, seed, wants_test=False),
            cls(test_size, hash_column, seed, wants_test=True),
        )

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        # The two sides are executed apart, so their numbers may depend on nothing but the task.
        rng = np.random.default_rng([self.seed or 0, task.index()])
        for table in tables:
            if self.hash_column is None:
                is_test = rng.random(table.num_rows) >= 1 - self.test_size
            else:
                _require(table, [self.hash_column], "streaming_train_test_split")
                values = table.column(self.hash_column).to_pylist() if table.num_columns else []
                is_test = np.array([_hashed(v) >= 1 - self.test_size for v in values], dtype=bool)
            yield table.filter(pa.array(is_test == self.wants_test))

    def reads(self, needed: frozenset[str] | None) -> frozenset[str] | None:
        """Return the needed columns, and the one that decides.

        Drawn rows need all columns: a source that reads fewer may cut its tasks differently.
        """
        if self.hash_column is None or needed is None:
            return None
        return needed | {self.hash_column}


def _hashed(value: object) -> float:
    """A number from 0 to 1 that depends on the value alone."""
    digest = hashlib.blake2b(str(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / (1 << 64)


def _require(table: pa.Table, names: Iterable[str], method: str) -> None:
    """Refuse names that are not columns; a table without columns is one without rows."""
    missing = [name for name in names if name not in table.column_names]
    if missing and table.num_columns:
        raise KeyError(f"{method}: {no_columns(missing, table.column_names)}")


def _values(made: Value) -> Value:
    """Return the result of a function of ``add_column`` as a column: of a series, an array, a frame
    of one.
    """
    if hasattr(made, "iloc") and hasattr(made, "to_numpy"):
        if hasattr(made, "columns"):
            made = made.iloc[:, 0]
        return made.tolist() if made.dtype == object else pa.Array.from_pandas(made)
    return made
