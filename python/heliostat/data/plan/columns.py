"""What the library's own steps do to a table: columns added, dropped, chosen, renamed; rows drawn.

They are classes, not local functions, so that a plan with them can be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from heliostat.data import block
from heliostat.data.missing import no_columns
from heliostat.data.plan import task


@dataclass(frozen=True)
class AddColumn:
    """A column more: what the user's function gives for a batch."""

    name: str
    function: Callable[[Any], Any]
    batch_format: str | None
    __name__ = "add_column"  # what plans call it

    def __call__(self, table: Any) -> Any:
        """Run."""
        made = self.function(block.to_batch(table, self.batch_format))
        columns = block.from_batch({self.name: _values(made)}, "add_column's function")
        return block.with_columns(table, {self.name: columns.column(self.name)})


@dataclass(frozen=True)
class DropColumns:
    """The table without some columns."""

    names: tuple[str, ...]

    def __call__(self, table: Any) -> Any:
        """Run."""
        missing = [c for c in self.names if c not in table.column_names]
        if missing and table.num_columns:
            raise KeyError(f"drop_columns: {no_columns(missing, table.column_names)}")
        return table.drop_columns([c for c in self.names if c in table.column_names])


@dataclass(frozen=True)
class SelectColumns:
    """Some columns, in this order."""

    names: tuple[str, ...]

    def __call__(self, table: Any) -> Any:
        """Run."""
        _require(table, self.names, "select_columns")
        return table.select([c for c in self.names if c in table.column_names])


@dataclass(frozen=True)
class RenameColumns:
    """Other names: a mapping from old to new, or all names in order."""

    names: Mapping[str, str] | tuple[str, ...]

    def __call__(self, table: Any) -> Any:
        """Run."""
        if isinstance(self.names, Mapping):
            _require(table, self.names, "rename_columns")
            return table.rename_columns([self.names.get(n, n) for n in table.column_names])
        if len(self.names) != table.num_columns and table.num_columns:
            raise ValueError(
                f"rename_columns got {len(self.names)} names for the columns {table.column_names}"
            )
        return table.rename_columns(list(self.names)) if table.num_columns else table


@dataclass(frozen=True)
class RandomSample:
    """Each row with a probability."""

    fraction: float
    seed: Any

    def __call__(self, tables: Iterator[Any]) -> Iterator[Any]:
        """Run."""
        rng: Any = None
        for table in tables:
            if rng is None:
                # Blocks must not all draw the same numbers.
                rng = np.random.default_rng(
                    None if self.seed is None else [self.seed, task.index()]
                )
            yield table.filter(rng.random(table.num_rows) < self.fraction)


def _require(table: Any, names: Iterable[str], method: str) -> None:
    """Refuse names that are no columns; a table without columns is one without rows."""
    missing = [name for name in names if name not in table.column_names]
    if missing and table.num_columns:
        raise KeyError(f"{method}: {no_columns(missing, table.column_names)}")


def _values(made: Any) -> Any:
    """What a function of ``add_column`` returned, as a column: a series, an array, a frame of one."""
    if hasattr(made, "iloc") and hasattr(made, "to_numpy"):
        if hasattr(made, "columns"):
            made = made.iloc[:, 0]
        return made.tolist() if made.dtype == object else pa.Array.from_pandas(made)
    return made
