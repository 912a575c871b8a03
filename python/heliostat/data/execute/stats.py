"""The statistics of an execution, operator by operator, and their text."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from heliostat.data.block import BlockMetadata
from heliostat.data.plan.operators import Bundle


@dataclass
class Spread:
    """Least, greatest and sum of some figures."""

    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = 0.0

    def add(self, value: float) -> None:
        """Count one more."""
        self.count += 1
        self.total += value
        if value < self.least:  # `min` would be a call for each batch
            self.least = value
        if value > self.most:
            self.most = value

    @property
    def mean(self) -> float:
        """The average, 0 of none."""
        return self.total / self.count if self.count else 0.0


@dataclass
class OperatorStats:
    """Figures of an operator. Times in seconds, of the workers."""

    name: str
    tasks: int = 0
    most_at_once: int = 0
    failed: int = 0
    wall: Spread = field(default_factory=Spread)
    cpu: Spread = field(default_factory=Spread)
    udf: Spread = field(default_factory=Spread)
    rows: Spread = field(default_factory=Spread)
    bytes: Spread = field(default_factory=Spread)
    input_rows: int = 0
    input_blocks: int = 0
    input_bytes: int = 0
    output_rows: int = 0  # that were taken
    output_blocks: int = 0
    output_bytes: int = 0
    nodes: dict[str, int] = field(default_factory=dict)
    node_bytes: dict[str, int] = field(default_factory=dict)  # of those blocks
    node_tasks: dict[str, int] = field(default_factory=dict)  # that have ended
    prep_s: float = 0.0  # of `wall`, until inputs were there
    held_s: float = 0.0  # in which tasks waited until their blocks were wanted
    most_own_bytes: int = 0  # of the memory of one process
    given_bytes: int = 0  # to tasks
    used_blocks: int = 0  # by tasks that have ended
    used_bytes: int = 0
    freed_bytes: int = 0  # of those that only this execution had
    tasks_with_blocks: int = 0
    unaffordable_s: float = 0.0  # in which the budget was what its next task waited for
    begun: float = 0.0
    ended: float = 0.0
    actors: int = 0
    # Seconds, rows and bytes of the blocks that nobody has measured yet.
    fresh: list[tuple[float, int, int]] = field(default_factory=list)
    fresh_tasks: list[float] = field(default_factory=list)  # the seconds of those not measured yet

    def take_fresh(self) -> list[tuple[float, int, int]]:
        """The blocks that have come out since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def take_fresh_tasks(self) -> list[float]:
        """The seconds of each task that has ended since the last call."""
        fresh, self.fresh_tasks = self.fresh_tasks, []
        return fresh

    def task_ended(self, seconds: float, node: str) -> None:
        """Count a task that has ended on a node ("": it made nothing)."""
        self.fresh_tasks.append(seconds)
        if node:
            self.node_tasks[node] = self.node_tasks.get(node, 0) + 1

    def block(self, about: BlockMetadata) -> None:
        """Count a block that came out."""
        now = time.monotonic()
        self.begun = self.begun or now - about.wall_s
        self.ended = now
        self.wall.add(about.wall_s)
        self.cpu.add(about.cpu_s)
        self.udf.add(about.udf_s)
        self.prep_s += about.prep_s
        self.held_s += about.held_s
        self.most_own_bytes = max(self.most_own_bytes, about.own_bytes)
        self.rows.add(about.num_rows)
        self.bytes.add(about.size_bytes)
        self.fresh.append((about.wall_s, about.num_rows, about.size_bytes))
        if about.node:
            self.nodes[about.node] = self.nodes.get(about.node, 0) + 1
            self.node_bytes[about.node] = self.node_bytes.get(about.node, 0) + about.size_bytes

    def received(self, bundles: Collection[Bundle]) -> None:
        """Count blocks that came in."""
        self.input_blocks += len(bundles)
        self.input_rows += sum(bundle.rows for bundle in bundles)
        self.input_bytes += sum(bundle.size for bundle in bundles)

    def taken(self, bundles: Collection[Bundle]) -> None:
        """Count blocks that went on to whoever is next."""
        self.output_blocks += len(bundles)
        self.output_rows += sum(bundle.rows for bundle in bundles)
        self.output_bytes += sum(bundle.size for bundle in bundles)

    def lines(self, number: int) -> list[str]:
        """The operator in words."""
        elapsed = max(self.ended - self.begun, 0.0)
        head = (
            f"Operator {number} {self.name}: {self.tasks} tasks executed, "
            f"{self.rows.count} blocks produced in {elapsed:.2f}s"
        )
        if not self.rows.count:
            return [head]
        lines = [
            head,
            f"* Remote wall time: {_times(self.wall)}",
            f"* Remote cpu time: {_times(self.cpu)}",
            f"* UDF time: {_times(self.udf)}",
            f"* Output num rows per block: {_counts(self.rows)}",
            f"* Output size bytes per block: {_counts(self.bytes)}",
        ]
        lines += [
            "* Operator throughput:",
            f"\t* Total input num rows: {self.input_rows:,} rows",
            f"\t* Total output num rows: {self.rows.total:,.0f} rows",
        ]
        if elapsed > 0:
            lines.append(f"\t* Ray Data throughput: {self.rows.total / elapsed:,.0f} rows/s")
        if self.wall.total > 0:
            alone = self.rows.total / self.wall.total
            lines.append(f"\t* Estimated single task throughput: {alone:,.0f} rows/s")
        if self.most_at_once:
            lines.append(f"* Tasks at a time: {self.most_at_once} max")
        if self.actors:
            lines.append(f"* Actors: {self.actors}")
        if self.failed:
            lines.append(f"* Blocks lost to errors: {self.failed}")
        if len(self.nodes) > 1:
            lines.append(f"* Blocks per node: {sorted(self.nodes.values())}")
        return lines


