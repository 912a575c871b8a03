"""Joins and zips."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.core.platform.extras import required
from heliostat.data import block
from heliostat.data.execute.exchange import Inputs, Steps, Tasks
from heliostat.data.execute.exchanges import at_rows, part_count, parted, reduced
from heliostat.data.expressions.namespace import whole
from heliostat.data.missing import no_columns, require
from heliostat.data.plan.operators import Bundle
from heliostat.data.plan.transforms import Names

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from heliostat.data.aliases import RemoteArgs, Row


WHOLE_BYTES_MAX = 32 << 20  # of a side that goes whole to each task
# Keys that are whole numbers are looked up by a list of all numbers from the least to the greatest, where
# these are no more than so many for each row.
NUMBERS_MAX = 2
# The joins in which a side may: its rows come out only beside those of the other one.
WHOLE_RIGHT = ("inner", "left outer", "left semi", "left anti")
WHOLE_LEFT = ("inner", "right outer", "right semi", "right anti")

KINDS = {
    "inner": "inner",
    "left_outer": "left outer",
    "right_outer": "right outer",
    "full_outer": "full outer",
    "left_semi": "left semi",
    "right_semi": "right semi",
    "left_anti": "left anti",
    "right_anti": "right anti",
}


@dataclass
class Join:
    """Rows go to a part by a hash of their key; parts of the same number are joined by pyarrow.

    A small side goes whole to the tasks of the other one instead.
    """

    kind: str
    left: list[str]
    right: list[str]
    partitions: int | None
    left_suffix: str | None
    right_suffix: str | None
    remote_args: RemoteArgs = field(default_factory=dict)
    ends_in_tasks: ClassVar[bool] = True

    def reads(self, needed: Names) -> list[Names]:
        """The keys too. A column that both sides have is read of both: it tells how each is called."""
        if needed is None:
            return [None, None]
        suffixes = [s for s in (self.left_suffix, self.right_suffix) if s]
        # A name with a suffix is that of a column without it, or a column's own name: both are read.
        names = needed | {n.removesuffix(s) for n in needed for s in suffixes}
        return [names | set(self.left), names | set(self.right)]

    def __call__(self, inputs: Inputs, tasks: Tasks) -> Steps:
        """Run."""
        # Taken out, so that blocks are freed as soon as they have been split.
        right, left = inputs.pop(), inputs.pop()
        self._check_keys(left, right)
        tasks.remote_args = self.remote_args
        if self._sends_whole(right, left, WHOLE_RIGHT):
            yield from self._with_whole(left, right, tasks, is_right=True)
            return
        if self._sends_whole(left, right, WHOLE_LEFT):
            yield from self._with_whole(right, left, tasks, is_right=False)
            return
        count = self.partitions or part_count([*left, *right], tasks, None)
        sides = []
        for bundles, keys in ((left, self.left), (right, self.right)):
            schema = block.unify([b.schema for b in bundles if b.schema is not None])
            # Blocks without rows say only what the columns are.
            full = [b for b in bundles if b.rows]
            extra = functools.partial(_extra, keys, count)
            parts = yield from tasks.split(hash_parts, full, extra, count)
            sides.append((parts, schema))
        (left_parts, left_schema), (right_parts, right_schema) = sides
        self.check_names(left_schema, right_schema)
        boundary = len(left_parts)
        rows = [*left_parts, *right_parts]

        def reduce(_: int) -> _Joined:
            return _Joined(self, boundary, left_schema, right_schema)

        yield from reduced(rows, count, reduce, tasks)

    def _sends_whole(self, side: list[Bundle], other: list[Bundle], kinds: tuple[str, ...]) -> bool:
        """Whether a side is so small that each task of the other one gets all of it."""
        size = sum(b.size for b in side)
        # With two small sides, moving both costs no more than sending one to every task.
        small = size <= WHOLE_BYTES_MAX and size * 2 <= sum(b.size for b in other)
        # Where a side has no rows, the columns of the result may not be known: the longer way finds out.
        known = all(any(b.rows for b in bundles) for bundles in (side, other))
        return small and known and self.kind in kinds

    def _with_whole(
        self, moved: list[Bundle], whole: list[Bundle], tasks: Tasks, *, is_right: bool
    ) -> Steps:
        """Each block of the one side joined with all of the other: no row of either is moved."""
        schemas = [
            block.unify([b.schema for b in side if b.schema is not None]) for side in (moved, whole)
        ]
        left_schema, right_schema = schemas if is_right else reversed(schemas)
        self.check_names(left_schema, right_schema)
        beside = [b for b in whole if b.rows]
        full = [b for b in moved if b.rows]
        moved.clear()

        def jobs() -> Iterator[tuple[list[Bundle], _Joined]]:
            while full:
                # One at a time: each block is let go of with its task.
                one = full.pop(0)
                given = [one, *beside] if is_right else [*beside, one]
                boundary = 1 if is_right else len(beside)
                yield given, _Joined(self, boundary, left_schema, right_schema)

        yield from tasks.blocks(jobs())

    def _check_keys(self, left: list[Bundle], right: list[Bundle]) -> None:
        """Raise ``ValueError`` where a side lacks a key, before any row moves."""
        for bundles, keys, which in ((left, self.left, "left"), (right, self.right, "right")):
            schemas = [b.schema for b in bundles if b.schema is not None and b.schema.names]
            require(keys, block.unify(schemas) if schemas else None, f"join: the {which} side")

    def check_names(self, left: pa.Schema | None, right: pa.Schema | None) -> None:
        """Raise ``ValueError`` where two columns of the result would have the same name."""
        if left is None or right is None or not self.kind.endswith(("inner", "outer")):
            return
        others = {n for n in right.names if n not in self.right}
        both = [n for n in left.names if n not in self.left and n in others]
        if both and (self.left_suffix or "") == (self.right_suffix or ""):
            raise ValueError(
                f"Both sides have columns {both} besides the keys: pass left_suffix= and "
                "right_suffix= that tell them apart, such as left_suffix='_left'."
            )


def _extra(keys: list[str], count: int, _: int) -> tuple[list[str], int]:
    return keys, count


def hash_parts(table: pa.Table, keys: list[str], count: int) -> list[pa.Table]:
    """The table's rows in ``count`` parts; equal keys are in the same."""
    pd = required("pandas", "Joins")

    missing = [k for k in keys if k not in table.column_names]
    if missing:
        raise ValueError(f"join: {no_columns(missing, table.column_names)}")
    frame = pd.DataFrame({i: _comparable(table.column(name)) for i, name in enumerate(keys)})
    hashes = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    where = (hashes % count).astype(np.int64)
    return parted(table, where, count)


