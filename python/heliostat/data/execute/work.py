"""The code that runs in workers: a stage of transforms over some blocks or reads, giving blocks.

Each block is followed by its metadata, so that the driver learns sizes without touching the block.
"""

from __future__ import annotations

import logging
import mmap
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import heliostat as ray

from heliostat.data.execute import kept_memory  # isort: skip # before pyarrow is imported
from heliostat.data import block, retries
from heliostat.data.context import DataContext
from heliostat.data.execute.block_builder import BlockBuilder
from heliostat.data.plan import task
from heliostat.data.plan.operators import ReadPart
from heliostat.data.plan.transforms import Transform

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat import ObjectRef
    from heliostat.data.block import BlockMetadata


logger = logging.getLogger("heliostat.data")

STAGES_MAX = 64  # stages that a worker keeps open


@dataclass
class Stage:
    """Transforms that run one after the other in one task, and the settings that they see."""

    transforms: list[Transform]
    target: int | None  # bytes of a block
    context: DataContext
    execution: int = 0  # how many the same settings have had before
    key: str = field(default_factory=lambda: uuid.uuid4().hex)


def stored(stage: Stage) -> list[ObjectRef]:
    """The stage in the object store, in a list, in which tasks get the reference.

    Raises:
        TypeError: A function or what it is called with cannot be pickled: what in it cannot is named.
    """
    try:
        return [ray.put(stage)]
    except TypeError:
        for transform in stage.transforms:
            said = "" if transform.udf is None else transform.udf.unpicklable()
            if said:
                raise TypeError(said) from None
        raise


class OpenStage:
    """A stage that is ready to run in this process."""

    def __init__(self, stage: Stage) -> None:
        kept_memory.keep()
        self._builder, self._execution = BlockBuilder(stage.target), stage.execution
        self._context = stage.context
        DataContext._set_current(stage.context)  # the user's constructors may look
        self._steps = [(t, t.open()) for t in stage.transforms]

    def run(
        self, index: int, inputs: Iterator[object], files: list[str]
    ) -> Iterator[pa.Table | BlockMetadata]:
        """Yield block, metadata, block, metadata, ... of task number ``index``."""
        task.begin(index, self._execution, files)
        for _, fn in self._steps:
            if fn is not None:
                fn.begin()
        DataContext._set_current(self._context)  # another stage may have run in between
        node = ray.get_runtime_context().get_node_id()
        read = _Timed(inputs)
        tables: Iterator[pa.Table] = read
        for transform, fn in self._steps:
            tables = transform.apply(tables, fn)
        made = self._builder.blocks(tables)
        left: float | None = None
        while True:
            wall, cpu, udf = time.perf_counter(), time.thread_time(), self._udf_seconds()
            held = 0.0 if left is None else wall - left
            read.seconds = 0.0
            table = next(made, None)
            if table is None:
                return
            table = block.compact(table)
            about = block.metadata(table)
            about.wall_s = time.perf_counter() - wall
            about.cpu_s = time.thread_time() - cpu
            about.udf_s = self._udf_seconds() - udf
            about.prep_s, about.held_s, about.own_bytes = read.seconds, held, _own_bytes()
            about.node, about.input_files = node, files
            left = time.perf_counter()
            yield table
            yield about

    def _udf_seconds(self) -> float:
        return sum(fn.seconds for _, fn in self._steps if fn is not None)


class _Timed(Iterator["pa.Table"]):
    """Hands on items, and counts the seconds until they were there."""

    def __init__(self, items: Iterator[object]) -> None:
        self._items = items
        self.seconds = 0.0

    def __next__(self) -> pa.Table:
        begun = time.perf_counter()
        try:
            return next(self._items)
        finally:
            self.seconds += time.perf_counter() - begun


def _own_bytes() -> int:
    """Memory of this process that it shares with nobody, the object store left out; 0 where unknown."""
    try:
        with open("/proc/self/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * mmap.PAGESIZE


_open: OrderedDict[str, OpenStage] = OrderedDict()


def _opened(key: str, holder: list[object]) -> OpenStage:
    """The stage, opened at the first task that needs it in this process."""
    if key not in _open:
        while len(_open) >= STAGES_MAX:
            _open.popitem(last=False)
        _open[key] = OpenStage(ray.get(holder[0]))
    _open.move_to_end(key)
    return _open[key]


def run_stage(
    key: str,
    holder: list[object],
    index: int,
    cuts: list[tuple[int, int] | None],
    *inputs: object,
) -> Iterator[pa.Table | BlockMetadata]:
    """Run a task of a stage. ``inputs`` are blocks, of which ``cuts`` names (start, rows), or reads."""
    yield from _opened(key, holder).run(index, *_tables(cuts, inputs))


def _tables(
    cuts: list[tuple[int, int] | None], inputs: tuple[pa.Table | ReadPart, ...]
) -> tuple[Iterator[pa.Table], list[str]]:
    files = [f for i in inputs if isinstance(i, ReadPart) for f in i.files]

    def tables() -> Iterator[pa.Table]:
        for given, cut in zip(inputs, cuts, strict=True):
            if isinstance(given, ReadPart):
                yield from _read(given)
            else:
                yield given if cut is None else given.slice(*cut)

    return tables(), files


def _read(part: ReadPart) -> Iterator[pa.Table]:
    """The tables of a read. After an error that passes, it is begun again and goes on where it was."""
    done, attempt = 0, 0
    while True:
        try:
            for i, table in enumerate(part.read()):
                if i >= done:
                    done += 1
                    yield table
            return
        except Exception as error:
            attempt += 1
            if attempt >= retries.ATTEMPTS_MAX or not retries.passes(error):
                raise
            retries.wait_after(error, attempt, "a read")


class MapWorker:
    """An actor of a pool: opens its stage once and runs tasks of it."""

    def __init__(self, holder: list[object]) -> None:
        self._stage: OpenStage | None = None
        self._error: Exception | None = None
        try:
            self._stage = OpenStage(ray.get(holder[0]))
        except Exception as error:  # told to whoever sends the first task, with its own class
            self._error = error

    def ready(self) -> None:
        """Answer once the constructor has ended."""

    def run(
        self, index: int, cuts: list[tuple[int, int] | None], *inputs: object
    ) -> Iterator[pa.Table | BlockMetadata]:
        """Run a task."""
        if self._stage is None:
            assert self._error is not None
            raise self._error
        yield from self._stage.run(index, *_tables(cuts, inputs))