@dataclass
class LoopStats:
    """A loop over batches. Seconds, rows and bytes, added up over its epochs.

    The thread that makes batches in advance writes all but ``received_s``.
    """

    begin_s: float = 0.0  # until its execution had begun
    first_s: float = 0.0  # until its first batch was there
    bundles_s: float = 0.0  # until the execution had made blocks
    fetch_s: float = 0.0  # until they were here
    cut_s: float = 0.0  # in which they were cut into batches
    format_s: float = 0.0  # in which batches got their form
    collate_s: float = 0.0  # in the program's function
    receive_s: float = 0.0  # in which they were brought to their device
    here: int = 0  # blocks made on this node
    elsewhere: int = 0
    unknown: int = 0  # blocks of which nobody knows where they were made
    fetched_rows: int = 0
    fetched_bytes: int = 0


@dataclass
class ExecutionStats:
    """Figures of an execution."""

    operators: list[OperatorStats] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)
    ended: float | None = None
    rows: int = 0  # that have come out
    peak_bytes: int = 0
    budget_bytes: int = 0
    wait: Spread = field(default_factory=Spread)  # of the consumer, for its next batch
    user: Spread = field(default_factory=Spread)  # in the consumer, between batches
    taken_rows: int = 0  # by the consumer, of its batches
    dataset: str = ""  # as measurements call it
    split: str = ""  # of several consumers
    pass_s: float = 0.0  # that the latest turn of the executor's loop took
    loop: LoopStats = field(default_factory=LoopStats)

    def text(self) -> str:
        """The whole in words."""
        lines: list[str] = []
        for number, operator in enumerate(self.operators, 1):
            lines += operator.lines(number)
            lines.append("")
        ended = self.ended if self.ended is not None else time.monotonic()
        lines.append(
            f"Dataset execution: {ended - self.begun:.2f}s, at most "
            f"{self.peak_bytes / 1e6:.1f} MB of blocks at a time (budget "
            f"{self.budget_bytes / 1e6:.1f} MB)"
        )
        taken_s = ended - self.begun
        if taken_s > 0:
            lines += [
                "",
                "Dataset throughput:",
                f"\t* Ray Data throughput: {self.rows / taken_s:,.0f} rows/s",
            ]
        if self.wait.count:
            lines += [
                "",
                "Dataset iterator time breakdown:",
                f"* Total time blocked on the next batch: {_time(self.wait.total)}",
                f"* Total time in user code: {_time(self.user.total)}",
                f"* Batches: {self.wait.count}",
            ]
        return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f}s"
    return f"{seconds * 1e3:.2f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f}us"


def _times(spread: Spread) -> str:
    least, most = _time(spread.least), _time(spread.most)
    return f"{least} min, {most} max, {_time(spread.mean)} mean, {_time(spread.total)} total"


def _counts(spread: Spread) -> str:
    least, most = f"{spread.least:,.0f}", f"{spread.most:,.0f}"
    return f"{least} min, {most} max, {spread.mean:,.0f} mean, {spread.total:,.0f} total"
