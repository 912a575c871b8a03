"""The transforms of blocks: each takes a stream of tables and gives one. They run in workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from heliostat.data import block
from heliostat.data.exceptions import user_error
from heliostat.data.expressions.expr import Expr, UnnestExpr
from heliostat.data.plan import task
from heliostat.data.plan.udf import Opened, Udf

if TYPE_CHECKING:
    from heliostat.data.aliases import Batch, Row, Value


Tables = Iterator[pa.Table]
Names = frozenset[str] | None  # of columns; None: all that there are
AUTO_BATCH_BYTES = 16 << 20  # of a batch whose size is "auto"
FLAT_ROWS_MAX = 1 << 16  # of the lists of some thousand rows that are put together at once


class Transform:
    """A step of a stage. ``open`` is called once per process, ``apply`` once per task."""

    name = "Transform"
    udf: Udf | None = None
    is_by_row = (
        False  # where it keeps the number of rows: whether each depends on its own row alone
    )

    def open(self) -> Opened | None:
        """Prepare the user's function."""
        return self.udf.open() if self.udf is not None else None

    def apply(self, tables: Tables, fn: object) -> Tables:
        """The step's output for these inputs; ``fn`` is what :meth:`open` gave."""
        raise NotImplementedError

    # --- for the optimiser ---

    def reads(self, needed: Names) -> Names:
        """The columns of the input that it needs to give the ``needed`` ones."""
        return None

    def narrowed(self, needed: Names, there: tuple[str, ...] | None) -> Transform:
        """The step that gives no more than ``needed``, if it has the columns ``there`` (None: unknown).

        It may only leave out what cannot fail.
        """
        return self


@dataclass
class _OfUdf(Transform):
    """A step that calls the user's function or class."""

    udf: Udf

    verb: ClassVar[str]

    @property
    def name(self) -> str:  # type: ignore[override] # derived from the function
        """The name in plans."""
        return f"{self.verb}({self.udf.name})"


@dataclass
class MapRows(_OfUdf):
    """Makes a row out of each row."""

    verb = "Map"
    is_by_row = True

    def apply(self, tables: Tables, fn: Any) -> Tables:
        """Call the function for each row."""
        if fn.is_async:
            return block.tables_of_dicts(self._results(tables, fn))
        return self._tables(tables, fn)

    def _results(self, tables: Tables, fn: Opened) -> Iterator[list[Value]]:
        done = 0
        for results in _results_of_rows(tables, fn):
            yield _checked_dicts(results, fn, done)
            done += len(results)

    def _tables(self, tables: Tables, fn: Opened) -> Tables:
        """The results as tables. Once some thousand results had the same keys, no more of them are kept than
        their values, a list for each key.
        """
        done = 0
        rows: list[Row] = []
        filled = block.Filled(())
        for table in tables:
            for names, columns, count in block.columns_at_once(table):
                if filled.names:
                    found = fn.fill(names, columns, count, filled.names, filled.lists)
                    if found and filled.rows:
                        yield filled.table()
                else:
                    found = fn.all(names, columns, count)
                done += count
                if found:
                    rows.extend(_checked_dicts(found, fn, done - len(found)))
                    filled = block.Filled(())
                if len(rows) >= block.ROWS_AT_ONCE:
                    made, filled = block.from_rows(rows), block.Filled(block.names_of_all(rows))
                    rows = []
                    yield made
                elif filled.rows >= block.ROWS_AT_ONCE:
                    yield filled.table()
        if filled.rows:
            yield filled.table()
        if rows:
            yield block.from_rows(rows)


@dataclass
class FlatMapRows(_OfUdf):
    """Any number of rows out for each row in."""

    verb = "FlatMap"

    def apply(self, tables: Tables, fn: Any) -> Tables:
        """Call the function for each row and take apart what it returns."""
        return block.tables_of_dicts(self._results(tables, fn))

    def _results(self, tables: Tables, fn: Opened) -> Iterator[list[Value]]:
        done = 0
        for results in _results_of_rows(tables, fn):
            lists = set(map(type, results)) == {list}
            if lists and sum(map(len, results)) <= FLAT_ROWS_MAX:
                rows = list(chain.from_iterable(results))
                if not rows or block.are_dicts(rows):
                    done += len(results)
                    yield rows
                    continue
            rows = []
            for row in self._checked(results, fn, done):
                rows.append(row)
                if len(rows) >= block.ROWS_AT_ONCE:
                    yield rows
                    rows = []
            done += len(results)
            yield rows

    def _checked(
        self, results: list[object], fn: Opened, done: int
    ) -> Iterator[Mapping[str, Value]]:
        for number, result in enumerate(results, done):
            fn.at = (number, 1)  # of a generator, which runs now
            if isinstance(result, Mapping) or not isinstance(result, Iterable):
                raise ValueError(
                    f"{fn.name} returned {type(result)} for {task.place(fn.at)}; a function of "
                    "`flat_map` returns a list of dicts."
                )
            for row in fn.items(result):
                if not isinstance(row, Mapping):
                    raise ValueError(
                        f"{fn.name} returned a list with {type(row)} in it for "
                        f"{task.place(fn.at)}; a function of `flat_map` returns a list of dicts."
                    )
                yield row


