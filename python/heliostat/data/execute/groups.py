"""Aggregations by group.

Where each aggregation can be put together of parts of its groups, every task first makes the parts of
its own rows, so that what the exchange moves is as small as the number of groups. Other aggregations
see all rows of a group, sorted by the keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import block
from heliostat.data.aggregate import columns_of
from heliostat.data.execute.exchanges import mixed_keys, ordered
from heliostat.data.missing import no_columns

if TYPE_CHECKING:
    from heliostat.data.aliases import Aggregation


ROWS_HELD_MAX = 1 << 20  # of parts that a task keeps before it joins them


@dataclass(frozen=True)
class Parts:
    """The first step: the parts of the groups of a task's rows, a row for each group."""

    keys: list[str]
    aggregations: list[Aggregation]

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        held: list[pa.Table] = []
        rows = 0
        for table in tables:
            if not table.num_rows:
                continue
            held.append(self._parts(table))
            rows += held[-1].num_rows
            if rows > ROWS_HELD_MAX:
                held = [joined_parts(held, self.keys, self.aggregations)]
                rows = held[0].num_rows
                # Groups that are as many as the rows are not worth holding: they go on as they are.
                if rows > ROWS_HELD_MAX:
                    yield held.pop()
                    rows = 0
        if held:
            yield joined_parts(held, self.keys, self.aggregations)

    def reads(self, needed: frozenset[str] | None) -> frozenset[str] | None:
        """The keys, and what is aggregated."""
        read = columns_of(self.aggregations)
        return None if read is None else read | set(self.keys)

    def _parts(self, table: pa.Table) -> pa.Table:
        read = [*self.keys, *(a.on for a in self.aggregations if a.on is not None)]
        missing = [name for name in dict.fromkeys(read) if name not in table.column_names]
        if missing:
            of = [a.name for a in self.aggregations if a.on in missing]
            raise ValueError(
                f"{', '.join(of) or 'groupby'}: {no_columns(missing, table.column_names)}"
            )
        _require_one_type(table, self.keys)
        wanted = []
        columns = {key: block.decoded(table.column(key)) for key in self.keys}
        for i, aggregation in enumerate(self.aggregations):
            if aggregation.on is not None:
                columns[f"__{i}"] = aggregation.prepared(table.column(aggregation.on))
            for kernel, _ in aggregation.parts:
                given: str | list[str] = [] if kernel == "count_all" else f"__{i}"
                wanted.append((given, kernel))
        try:
            # One thread: a task has one CPU, and others run beside it.
            made = pa.table(columns).group_by(self.keys, use_threads=False).aggregate(wanted)
        except pa.ArrowNotImplementedError as error:
            wrong = ", ".join(a.name for a in self.aggregations)
            kinds = ", ".join(f"{n} ({table.schema.field(n).type})" for n in dict.fromkeys(read))
            raise type(error)(f"{wrong} cannot be computed of columns {kinds}: {error}") from error
        columns_made = made.columns  # the keys, then what was wanted
        keys, parts = columns_made[: len(self.keys)], columns_made[len(self.keys) :]
        names = [*self.keys, *part_names(self.aggregations)]
        return pa.table([*keys, *parts], names=names)


def _alike(tables: list[pa.Table], names: list[str]) -> list[pa.Table]:
    """The tables; a sum of no values, which pyarrow calls an integer, takes the type of the others."""
    for name in names:
        if len({table.schema.field(name).type for table in tables}) > 1:
            tables = [_without_number(table, name) for table in tables]
    return tables


def _without_number(table: pa.Table, name: str) -> pa.Table:
    at, column = table.schema.get_field_index(name), table.column(name)
    if not pa.types.is_int64(column.type) or column.null_count < table.num_rows:
        return table
    return table.set_column(at, name, pa.nulls(table.num_rows))


def _require_one_type(table: pa.Table, keys: list[str]) -> None:
    """Raise for keys of Python's objects, which pyarrow does not group by."""
    mixed = mixed_keys(table, keys)
    if mixed:
        raise pa.ArrowTypeError(f"rows cannot be grouped by {', '.join(keys)}: {mixed}")


