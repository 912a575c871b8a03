"""The measurements of executions while they run, under the names that Ray's dashboards ask for.

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

import heliostat as ray
from heliostat.util.metrics import Counter, Gauge, Histogram, forget

if TYPE_CHECKING:
    from heliostat.data.execute.limits import Limits
    from heliostat.data.execute.physical import Physical
    from heliostat.data.execute.stats import ExecutionStats, OperatorStats

EVERY_S = 1.0
KEPT = 20

_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 3600]

# Figures of a block: what each is, and the bounds of its buckets.
_BLOCK: dict[str, tuple[str, list[float]]] = {
    "block_completion_time": ("Seconds that a block took to be made", _SECONDS),
    "block_size_rows": ("Rows of a block", [float(10**n) for n in range(9)]),
    # 1 KiB to 4 GiB.
    "block_size_bytes": ("Bytes of a block", [float(4**n * 1024) for n in range(12)]),
}
_TASK = ("task_completion_time", "Seconds from the begin of a task to its end", _SECONDS)

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
        "Blocks that it has made and that others have to come before",
        lambda o, _: o.unsorted()[0],
    ),
    (
        "obj_store_mem_internal_outqueue",
        "Bytes of blocks that it has made and that others have to come before",
        lambda o, _: o.unsorted()[1],
    ),
    (
        "num_external_inqueue_blocks",
        "Blocks that wait at the operators before it",
        lambda o, _: sum(len(source.outbox) for source in o.sources),
    ),
    (
        "num_external_inqueue_bytes",
        "Bytes of blocks that wait at the operators before it",
        lambda o, _: sum(b.size for source in o.sources for b in source.outbox),
    ),
    (
        "num_external_outqueue_blocks",
        "Blocks that wait for whoever is next",
        lambda o, _: len(o.outbox),
    ),
    (
        "num_external_outqueue_bytes",
        "Bytes of blocks that wait for whoever is next",
        lambda o, _: sum(b.size for b in o.outbox),
    ),
    (
        "obj_store_mem_pending_task_inputs",
        "Bytes of the blocks that its running tasks work on",
        lambda o, _: o.input_bytes(),
    ),
    (
        "bytes_inputs_of_submitted_tasks",
        "Bytes of blocks that were given to tasks",
        lambda _, s: s.given_bytes,
    ),
    (
        "num_task_inputs_processed",
        "Blocks that tasks have used up",
        lambda _, s: s.used_blocks,
    ),
    (
        "bytes_task_inputs_processed",
        "Bytes of blocks that tasks have used up",
        lambda _, s: s.used_bytes,
    ),
    (
        "obj_store_mem_freed",
        "Bytes of those that nobody else had, and that are gone",
        lambda _, s: s.freed_bytes,
    ),
    (
        "freed_bytes",
        "Bytes of those that nobody else had, and that are gone",
        lambda _, s: s.freed_bytes,
    ),
    (
        "num_tasks_have_outputs",
        "Tasks that have made a block",
        lambda _, s: s.tasks_with_blocks,
    ),
    (
        "block_transform_time_s",
        "Seconds in which tasks waited for inputs, worked on them and put blocks together",
        lambda _, s: s.wall.total,
    ),
    ("input_prep_time_s", "Seconds of those until inputs were there", lambda _, s: s.prep_s),
    (
        "output_build_time_s",
        "Seconds of those in which blocks were put together",
        lambda _, s: max(0.0, s.wall.total - s.udf.total - s.prep_s),
    ),
    (
        "task_completion_time_excl_backpressure_s",
        "Seconds in which tasks made blocks",
        lambda _, s: s.wall.total,
    ),
    (
        "task_output_backpressure_time",
        "Seconds in which tasks waited until their blocks were stored and wanted",
        lambda _, s: s.held_s,
    ),
    (
        "task_submission_backpressure_time",
        "Seconds in which the budget was what the next task waited for",
        lambda _, s: s.unaffordable_s,
    ),
    (
        "max_uss_bytes_max",
        "The most memory of a worker after a block, in bytes, without what it shares",
        lambda _, s: s.most_own_bytes,
    ),
    (
        "memory_usage_bytes",
        "Bytes of memory that the tasks that run asked for",
        lambda o, _: o.running() * o.memory,
    ),
]

# Figures of a machine, of an operator's tasks there.
_NODE: list[tuple[str, str, Callable[[OperatorStats], dict[str, int]]]] = [
    (
        "blocks_outputs_of_finished_tasks_per_node",
        "Blocks that a node's tasks made",
        lambda s: s.nodes,
    ),
    (
        "bytes_outputs_of_finished_tasks_per_node",
        "Bytes of those blocks",
        lambda s: s.node_bytes,
    ),
    ("num_tasks_finished_per_node", "Tasks that have ended on a node", lambda s: s.node_tasks),
]

# Figures of a loop over batches.
_LOOP: list[tuple[str, str, Callable[[ExecutionStats], float]]] = [
    (
        "iter_total_blocked_seconds",
        "Seconds in which the loop waited for batches",
        lambda s: s.wait.total,
    ),
    ("iter_user_seconds", "Seconds of the loop's own work", lambda s: s.user.total),
    (
        "iter_initialize_seconds",
        "Seconds until executions had begun",
        lambda s: s.loop.begin_s,
    ),
    (
        "iter_time_to_first_batch_seconds",
        "Seconds until the first batches were there",
        lambda s: s.loop.first_s,
    ),
    (
        "iter_get_ref_bundles_seconds",
        "Seconds until the execution had made blocks",
        lambda s: s.loop.bundles_s,
    ),
    ("iter_get_seconds", "Seconds until those blocks were here", lambda s: s.loop.fetch_s),
    (
        "iter_next_batch_seconds",
        "Seconds in which blocks were cut into batches",
        lambda s: s.loop.cut_s,
    ),
    (
        "iter_format_batch_seconds",
        "Seconds in which batches got their format",
        lambda s: s.loop.format_s,
    ),
    (
        "iter_collate_batch_seconds",
        "Seconds in the program's collate function",
        lambda s: s.loop.collate_s,
    ),
    (
        "iter_finalize_batch_seconds",
        "Seconds in which batches were brought to their device",
        lambda s: s.loop.receive_s,
    ),
    ("iter_blocks_local", "Blocks that were made on this node", lambda s: s.loop.here),
    ("iter_blocks_remote", "Blocks that were made on others", lambda s: s.loop.elsewhere),
    (
        "iter_unknown_location",
        "Blocks of which nobody knows where they were made",
        lambda s: s.loop.unknown,
    ),
    (
        "iter_prefetched_bytes",
        "Bytes of the rows that are here and were not taken yet",
        lambda s: (
            max(0, s.loop.fetched_rows - s.taken_rows)
            * s.loop.fetched_bytes
            / max(1, s.loop.fetched_rows)
        ),
    ),
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
def _histogram(name: str, about: str, bounds: tuple[float, ...]) -> Histogram:
    return Histogram(f"data_{name}", about, list(bounds), ("dataset", "operator"))


class Measurements:
    """The figures of one execution."""

    def __init__(self, label: str, limits: Limits, taker: str) -> None:
        self.dataset = f"{label}_{next(_numbers)}"
        self._taker = taker
        self._limits = limits
        self._told = time.monotonic()  # what ends within a second is told of at its end
        self._addresses = limits.addresses  # of nodes

    def show(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        """Called often; tells once a second."""
        if time.monotonic() - self._told >= EVERY_S:
            self._tell(operators, stats)

    def _tell(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        self._told = time.monotonic()
        for number, operator in enumerate(operators):
            tags = {"dataset": self.dataset, "operator": f"{operator.name}_{number}"}
            for name, about, figure in _OPERATOR:
                _gauge(name, about, *tags).set(float(figure(operator, operator.stats)), tags)
            for figures in operator.stats.take_fresh():
                for (name, (about, bounds)), value in zip(_BLOCK.items(), figures, strict=True):
                    _histogram(name, about, tuple(bounds)).observe(value, tags)
            name, about, bounds = _TASK
            for seconds in operator.stats.take_fresh_tasks():
                _histogram(name, about, tuple(bounds)).observe(seconds, tags)
        if self._taker:
            tags = {"dataset": self.dataset, "operator": self._taker}
            _gauge("output_rows", "Rows that have come out", *tags).set(stats.rows, tags)
        self._tell_nodes(operators)
        self._tell_limits(operators, stats)

    def _tell_nodes(self, operators: Sequence[Physical]) -> None:
        """Measure the output of the tasks on each machine."""
        for name, about, of in _NODE:
            sums: dict[str, int] = {}
            for operator in operators:
                for node, count in of(operator.stats).items():
                    address = self._address(node)
                    sums[address] = sums.get(address, 0) + count
            for address, count in sums.items():
                tags = {"dataset": self.dataset, "node_ip": address}
                _gauge(name, about, *tags).set(count, tags)

    def _address(self, node: str) -> str:
        if node not in self._addresses:
            self._addresses = {n["NodeID"]: n["NodeManagerAddress"] for n in ray.nodes()}
        return self._addresses.setdefault(node, node)

    def _tell_limits(self, operators: Sequence[Physical], stats: ExecutionStats) -> None:
        """Measure the limits of the execution, and how much of them it uses."""
        limits = self._limits
        used = {
            "cpu": sum(o.running() * o.cpus for o in operators),
            "gpu": sum(o.running() * o.gpus for o in operators),
            "mem": sum(o.running() * o.memory for o in operators),
            "object_store_memory": sum(o.held_bytes() for o in operators),
        }
        allowed = {
            "cpu": ("cpu_budget", "CPUs", limits.cpus_counted),
            "gpu": ("gpu_budget", "GPUs", limits.gpus),
            "mem": ("memory_budget", "Bytes of memory", limits.memory),
            "object_store_memory": (
                "object_store_memory_budget",
                "Bytes of blocks",
                limits.store_bytes,
            ),
        }
        tags = {"dataset": self.dataset}
        for resource, (name, what, amount) in allowed.items():
            _gauge(name, f"{what} that the execution may use", *tags).set(amount, tags)
            part = 100.0 * used[resource] / amount if amount else 0.0
            about = "Percent of what the execution may use that its tasks take"
            _gauge(f"cluster_{resource}_utilization", about, *tags).set(part, tags)
        left = max(0.0, limits.store_bytes - used["object_store_memory"])
        _gauge("max_bytes_to_read", "Bytes of blocks that may still be made", *tags).set(left, tags)
        about = "Seconds of the executor's latest turn"
        _gauge("sched_loop_duration_s", about, *tags).set(stats.pass_s, tags)

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
        self._told = time.perf_counter()  # a loop that ends within a second tells at its end
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