@dataclass
class FilterRows(_OfUdf):
    """The rows for which a function returns something true."""

    verb = "Filter"

    def apply(self, tables: Tables, fn: Any) -> Tables:
        """Ask the function about each row."""
        for table in tables:
            keep = [bool(result) for some in _results_of_rows([table], fn) for result in some]
            yield table if all(keep) else table.filter(pa.array(keep, pa.bool_()))


@dataclass
class FilterExpression(Transform):
    """The rows for which an expression is true."""

    expression: Expr

    @property
    def name(self) -> str:  # type: ignore[override] # derived from the expression
        """The name in plans."""
        return f"Filter({self.expression!r})"

    def reads(self, needed: Names) -> Names:
        """Return the needed columns, and those of the condition."""
        return joined_names(needed, self.expression.columns())

    def apply(self, tables: Tables, fn: object) -> Tables:
        """Evaluate the expression on whole columns."""
        for table in tables:
            yield table.filter(self.expression.mask(table)) if _has_any(table) else table


@dataclass
class MapBatches(_OfUdf):
    """A function of batches. ``batch_size`` None: whole blocks; "auto": by the bytes of a row."""

    verb = "MapBatches"

    batch_size: int | str | None = None
    batch_format: str | None = "default"
    zero_copy: bool = True
    keeps_rows: bool = False  # as its author promises

    def apply(self, tables: Tables, fn: Any) -> Tables:
        """Call the function for each batch."""
        empty: list[object] = []
        called: deque[tuple[int, int]] = deque()
        batches = self._batches(tables, empty, called, fn)
        some = False
        for _, result in fn.each(batches):
            at, rows = called.popleft(), 0
            items = result if isinstance(result, Iterator) else (result,)
            for item in items:
                some = True
                made = block.from_batch(item, fn.name)
                rows += made.num_rows
                del item  # so that the next call can have its memory
                yield made
                del made
            del result, items
            if self.keeps_rows and rows != at[1]:
                raise ValueError(
                    f"{fn.name} returned {rows} rows for {task.place(at)}; map_batches was told that "
                    "it keeps them, by udf_modifying_row_count=False."
                )
        if not some and empty:
            yield pa.table({})  # what columns the function would have made is not known

    def _batches(
        self, tables: Tables, empty: list[object], called: deque[tuple[int, int]], fn: Opened
    ) -> Iterator[Batch]:
        done = 0
        whole = _with_rows(tables, empty)
        if isinstance(self.batch_size, int):
            cut = rebatched(whole, self.batch_size)
        else:
            cut = whole if self.batch_size is None else _of_bytes(whole, AUTO_BATCH_BYTES)
        for table in cut:
            called.append((done, table.num_rows))
            fn.at, done = called[-1], done + table.num_rows
            batch = block.to_batch(block.joined(table), self.batch_format)
            yield batch if self.zero_copy else own_batch(batch)


@dataclass
class Project(Transform):
    """Columns more, or others: (column, expression), or ``unnest`` under no name."""

    items: tuple[tuple[str, Expr], ...]
    name = "Project"
    is_by_row = True

    def reads(self, needed: Names) -> Names:
        """Return the columns of the expressions, and the other needed ones."""
        kept = None if needed is None else needed - {name for name, _ in self.items}
        return joined_names(kept, *(expr.columns() for _, expr in self.items))

    def narrowed(self, needed: Names, there: tuple[str, ...] | None) -> Transform:
        """Without expressions that nobody needs."""
        if needed is None or there is None:
            return self

        def is_needed(name: str, expr: Expr) -> bool:
            read = expr.columns()
            return name in needed or not expr.movable or read is None or not read <= set(there)

        return Project(tuple(item for item in self.items if is_needed(*item)))

    def apply(self, tables: Tables, fn: object) -> Tables:
        """Evaluate the expressions on whole columns, all on those that came in."""
        for table in tables:
            yield block.with_columns(table, self._columns(table)) if _has_any(table) else table

    def _columns(self, table: pa.Table) -> dict[str, pa.Array]:
        made: dict[str, object] = {}
        try:
            for name, expr in self.items:
                if isinstance(expr, UnnestExpr):
                    made.update(expr.fields(table))
                else:
                    made[name] = expr.column(table)
        except Exception as error:
            raise user_error(error, f"the expression {expr!r}", task.place(None)) from error
        return made