def _comparable(column: pa.ChunkedArray) -> np.ndarray | pd.Series:
    """The values so that equal ones have equal hashes, whatever their types and whatever is beside them.

    Numbers of all types are floats, where a missing value changes nothing; so are truth values, and
    times and durations of all units.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_date64(kind):
        column, kind = column.cast(pa.date32()), pa.date32()
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = _in_microseconds(column)
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif not (_is_number(kind) or pa.types.is_boolean(kind)):
        return column.to_pandas()
    return column.cast(pa.float64(), safe=False).to_numpy() + 0.0  # -0.0 becomes 0.0


def _is_number(kind: pa.DataType) -> bool:
    """Whether the type has integers, floats or decimals."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _in_microseconds(column: pa.ChunkedArray) -> pa.Array:
    """Times or durations as whole numbers; what is less is cut off, for only the hash is made of it."""
    numbers, unit = column.cast(pa.int64()), column.type.unit
    if unit == "ns":
        return pc.divide(numbers, 1000)
    return pc.multiply(numbers, {"s": 1_000_000, "ms": 1000, "us": 1}[unit])


@dataclass
class _Joined:
    of: Join
    boundary: int  # so many tables are of the left side
    left_schema: pa.Schema | None
    right_schema: pa.Schema | None

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        found = list(tables)
        left = _side(found[: self.boundary], self.left_schema)
        right = _side(found[self.boundary :], self.right_schema)
        made = joined(left, right, self.of)
        # The columns of a side without blocks are not known, so neither are the result's.
        known = left.num_columns and right.num_columns
        yield made if made.num_rows or known else pa.table({})


