"""Operators that need all blocks before they give any, written as generators over tasks.

``run(inputs, tasks)`` yields bundles, and None whenever it waits for a task that ``tasks`` started.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Union

import heliostat as ray
from heliostat.data import block
from heliostat.data.context import DataContext
from heliostat.data.execute import two_levels
from heliostat.data.execute.block_builder import cut
from heliostat.data.execute.launch import Input, arguments
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.physical import Physical
from heliostat.data.execute.task_blocks import next_block
from heliostat.data.execute.work import Stage, run_stage, stored
from heliostat.data.plan.operators import Bundle
from heliostat.data.plan.transforms import MapStream, Transform
from heliostat.util import why

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat import ObjectRef, ObjectRefGenerator
    from heliostat.data.aliases import Function, RemoteArgs, Value, Waitable


AT_ONCE_MIN = 2

Inputs = list[list[Bundle]]
Start = Callable[[], list["ObjectRef"]]  # starts a task
Steps = Generator[Bundle | None, None, Any]
Parts = list[list[Union["ObjectRef", None]]]  # the parts of each table or run of tables
Join = Callable[[list["pa.Table"]], "pa.Table"]  # makes a table of several


def _whole(tables: list[pa.Table]) -> pa.Table:
    return block.joined(block.concat(tables))


def _call(
    function: Function,
    join: Join,
    cuts: list[tuple[int, int] | None],
    extra: tuple[object, ...],
    *given: pa.Table,
) -> Value:
    found = [
        table if cut is None else table.slice(*cut) for table, cut in zip(given, cuts, strict=True)
    ]
    return function(found[0] if len(found) == 1 else join(found), *extra)


@dataclass
class _Job:
    """A task that makes blocks."""

    generator: ObjectRefGenerator
    outputs: list[Bundle] = field(default_factory=list)
    ended: bool = False
    node: str = ""  # where its blocks were made
    begun: float = field(default_factory=time.monotonic)


class Tasks:
    """Starts the tasks of one exchange, a few at a time."""

    def __init__(self, name: str, limits: Limits, context: DataContext) -> None:
        self.name = name
        self.context = context
        self.block_bytes = limits.block_bytes
        self._limits = limits
        self._pending: list[Waitable] = []
        self.stats: Any = None
        self.remote_args: RemoteArgs = {}
        self.following: list[Transform] = []  # what the tasks that make blocks do with them
        self.execution = 0

    def waiting(self) -> list[Waitable]:
        """Return the references that the exchange waits for."""
        return self._pending

    def parallelism(self) -> int:
        """Tasks that should run at the same time."""
        return max(AT_ONCE_MIN, int(self._limits.free_cpus(0.0)))

    def _options(self, **more: object) -> RemoteArgs:
        options = {
            "max_retries": self.context.max_task_retries_on_death,
            **self.remote_args,
            **more,
        }
        if self._limits.free_cpus(0.0) < 1:
            options["num_cpus"] = 0
        options.setdefault("name", self.name)
        return options

    def split(
        self,
        function: Function,
        bundles: list[Bundle],
        extra: Callable[[int], tuple[object, ...]],
        parts: int,
        join: Join = _whole,
    ) -> Generator[None, None, Parts]:
        """``function(table, *extra(number))`` gives a list of ``parts`` values.

        The tables are the bundles, small neighbours made one by ``join``; they are numbered from 0.
        Returns the refs: one list for each table, or for each run of neighbouring tables where they
        are many. The bundles are let go of as their tasks end.
        """
        size = sum(b.size for b in bundles)
        tables = two_levels.neighbours(bundles)
        bundles.clear()
        count = len(tables)
        if not two_levels.is_wanted(count, parts):
            return (yield from self._split(function, tables, extra, parts, join))
        width = two_levels.group_size(parts)
        groups = -(-parts // width)
        step = two_levels.blocks_at_once(count, groups, size, self.block_bytes)
        grouped = two_levels.Grouped(function, width)
        rows = yield from self._split(grouped, tables, extra, groups, join)
        remote = ray.remote(_with_end(two_levels.together))
        runs = [rows[at : at + step] for at in range(0, count, step)]

        def starts() -> Iterator[Start]:
            for group in range(groups):
                options = self._options(num_returns=min(width, parts - group * width) + 1)
                for run in runs:
                    given = [row[group] for row in run]
                    for row in run:
                        row[group] = None
                    yield partial(remote.options(**options).remote, *given)
                    del given

        made = yield from self._all(starts())
        return [list(chain.from_iterable(made[i :: len(runs)])) for i in range(len(runs))]

    def _split(
        self,
        function: Function,
        tables: list[list[Bundle]],
        extra: Callable[[int], tuple[object, ...]],
        parts: int,
        join: Join = _whole,
    ) -> Generator[None, None, Parts]:
        """Split as :meth:`split` does, with an object for each table and part."""
        remote = ray.remote(_call)
        waiting = deque(enumerate(tables))
        tables.clear()

        def starts() -> Iterator[Start]:
            options = self._options(num_returns=parts + 1)
            while waiting:
                number, bundles = waiting.popleft()
                cuts, given = arguments(bundles)
                run = remote.options(**options).remote
                yield partial(run, _with_end(function), join, cuts, extra(number), *given)
                del bundles, given

        return (yield from self._all(starts()))

    def _all(self, starts: Iterator[Start]) -> Generator[None, None, Parts]:
        """Start tasks, a few at a time; the refs of each without the last, which says that it ended."""
        results: Parts = []
        running: set[ObjectRef] = set()
        while True:
            while len(running) < self.parallelism() and (start := next(starts, None)) is not None:
                made = start()
                del start
                self._count()
                results.append([*made[:-1]])
                running.add(made[-1])  # a tiny value
            self._pending = list(running)
            if not running:
                return results
            yield None
            ready, _ = ray.wait(self._pending, num_returns=len(self._pending), timeout=0)
            for ref in ready:
                ray.get(ref)  # raises what the task raised
                running.remove(ref)

    def each(
        self, function: Function, bundles: list[Bundle], *extra: object
    ) -> Generator[None, None, list[Value]]:
        """Values of ``function(table, blocks, *extra)``, which should be small.

        The tables are the bundles, small neighbours joined: ``blocks`` of them.
        """
        tables = two_levels.neighbours(bundles)
        blocks = [len(one) for one in tables]
        refs = yield from self._split(_as_list(function), tables, lambda i: (blocks[i], *extra), 1)
        return list(ray.get([row[0] for row in refs]))

    def blocks(
        self,
        jobs: Iterator[
            tuple[
                Sequence[Input | ObjectRef | None],
                Callable[[Iterator[pa.Table]], Iterator[pa.Table]],
            ]
        ],
    ) -> Generator[Bundle | None, None, None]:
        """For each job (inputs, function of their tables) the blocks of a task, in order.

        Inputs are bundles or refs of tables.
        """
        remote = ray.remote(run_stage)
        running: deque[_Job] = deque()
        number = 0
        more = True
        while True:
            while more and len(running) < self.parallelism():
                planned = next(jobs, None)
                if planned is None:
                    more = False
                    break
                inputs, function = planned
                stage = self._stage(function)
                cuts, given = arguments(inputs)
                run = remote.options(**self._options(num_returns="streaming"))
                generator = run.remote(stage.key, stored(stage), number, cuts, *given)
                running.append(_Job(generator))
                number += 1
                self._count()
                del inputs, given, planned, generator
            if not running:
                break
            self._pending = [job.generator for job in running if not job.ended]
            if self._pending:
                yield None
                ready, _ = ray.wait(self._pending, num_returns=len(self._pending), timeout=0)
                for job in running:
                    if any(job.generator is generator for generator in ready):
                        self._take(job)
            while running and running[0].ended:
                yield from running.popleft().outputs
            if running:  # what is next in order need not wait for the end of its task
                yield from running[0].outputs
                running[0].outputs = []
        self._pending = []

    def _stage(self, function: Callable[[Iterator[pa.Table]], Iterator[pa.Table]]) -> Stage:
        steps: list[Transform] = [MapStream(function, self.name)]
        if self.following:
            steps += [MapStream(_Cut(self.block_bytes)), *self.following]
        return Stage(steps, self.block_bytes, self.context, self.execution)

    def _take(self, job: _Job) -> None:
        taken = next_block(job.generator)
        if taken is None:
            job.ended = True
            if self.stats is not None:
                self.stats.task_ended(time.monotonic() - job.begun, job.node)
            return
        bundle, about = taken
        job.outputs.append(bundle)
        if self.stats is not None:
            self.stats.tasks_with_blocks += not job.node
            self.stats.block(about)
        job.node = about.node

    def _count(self) -> None:
        if self.stats is not None:
            self.stats.tasks += 1

    def cancel(self) -> None:
        """Cancel what runs: the results are not wanted."""
        for ref in self._pending:
            with contextlib.suppress(Exception):
                ray.cancel(ref)


@dataclass(frozen=True)
class _Cut:
    """Tables of no more than the bytes of a block, as steps after an exchange get them."""

    size: int | None

    def __call__(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            yield from cut(table, self.size)


def _with_end(function: Function) -> Function:
    def run(*args: object) -> tuple[object, ...]:
        parts = list(function(*args))
        return (*parts, None)

    return run


def _as_list(function: Function) -> Function:
    def run(*args: object) -> list[object]:
        return [function(*args)]

    return run


class ExchangeOperator(Physical):
    """Collects all inputs, then runs the generator."""

    counts_inbox = False  # all of it has to be there at once: the store spills what does not fit

    def __init__(
        self,
        name: str,
        sources: list[Physical],
        run: Callable[[Inputs, Tasks], Steps],
        tasks: Tasks,
    ) -> None:
        super().__init__(name, sources)
        self._run, self._tasks = run, tasks
        tasks.stats = self.stats
        self._steps: Steps | None = None
        self._ended = False

    def work(self) -> None:
        """Go on until the generator waits."""
        if self._ended or not self.inputs_done or self.outbox:
            return
        if self._steps is None:
            inputs = [list(inbox) for inbox in self.inboxes]
            for inbox in self.inboxes:
                inbox.clear()
            self._steps = self._run(inputs, self._tasks)
            del inputs
        for step in self._steps:
            if step is None:
                return
            self.outbox.append(step)
            return
        self._ended = True

    def waiting(self) -> list[Waitable]:
        """Return the references that the generator waits for."""
        return [] if self._ended else self._tasks.waiting()

    def waits_for(self) -> str:
        """Return all inputs of the exchange, then its tasks."""
        if not self.inputs_done:
            return f"{super().waits_for()}: it needs all of them"
        pending = [] if self._ended else self._tasks.waiting()
        if not pending:
            return super().waits_for()
        said = why(pending[0]).strip().rstrip(".")
        return f"waits for {len(pending)} tasks: {said}"

    def running(self) -> int:
        """Tasks at work."""
        return 0 if self._ended else len(self._tasks.waiting())

    def _finished(self) -> bool:
        return self._ended

    def stop(self) -> None:
        """Nobody wants more."""
        super().stop()
        self._tasks.cancel()
        self._ended = True

    def close(self) -> None:
        """The execution is over."""
        if not self._ended:
            self._tasks.cancel()
        if self._steps is not None:
            self._steps.close()