@dataclass
class MapTables(Transform):
    """A function of whole tables, used by the library itself."""

    function: Callable[[pa.Table], object]
    name: str = "Project"
    is_by_row = True

    def reads(self, needed: Names) -> Names:
        """Return the columns that the function says it reads."""
        reads = getattr(self.function, "reads", None)
        return None if reads is None else reads(needed)

    def narrowed(self, needed: Names, there: tuple[str, ...] | None) -> Transform:
        """Return the transform with the narrowed function, if it can be narrowed."""
        narrowed = getattr(self.function, "narrowed", None)
        if narrowed is None or there is None:
            return self
        return MapTables(narrowed(needed, there), self.name)

    def apply(self, tables: Tables, fn: object) -> Tables:
        """Call the function for each table."""
        for table in tables:
            yield self.function(table) if _has_any(table) else table


@dataclass
class MapStream(Transform):
    """A function of all tables of a task, used by the library itself."""

    function: Callable[[Tables], Tables]
    name: str = "Stream"

    def reads(self, needed: Names) -> Names:
        """Return the columns that the function says it reads."""
        reads = getattr(self.function, "reads", None)
        return None if reads is None else reads(needed)

    def apply(self, tables: Tables, fn: object) -> Tables:
        """Call the function once."""
        return self.function(tables)


def joined_names(*several: Names) -> Names:
    """The columns of all."""
    found: set[str] = set()
    for names in several:
        if names is None:
            return None
        found |= names
    return frozenset(found)


def _has_any(table: pa.Table) -> bool:
    """Whether it has rows or columns: what nothing came into has neither."""
    return bool(table.num_columns or table.num_rows)


def _with_rows(tables: Tables, empty: list[object]) -> Tables:
    """The tables that have rows; the others are kept apart."""
    for table in tables:
        if table.num_rows:
            yield table
        else:
            empty.append(table)


def rebatched(tables: Tables, size: int) -> Tables:
    """The same rows in tables of ``size`` rows; the last may have fewer."""
    rest: list[object] = []
    have = 0
    for table in tables:
        at = 0
        while have + table.num_rows - at >= size:
            piece = table.slice(at, size - have)
            at += size - have
            yield block.concat([*rest, piece]) if rest else piece
            rest, have = [], 0
        if at < table.num_rows:
            rest.append(table.slice(at))
            have += table.num_rows - at
    if rest:
        yield block.concat(rest)


def _of_bytes(tables: Tables, size: int) -> Tables:
    """Each table in pieces of about ``size`` bytes."""
    for table in tables:
        rows = max(1, size * table.num_rows // max(1, table.nbytes))
        for at in range(0, table.num_rows, rows):
            yield table.slice(at, rows)


def own_batch(batch: Batch) -> Batch:
    """A batch whose arrays may be written to."""
    if isinstance(batch, dict):
        return {name: np.array(values) for name, values in batch.items()}
    return batch.copy() if hasattr(batch, "iloc") else batch


def _checked_dicts(results: list[Value], fn: Opened, done: int) -> list[Row]:
    """The results of a function of `map`, of which ``done`` were before these."""
    if not block.are_dicts(results):
        wrong = [isinstance(r, Mapping) for r in results].index(False)
        several = isinstance(results[wrong], list | tuple | Iterator)
        hint = " For several rows of one, use `flat_map`." if several else ""
        raise ValueError(
            f"{fn.name} returned {type(results[wrong])} for "
            f"{task.place((done + wrong, 1))}; a function of `map` returns a dict.{hint}"
        )
    return results


def _numbered(tables: Iterable[pa.Table], fn: Opened) -> Iterator[Row]:
    """The rows, each of which says its number before the call with it."""
    for number, row in enumerate(chain.from_iterable(map(block.rows, tables))):
        fn.at = (number, 1)
        yield row


def _results_of_rows(tables: Iterable[pa.Table], fn: Opened) -> Iterator[list[Value]]:
    """Yield the results of the function for each row, some thousand rows at a time."""
    if fn.is_async:  # calls overlap across tables, which may be of a single row
        yield from ([result] for _, result in fn.each(_numbered(tables, fn)))
        return
    for table in tables:
        for names, columns, rows in block.columns_at_once(table):
            yield fn.all(names, columns, rows)