def _side(tables: list[pa.Table], schema: pa.Schema | None) -> pa.Table:
    if tables:
        return block.concat(tables)
    return schema.empty_table() if schema is not None else pa.table({})


class _Pairs(NamedTuple):
    """The rows of each side that come together, by number; null where a side has none."""

    left: pa.Array | None  # None: all rows of the left side, each once, in their order
    right: pa.Array


def joined(left: pa.Table, right: pa.Table, how: Join) -> pa.Table:
    """Two tables joined. Only keys and row numbers go through pyarrow's join, so that the other
    columns may have any type.
    """
    left, right = _with_keys(left, how.left), _with_keys(right, how.right)
    pairs = _looked_up(left, right, how)
    if pairs is None:
        pairs = _matches(left.select(how.left), right.select(how.right), how)
    ours, theirs = pairs
    if how.kind.startswith("left ") and not how.kind.endswith("outer"):
        return left if ours is None else block.take(left, ours.to_numpy())
    if how.kind.startswith("right ") and not how.kind.endswith("outer"):
        return block.take(right, theirs.to_numpy())
    by_right = how.kind == "right outer"  # the keys are those of the right side, under its names
    mine = [n for n in left.column_names if not by_right or n not in how.left]
    rest = [n for n in right.column_names if by_right or n not in how.right]
    both = set(mine) & set(rest)
    columns = {}
    for name in mine:
        column = left.column(name)
        if ours is not None:
            column = block.take_or_null(column, ours)
        if name in how.left and ours is not None and ours.null_count:
            other = right.column(how.right[how.left.index(name)])
            columns[name] = _first_of(column, block.take_or_null(other, theirs))
        elif name in how.left:
            columns[name] = column
        else:
            columns[name + (how.left_suffix or "" if name in both else "")] = column
    for name in rest:
        new = name + (how.right_suffix or "" if name in both else "")
        columns[new] = block.take_or_null(right.column(name), theirs)
    return pa.table(columns)


def _looked_up(left: pa.Table, right: pa.Table, how: Join) -> _Pairs | None:
    """The same as :func:`_matches`, by one look-up for each left row; None: it cannot be so.

    That is where rows of the left side have one partner at most, and rows of the right side alone do not
    come out: much faster than a join, and in the order of the left side.
    """
    if len(how.left) > 1 or how.kind not in WHOLE_RIGHT:
        return None
    ours, theirs = left.column(how.left[0]), right.column(how.right[0])
    plain = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_date32)
    if ours.type != theirs.type or not any(test(ours.type) for test in plain):
        return None
    # A row with two partners comes out twice, which a look-up cannot say.
    if pc.count_distinct(theirs, mode="all").as_py() < len(theirs):
        return None
    found = _by_number(ours, theirs)
    if found is None:
        places = pc.index_in(ours, value_set=whole(theirs), skip_nulls=True)
        found = whole(places.fill_null(-1)).to_numpy()
    if how.kind == "left outer":
        return _Pairs(None, pa.array(found, mask=found < 0))
    kept = found < 0 if how.kind == "left anti" else found >= 0
    if kept.all():
        return _Pairs(None, pa.array(found))
    return _Pairs(pa.array(np.flatnonzero(kept)), pa.array(found[kept]))


def _by_number(ours: pa.ChunkedArray, theirs: pa.ChunkedArray) -> npt.NDArray[np.int32] | None:
    """The place of each of our keys among theirs, -1 where it is missing.

    A list that has the place of every number between their least and their greatest takes half as long as
    pyarrow's table of hashes. None: theirs are not whole numbers near each other.
    """
    if not pa.types.is_integer(theirs.type) or theirs.null_count or not len(theirs):
        return None
    low, high = pc.min_max(theirs).as_py().values()
    length = high - low + 1
    if length > NUMBERS_MAX * (len(ours) + len(theirs)) or not -(2**63) <= low <= high < 2**63:
        return None
    places = np.full(length + 1, -1, np.int32)  # the last one: of all other numbers
    places[theirs.to_numpy().astype(np.int64) - low] = np.arange(len(theirs))
    found = np.empty(len(ours), np.int32)
    at = 0
    for chunk in ours.chunks:
        numbers = chunk.fill_null(low).to_numpy().astype(np.int64, copy=False)
        # A value below the least wraps round, and is above the greatest then.
        steps = (numbers - low).view(np.uint64)
        part = found[at : at + len(chunk)]
        places.take(np.minimum(steps, length).view(np.int64), out=part, mode="clip")
        if chunk.null_count:
            part[pc.is_null(chunk).to_numpy(zero_copy_only=False)] = -1
        at += len(chunk)
    return found


