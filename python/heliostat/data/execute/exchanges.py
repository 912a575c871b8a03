"""Shuffle, repartition and sort: first each block is split into parts, then parts become blocks.

What is called in tasks are functions of this module with plain arguments.
"""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from heliostat.data import block, ordering, tensors
from heliostat.data.execute.exchange import Inputs, Parts, Steps, Tasks
from heliostat.data.missing import no_columns
from heliostat.data.plan.operators import Bundle
from heliostat.data.plan.transforms import Names, joined_names
from heliostat.data.seeds import Seed, drawn

if TYPE_CHECKING:
    from heliostat import ObjectRef
    from heliostat.data.aliases import RemoteArgs, Value


__all__ = ["Inputs", "RandomShuffle", "RandomizeBlocks", "Repartition", "Sort", "Steps", "Tasks"]

PARTS_MAX = 200
SAMPLES_PER_BLOCK = 100
SORTED_BYTES_MAX = 256 << 20  # of a sorted part that is made as a whole

Reduce = Callable[[Iterator[pa.Table]], Iterator[pa.Table]]


def part_count(bundles: list[Bundle], tasks: Tasks, wanted: int | None) -> int:
    """Blocks that come out of an exchange: as many as went in unless they are tiny, or too large."""
    if wanted is not None:
        return wanted
    size = sum(b.size for b in bundles)
    full = [b for b in bundles if b.rows]
    least = -(-size // tasks.block_bytes) if tasks.block_bytes else 1
    return max(1, least, min(len(full), PARTS_MAX))


def reduced(parts: Parts, count: int, reduce: Callable[[int], Reduce], tasks: Tasks) -> Steps:
    """Start a task for each part number, in order; parts are let go of as they are used."""

    def jobs() -> Iterator[tuple[list[ObjectRef | None], Reduce]]:
        for number in range(count):
            yield [row[number] for row in parts], reduce(number)
            for row in parts:
                row[number] = None

    yield from tasks.blocks(jobs())


# --- random shuffle --------------------------------------------------------------------------------


@dataclass
class RandomShuffle:
    """Every row goes to a random part; each part is put into random order."""

    seed: Seed
    num_blocks: int | None
    remote_args: RemoteArgs = field(default_factory=dict)
    ends_in_tasks: ClassVar[bool] = True

    def reads(self, needed: Names) -> list[Names]:
        """No column of its own."""
        return [needed]

    def __call__(self, inputs: Inputs, tasks: Tasks) -> Steps:
        """Run."""
        bundles = [b for b in inputs.pop() if b.rows]
        tasks.remote_args = self.remote_args
        count = part_count(bundles, tasks, self.num_blocks)
        seed = drawn(self.seed, tasks.execution)
        if seed is None:
            seed = secrets.randbits(63)
        parts = yield from tasks.split(scatter, bundles, lambda i: (seed, i, count), count)
        yield from reduced(parts, count, lambda i: Permute(seed, i), tasks)


def scatter(table: pa.Table, seed: int, number: int, count: int) -> list[pa.Table]:
    """The table's rows in ``count`` random parts."""
    rng = np.random.default_rng([seed, 0, number])
    where = rng.integers(0, count, table.num_rows)
    return parted(table, where, count)


def parted(table: pa.Table, where: np.ndarray, count: int) -> list[pa.Table]:
    """The table's rows in ``count`` parts, ``where`` being the number of each row's part."""
    narrow = (
        where.astype(np.uint16) if count <= 1 << 16 else where
    )  # numpy sorts these by their digits
    order = np.argsort(narrow, kind="stable")
    ends = np.cumsum(np.bincount(where, minlength=count))[:-1]
    return cut_at(block.take(table, order), ends)


def cut_at(table: pa.Table, places: Iterable[int]) -> list[pa.Table]:
    """The table cut at row numbers, each piece in memory of its own."""
    ends = [*(int(p) for p in places), table.num_rows]
    begins = [0, *ends[:-1]]
    return [block.compact(table.slice(a, b - a)) for a, b in zip(begins, ends, strict=True)]


@dataclass
class Permute:
    """Parts joined in random order."""

    seed: int
    number: int

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        whole = block.concat(list(tables))
        rng = np.random.default_rng([self.seed, 1, self.number])
        yield block.take(whole, rng.permutation(whole.num_rows))


@dataclass
class RandomizeBlocks:
    """The same blocks in random order."""

    seed: Seed

    def reads(self, needed: Names) -> list[Names]:
        """No column of its own."""
        return [needed]

    def __call__(self, inputs: Inputs, tasks: Tasks) -> Steps:
        """Run."""
        bundles = list(inputs[0])
        random.Random(drawn(self.seed, tasks.execution)).shuffle(bundles)
        yield from bundles


# --- repartition -----------------------------------------------------------------------------------


@dataclass
class Repartition:
    """Neighbouring rows stay together: each new block is made of slices of old ones."""

    num_blocks: int

    def reads(self, needed: Names) -> list[Names]:
        """No column of its own."""
        return [needed]

    def __call__(self, inputs: Inputs, tasks: Tasks) -> Steps:
        """Run."""
        bundles = inputs.pop()
        schema = block.unify([b.schema for b in bundles if b.schema is not None])
        jobs = ((part, _Together(schema)) for part in shares(bundles, self.num_blocks))
        tasks.block_bytes = None  # the number of blocks is what was asked for
        yield from tasks.blocks(jobs)


def shares(bundles: list[Bundle], count: int) -> Iterator[list[Bundle]]:
    """The bundles cut into ``count`` runs of about the same number of rows."""
    total = sum(b.rows for b in bundles)
    ends = [(i + 1) * total // count for i in range(count)]
    yield from at_rows(bundles, ends)


def at_rows(bundles: list[Bundle], ends: list[int]) -> Iterator[list[Bundle]]:
    """The bundles cut at these row numbers, which rise."""
    waiting = [b for b in bundles if b.rows]
    waiting.reverse()
    done = 0
    for end in ends:
        part: list[Bundle] = []
        while waiting and done < end:
            bundle = waiting.pop()
            want = end - done
            if bundle.rows > want:
                waiting.append(bundle.slice(want, bundle.rows - want))
                bundle = bundle.slice(0, want)
            done += bundle.rows
            part.append(bundle)
        yield part


@dataclass
class _Together:
    schema: pa.Schema

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        found = list(tables)
        if found:
            yield block.concat(found)
        elif self.schema is not None:
            yield self.schema.empty_table()


# --- sort ------------------------------------------------------------------------------------------


@dataclass
class Sort:
    """Boundaries are sampled; rows between two of them become one sorted block."""

    order: list[tuple[str, str]]
    num_blocks: int | None = None
    boundaries: list[Value] | None = None
    before: Callable[[list[pa.Table]], pa.Table] | None = (
        None  # makes a table of the tables of a part, which is then sorted
    )
    after: Callable[[pa.Table], pa.Table] | None = (
        None  # what is done with each sorted part: a function of a table
    )
    by_size: bool = False  # make as many blocks as their bytes need, not as many as came
    remote_args: RemoteArgs = field(default_factory=dict)
    ends_in_tasks: ClassVar[bool] = True

    @property
    def passes_filters(self) -> bool:
        """Whether leaving out rows before is the same as after: the order is stable."""
        return self.after is None

    def reads(self, needed: Names) -> list[Names]:
        """The keys too."""
        keys = frozenset(name for name, _ in self.order)
        if self.after is None:
            return [joined_names(needed, keys)]
        reads = getattr(self.after, "reads", None)
        return [None if reads is None else joined_names(reads(needed), keys)]

    def __call__(self, inputs: Inputs, tasks: Tasks) -> Steps:
        """Run."""
        bundles = [b for b in inputs.pop() if b.rows]
        if not bundles:
            return
        tasks.remote_args = self.remote_args
        finish = Sorted(self.order, self.before, self.after)
        if self.boundaries is None and self._count(bundles, tasks) == 1:
            yield from tasks.blocks(iter([(bundles, finish)]))
            return
        edges = yield from self._edges(bundles, tasks)
        extra, count = (self.order, edges), len(edges) + 1
        more = {} if self.before is None else {"join": self.before}
        parts = yield from tasks.split(range_parts, bundles, lambda _: extra, count, **more)
        yield from reduced(parts, count, lambda _: finish, tasks)

    def _count(self, bundles: list[Bundle], tasks: Tasks) -> int:
        if self.by_size and self.num_blocks is None:
            size = sum(b.size for b in bundles)
            return max(1, -(-size // (tasks.block_bytes or size)))
        return part_count(bundles, tasks, self.num_blocks)

    def _edges(self, bundles: list[Bundle], tasks: Tasks) -> Generator[None, None, pa.Table]:
        first = self.order[0][0]
        if self.boundaries is not None:
            return pa.table({first: pa.array(sorted(self.boundaries))})
        count = self._count(bundles, tasks)
        names = [name for name, _ in self.order]
        samples = yield from tasks.each(sample, bundles, names)
        pool = ordered(block.concat(samples), self.order)
        places = np.linspace(0, pool.num_rows, count + 1)[1:-1].astype(np.int64)
        edges = pool.take(pa.array(np.unique(np.minimum(places, pool.num_rows - 1))))
        with contextlib.suppress(
            pa.ArrowNotImplementedError
        ):  # of structs, which have an order all the same
            edges = edges.group_by(names, use_threads=False).aggregate([])
        return edges


def sample(table: pa.Table, blocks: int, names: list[str]) -> pa.Table:
    """Some rows' keys, of a table that was so many blocks."""
    require(table, names)
    rng = np.random.default_rng(table.num_rows)
    count = min(SAMPLES_PER_BLOCK * blocks, table.num_rows)
    picked = rng.choice(table.num_rows, count, replace=False)
    return block.decoded_table(table.select(names)).take(pa.array(picked))


def require(table: pa.Table, names: list[str]) -> None:
    """Raise ``ValueError`` for keys that the table lacks."""
    missing = [n for n in names if n not in table.column_names]
    if missing:
        raise ValueError(no_columns(missing, table.column_names))


def ordered(table: pa.Table, order: list[tuple[str, str]]) -> pa.Table:
    """The table sorted; missing values last."""
    return block.take(table, _indices(table, order))


def _indices(table: pa.Table, order: list[tuple[str, str]]) -> np.ndarray:
    try:
        return ordering.indices(table, order)
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        kinds = ", ".join(f"{name} ({table.schema.field(name).type})" for name, _ in order)
        mixed = mixed_keys(table, [name for name, _ in order])
        raise type(error)(f"rows cannot be sorted by {kinds}: {mixed or error}") from error


def mixed_keys(table: pa.Table, names: list[str]) -> str:
    """The keys that are Python's objects, in words; "" if none is."""
    said = []
    for name in names:
        column = table.column(name)
        if isinstance(column.type, tensors.PythonObjectType):
            some = {type(value).__name__ for value in tensors.to_list(column.slice(0, 1000))}
            said.append(f"{name!r} has values of {', '.join(sorted(some))}")
    more = "; make them of one type, such as with `map`" if said else ""
    return " and ".join(said) + more


def range_parts(table: pa.Table, order: list[tuple[str, str]], edges: pa.Table) -> list[pa.Table]:
    """The table sorted and cut where the rows reach each edge."""
    table = ordered(table, order)
    return cut_at(table, places_of(table, order, edges))


def places_of(table: pa.Table, order: list[tuple[str, str]], edges: pa.Table) -> list[int]:
    """For each edge the number of rows of the sorted table that come before it.

    Edges are put among the rows and sorted with them, so that the order is pyarrow's for every type.
    """
    names = list(edges.column_names)
    if not edges.num_rows:
        return []
    keys = block.decoded_table(table.select(names))
    keys = keys.append_column("_e", pa.repeat(pa.scalar(1), table.num_rows))
    marks = edges.append_column("_e", pa.repeat(pa.scalar(0), edges.num_rows))
    # The types may differ: a block whose keys are all missing, one of integers beside one of floats.
    both = block.concat([keys, marks])
    within = [(n, d) for n, d in order if n in names]
    indices = ordering.indices(both, [*within, ("_e", "ascending")])
    at = np.flatnonzero(indices >= table.num_rows)
    return [int(place - i) for i, place in enumerate(at)]


@dataclass
class Sorted:
    """Parts joined and sorted."""

    order: list[tuple[str, str]]
    before: Callable[[list[pa.Table]], pa.Table] | None = None
    after: Callable[[pa.Table], pa.Table] | None = None

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        """Run."""
        found = list(tables)
        joined = block.concat(found) if self.before is None else self.before(found)
        require(joined, [name for name, _ in self.order])
        if self.after is not None:
            yield from self.after(ordered(joined, self.order))
            return
        size = joined.nbytes
        if size <= SORTED_BYTES_MAX:
            yield ordered(joined, self.order)
            return
        # One key may have half of all rows: such a part is not copied as a whole once more.
        places = _indices(joined, self.order)
        del found, tables
        joined = block.joined(joined)
        step = max(1, joined.num_rows * SORTED_BYTES_MAX // size)
        for at in range(0, joined.num_rows, step):
            yield block.take(joined, places[at : at + step])