def part_names(aggregations: list[Aggregation]) -> list[str]:
    """The columns of the parts, which are not names of keys."""
    return [f"__{i}.{j}" for i, a in enumerate(aggregations) for j, _ in enumerate(a.parts)]


def joined_parts(
    tables: list[pa.Table], keys: list[str], aggregations: list[Aggregation]
) -> pa.Table:
    """Parts of the same groups joined: a row for each group."""
    if len(tables) == 1:
        return tables[0]
    names = part_names(aggregations)
    whole = block.concat(_alike(tables, names))
    _require_one_type(whole, keys)
    joins = [join for a in aggregations for _, join in a.parts]
    wanted = list(zip(names, joins, strict=True))
    if not any(a.joins_by_rows for a in aggregations):
        made = whole.group_by(keys, use_threads=False).aggregate(wanted)
        columns = [made.column(f"{name}_{join}") for name, join in wanted]
        return pa.table([*(made.column(key) for key in keys), *columns], names=[*keys, *names])
    # Such parts are joined by Python, which needs the rows of a group side by side.
    whole = ordered(whole, [(key, "ascending") for key in keys])
    begins = group_begins(whole, keys)
    lengths = np.diff([*begins, whole.num_rows])
    numbers = pa.array(np.repeat(np.arange(len(begins)), lengths))
    numbered = whole.select(names).append_column("group", numbers)
    made = numbered.group_by("group", use_threads=False).aggregate(wanted).sort_by("group")
    columns = [made.column(f"{name}_{join}") for name, join in wanted]
    at = 0
    for aggregation in aggregations:
        end = at + len(aggregation.parts)
        if aggregation.joins_by_rows:
            parts = [whole.column(name) for name in names[at:end]]
            columns[at:end] = aggregation.joined_rows(parts, begins)
        at = end
    heads = whole.select(keys).take(pa.array(begins))
    return pa.table([*heads.columns, *columns], names=[*keys, *names])


@dataclass(frozen=True)
class Joined:
    """The second step: all parts of some groups, joined."""

    keys: list[str]
    aggregations: list[Aggregation]

    def __call__(self, tables: list[pa.Table]) -> pa.Table:
        """Run."""
        full = [table for table in tables if table.num_rows]
        return joined_parts(full, self.keys, self.aggregations) if full else tables[0]


@dataclass(frozen=True)
class Finished:
    """The last step: the results of joined parts."""

    keys: list[str]
    aggregations: list[Aggregation]

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        """Run."""
        names = iter(part_names(self.aggregations))
        columns = [table.column(key) for key in self.keys]
        for aggregation in self.aggregations:
            parts = [table.column(next(names)) for _ in aggregation.parts]
            columns.append(aggregation.finished(parts))
        yield pa.table(columns, names=[*self.keys, *(a.name for a in self.aggregations)])


def by_group(table: pa.Table, keys: list[str], aggregations: list[Aggregation]) -> pa.Table:
    """Make a row for each group of a table that is sorted by ``keys``."""
    if not table.num_rows:
        nothing = [pa.nulls(0) for _ in aggregations]
        columns = [*table.select(keys).columns, *nothing]
        return pa.table(columns, names=[*keys, *(a.name for a in aggregations)])
    begins = group_begins(table, keys)
    ends = [*begins[1:], table.num_rows]
    heads = table.select(keys).take(pa.array(begins))
    rows = [
        {a.name: a.finish(a.start(table.slice(b, e - b))) for a in aggregations}
        for b, e in zip(begins, ends, strict=True)
    ]
    made = block.from_rows(rows)
    names = [*heads.column_names, *made.column_names]
    return pa.table([*heads.columns, *made.columns], names=names)


def group_begins(table: pa.Table, keys: list[str]) -> np.ndarray:
    """The row numbers at which groups begin in a table sorted by ``keys``."""
    changed = np.zeros(table.num_rows, dtype=bool)
    changed[:1] = True
    for key in keys:
        column = block.decoded(table.column(key))
        codes = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.chunk(0)
        numbers = codes.indices.to_numpy(zero_copy_only=False)
        changed[1:] |= numbers[1:] != numbers[:-1]
    return np.flatnonzero(changed)
