"""What executions measure while they run, under the names that Ray's dashboards ask for.

Figures of operators carry the tags ``dataset`` and ``operator``, those of the loop that takes batches
``dataset`` and ``split``. They are told once a second, and once more at the end. An ended execution keeps its
figures, so that whoever scrapes seldom has the last ones, until ``KEPT`` others have ended after it.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from heliostat.util.metrics import Counter, Gauge, Histogram, forget

if TYPE_CHECKING:
    from heliostat.data.execute.physical import Physical
    from heliostat.data.execute.stats import ExecutionStats, OperatorStats

EVERY_S = 1.0
KEPT = 20

# Figures of a block: what each is, and the bounds of its buckets.
_BLOCK: dict[str, tuple[str, list[float]]] = {
    "block_completion_time": (
        "Seconds that a block took to be made",
        [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600],
    ),
    "block_size_rows": ("Rows of a block", [float(10**n) for n in range(9)]),
    # 1 KiB to 4 GiB.
    "block_size_bytes": ("Bytes of a block", [float(4**n * 1024) for n in range(12)]),
}

_numbers = itertools.count()
_ended: deque[str] = deque()
_lock = threading.Lock()

# Figures of an operator: name without "data_", what it is, how it is had.
_OPERATOR: list[tuple[str, str, Callable[[Physical, OperatorStats], float]]] = [
    ("num_inputs_received", "Blocks that came in", lambda _, s: s.input_blocks),
    ("bytes_inputs_received", "Bytes of blocks that came in", lambda _, s: s.input_bytes),
    ("num_task_outputs_generated", "Blocks that tasks made", lambda _, s: s.rows.count),
    ("bytes_task_outputs_generated", "Bytes of those blocks", lambda _, s: s.bytes.total),
    ("rows_task_outputs_generated", "Rows of those blocks", lambda _, s: s.rows.total),
    ("num_outputs_taken", "Blocks that the next operator took", lambda _, s: s.output_blocks),
    ("bytes_outputs_taken", "Bytes of those blocks", lambda _, s: s.output_bytes),
    ("output_rows", "Rows that have come out", lambda _, s: s.output_rows),
    ("output_bytes", "Bytes that have come out", lambda _, s: s.output_bytes),
    ("num_tasks_submitted", "Tasks that were begun", lambda _, s: s.tasks),
    ("num_tasks_running", "Tasks that run", lambda o, _: o.running()),
    (
        "num_tasks_finished",
        "Tasks that have ended well",
        lambda o, s: max(0, s.tasks - o.running() - s.failed),
    ),
    ("num_tasks_failed", "Tasks whose blocks were lost to errors", lambda _, s: s.failed),
    (
        "block_generation_time",
        "Seconds in which tasks made their blocks",
        lambda _, s: s.wall.total,
    ),
    (
        "function_body_time_s",
        "Seconds of those in the functions of users",
        lambda _, s: s.udf.total,
    ),
    ("cpu_usage_cores", "CPUs of the tasks that run", lambda o, _: o.running() * o.cpus),
    ("gpu_usage_cores", "GPUs of the tasks that run", lambda o, _: o.running() * o.gpus),
    (
        "current_bytes",
        "Bytes of blocks that exist because of it, and that its tasks will make",
        lambda o, _: o.held_bytes(),
    ),
    (
        "obj_store_mem_internal_inqueue_blocks",
        "Blocks that wait for its tasks",
        lambda o, _: sum(map(len, o.inboxes)),
    ),
    (
        "obj_store_mem_internal_inqueue",
        "Bytes of blocks that wait for its tasks",
        lambda o, _: sum(b.size for inbox in o.inboxes for b in inbox),
    ),
    (
        "obj_store_mem_internal_outqueue_blocks",
        "Blocks that wait for whoever is next",
        lambda o, _: len(o.outbox),
    ),
    (
        "obj_store_mem_internal_outqueue",
        "Bytes of blocks that wait for whoever is next",
        lambda o, _: sum(b.size for b in o.outbox),
    ),
]

# Figures of a loop over batches.
_LOOP: list[tuple[str, str, Callable[[ExecutionStats], float]]] = [
    (
        "iter_total_blocked_seconds",
        "Seconds in which the loop waited for batches",
        lambda s: s.wait.total,
    ),
    ("iter_user_seconds", "Seconds of the loop's own work", lambda s: s.user.total),
]
_LOOP_COUNTS: list[tuple[str, str, Callable[[ExecutionStats], int]]] = [
    ("iter_batches", "Batches that were taken", lambda s: s.wait.count),
    ("iter_rows", "Rows of those batches", lambda s: s.taken_rows),
]


@functools.cache
def _gauge(name: str, about: str, *tags: str) -> Gauge:
    return Gauge(f"data_{name}", about, tags)


@functools.cache
def _counter(name: str, about: str) -> Counter:
    return Counter(f"data_{name}", about, ("dataset", "split"))


@functools.cache
def _histogram(name: str) -> Histogram:
    about, bounds = _BLOCK[name]
    return Histogram(f"data_{name}", about, bounds, ("dataset", "operator"))


class Measurements:
    """The figures of one execution."""

    def __init__(self, label: str) -> None:
        self.dataset = f"{label}_{next(_numbers)}"
        self._told = 0.0

    def show(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        """Called often; tells once a second."""
        if time.monotonic() - self._told >= EVERY_S:
            self._tell(operators, stats)

    def _tell(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        self._told = time.monotonic()
        own = {"dataset": self.dataset}
        nodes: dict[str, int] = {}
        for number, operator in enumerate(operators):
            tags = {**own, "operator": f"{operator.name}_{number}"}
            for name, about, figure in _OPERATOR:
                _gauge(name, about, *tags).set(float(figure(operator, operator.stats)), tags)
            for figures in operator.stats.take_fresh():
                for name, value in zip(_BLOCK, figures, strict=True):
                    _histogram(name).observe(value, tags)
            for node, blocks in operator.stats.nodes.items():
                nodes[node] = nodes.get(node, 0) + blocks
        for node, blocks in nodes.items():
            tags = {**own, "node_ip": node}
            name = "blocks_outputs_of_finished_tasks_per_node"
            _gauge(name, "Blocks that a node's tasks made", *tags).set(blocks, tags)
        budget = _gauge("object_store_memory_budget", "Bytes of blocks that may exist", *own)
        budget.set(stats.budget_bytes, own)

    def close(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        """The execution is over."""
        self._tell(operators, stats)
        with _lock:
            _ended.append(self.dataset)
            if len(_ended) > KEPT:
                forget("dataset", _ended.popleft())


class LoopMeasurements:
    """The figures of one loop over batches; ``split``: which of several loops over a dataset it is."""

    def __init__(self, stats: ExecutionStats) -> None:
        self._stats = stats
        self._told = 0.0
        self._counted = [0 for _ in _LOOP_COUNTS]

    def show(self, now: float) -> None:
        """Called for each batch with `time.perf_counter()`; tells once a second."""
        if now - self._told >= EVERY_S:
            self._told = now
            self.tell()

    def tell(self) -> None:
        """Tell what there is."""
        stats = self._stats
        if stats.wait.count:
            tags = {"dataset": stats.dataset, "split": stats.split}
            for name, about, figure in _LOOP:
                _gauge(name, about, *tags).set(float(figure(stats)), tags)
            for number, (name, about, count) in enumerate(_LOOP_COUNTS):
                more = count(stats) - self._counted[number]
                if more:
                    _counter(name, about).inc(more, tags)
                    self._counted[number] += more