def _with_keys(table: pa.Table, keys: list[str]) -> pa.Table:
    """The table; a side that no block has come to, and whose columns are unknown, gets empty keys."""
    if table.num_columns:
        return table
    return pa.table({key: pa.nulls(table.num_rows) for key in keys})


def _matches(left: pa.Table, right: pa.Table, how: Join) -> _Pairs:
    """The rows that come together, by pyarrow's join."""
    sides: list[Row] = [{}, {}]
    for i, (ours, theirs) in enumerate(zip(left.columns, right.columns, strict=True)):
        kind = _key_type(ours.type, theirs.type, how.left[i])
        for side, column in zip(sides, (ours, theirs), strict=True):
            side[f"key{i}"] = column.cast(kind)
    tables = [
        pa.table({**side, name: pa.array(np.arange(table.num_rows))})
        for side, table, name in zip(sides, (left, right), ("left", "right"), strict=True)
    ]
    # One thread: a task has one CPU, and others run beside it.
    made = tables[0].join(tables[1], keys=list(sides[0]), join_type=how.kind, use_threads=False)
    # A semi or an anti join has one of the two.
    numbers = [
        whole(made.column(name)) if name in made.column_names else pa.nulls(0)
        for name in ("left", "right")
    ]
    return _Pairs(*numbers)


def _key_type(left: pa.DataType, right: pa.DataType, name: str) -> pa.DataType:
    """The type that keys of both sides are compared in."""
    kinds = [k.value_type if pa.types.is_dictionary(k) else k for k in (left, right)]
    fields = [pa.schema([(name, kind)]) for kind in kinds]
    try:
        common = pa.unify_schemas(fields, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(
            f"The keys {name!r} cannot be compared: {left} on the left, {right} on the right."
        ) from error
    return pa.int8() if pa.types.is_null(common) else common  # pyarrow joins by no column of nulls


def _first_of(taken: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """A key's column: of the left side, and of the right side for rows that the left lacks."""
    kind = _key_type(taken.type, other.type, "")
    return pc.coalesce(taken.cast(kind), other.cast(kind))


class Zip:
    """Blocks of the first dataset, with the same rows of the others beside them."""

    def __call__(self, inputs: Inputs, tasks: Tasks) -> Steps:
        """Run."""
        totals = [sum(b.rows for b in bundles) for bundles in inputs]
        if len(set(totals)) > 1:
            raise ValueError(
                "Cannot zip datasets of different number of rows: " + ", ".join(map(str, totals))
            )
        first = [b for b in inputs[0] if b.rows]
        ends = np.cumsum([b.rows for b in first]).tolist()
        sides = [list(at_rows(bundles, ends)) for bundles in inputs]
        inputs.clear()

        def jobs() -> Iterator[tuple[list[Bundle], _Beside]]:
            for parts in zip(*sides, strict=True):
                given = [b for part in parts for b in part]
                yield given, _Beside([len(part) for part in parts])

        yield from tasks.blocks(jobs())


@dataclass
class _Beside:
    counts: list[int]  # tables of each side

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        found = list(tables)
        made: pa.Table | None = None
        for count in self.counts:
            side, found = block.concat(found[:count]), found[count:]
            if made is None:
                made = side
                continue
            for name in side.column_names:
                made = made.append_column(_free_name(name, made.column_names), side.column(name))
        yield made


def _free_name(name: str, taken: list[str]) -> str:
    if name not in taken:
        return name
    number = 1
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"
