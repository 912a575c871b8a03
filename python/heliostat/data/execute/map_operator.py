"""Maps and reads: groups of blocks go out as tasks, blocks come back in the order of their inputs."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from heliostat.data.context import DataContext
from heliostat.data.exceptions import UserCodeException
from heliostat.data.execute.actor_pool import ActorLauncher
from heliostat.data.execute.launch import Input, TaskLauncher
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.physical import Physical
from heliostat.data.execute.task_blocks import next_block
from heliostat.data.plan.operators import Bundle, ReadPart
from heliostat.exceptions import RayActorError, TaskCancelledError
from heliostat.util import why

if TYPE_CHECKING:
    from heliostat.data.aliases import Waitable


logger = logging.getLogger("heliostat.data")

# Tasks that may have finished before the one whose output is next; their blocks wait.
AHEAD_MAX = 32


@dataclass
class Running:
    """A task and what came of it so far."""

    generator: Any  # an `ObjectRefGenerator` until the task has ended
    input_bytes: float
    expected: float
    outputs: deque[Bundle] = field(default_factory=deque)
    output_bytes: float = 0.0
    blocks: int = 0
    size: int = 0
    node: str = ""  # where its blocks were made
    ended: bool = False
    begun: float = field(default_factory=time.monotonic)


class MapOperator(Physical):
    """Runs a stage for each group of input blocks, or for each read."""

    def __init__(
        self,
        name: str,
        sources: list[Physical],
        launcher: TaskLauncher | ActorLauncher,
        limits: Limits,
        context: DataContext,
        *,
        reads: list[ReadPart] | None = None,
        min_rows: int = 0,
        min_bytes: int = 0,
        exact_rows: int = 0,
    ) -> None:
        super().__init__(name, sources)
        self.cpus, self.gpus, self.memory = launcher.cpus, launcher.gpus, launcher.memory
        self._launcher, self._limits, self._context = launcher, limits, context
        self._reads = deque(reads or ())
        self._min_rows, self._exact_rows, self._min_bytes = min_rows, exact_rows, min_bytes
        self._tasks: deque[Running] = deque()
        self._by_id: dict[int, Running] = {}
        self._made_bytes, self._ended_tasks = 0.0, 0
        self._inbox_rows = 0
        self.expected_blocks = len(self._reads)

    def prepare(self) -> None:
        """Wait for the pool of actors if there is one and the settings say so."""
        self._launcher.prepare(self._limits.free_cpus(self._launcher.actor_cpus))

    # --- what to start next ---

    def wants_to_start(self) -> bool:
        """Whether there is a group of blocks, and room for its task."""
        if self.stopped or len(self._tasks) >= AHEAD_MAX or not self._has_group():
            return False
        free = self._limits.free_cpus(self._launcher.actor_cpus)
        # One more short task than fits is begun, so that a worker finds its next one waiting.
        task_s = self.stats.wall.total / self._ended_tasks if self._ended_tasks else None
        return self._launcher.has_room(self.running(), free, task_s)

    def _has_group(self) -> bool:
        if self._reads:
            return True
        if not self.inboxes or not self.inboxes[0]:
            return False
        wanted = self._exact_rows or self._min_rows
        rows = sum(b.rows for b in self.inboxes[0]) if wanted else 0
        size = sum(b.size for b in self.inboxes[0]) if self._min_bytes else 0
        return self.inputs_done or (rows >= wanted and size >= self._min_bytes)

    def _group(self) -> list[Input]:
        if self._reads:
            return [self._reads.popleft()]
        inbox = self.inboxes[0]
        first = inbox.popleft()
        group = [first]
        rows, size = first.rows, first.size
        wanted = self._exact_rows or self._min_rows
        while inbox and (rows < wanted or size < self._min_bytes):
            group.append(inbox.popleft())
            rows, size = rows + group[-1].rows, size + group[-1].size
        if self._exact_rows and rows > self._exact_rows:
            last = group.pop()
            # The rest stays first in line, so that rows keep their order.
            kept = last.rows - (rows - self._exact_rows)
            group.append(last.slice(0, kept))
            inbox.appendleft(last.slice(kept, last.rows - kept))
        return [*group]

    def start(self) -> None:
        """Begin a task for the next group."""
        group = self._group()
        size = sum(max(0.0, g.size) for g in group)
        expected = self.expected_bytes() or size
        free = self._limits.free_cpus(self._launcher.actor_cpus)
        generator = self._launcher.start(self.stats.tasks, group, free)
        inputs = sum(g.cost for g in group if isinstance(g, Bundle))
        blocks = sum(isinstance(g, Bundle) for g in group)
        task = Running(generator, inputs, expected, blocks=blocks, size=int(size))
        self._tasks.append(task)
        self._by_id[id(generator)] = task
        self.stats.tasks += 1
        self.stats.given_bytes += task.size
        self.stats.most_at_once = max(self.stats.most_at_once, self.running())
        self.stats.actors = self._launcher.actors

    def expected_bytes(self) -> float:
        """The average of past tasks; before there are any, what the source says."""
        # Inputs tell little: a step may make many rows of one, or none.
        if self._ended_tasks:
            return self._made_bytes / self._ended_tasks
        following: Input | None = None
        if self._reads:
            following = self._reads[0]
        elif self.inboxes and self.inboxes[0]:
            following = self.inboxes[0][0]
        known = following.size if following is not None else -1
        return float(known if known >= 0 else self._limits.block_bytes or 0)

    # --- what comes back ---

    def waiting(self) -> list[Waitable]:
        """Tasks at work, without those that are far ahead of the one whose blocks are next.

        And actors that are about to be ready.
        """
        tasks = [
            t.generator
            for i, t in enumerate(self._tasks)
            if not t.ended and (i == 0 or len(t.outputs) < UNTAKEN_BLOCKS_MAX)
        ]
        return [*self._launcher.starting(), *tasks]

    def on_ready(self, waitable: Waitable) -> None:
        """Take a block, notice the end, or notice that an actor is ready."""
        task = self._by_id.get(id(waitable))
        if task is None:
            if any(waitable is ready for ready in self._launcher.starting()):
                self._launcher.on_started(waitable)
            return
        try:
            taken = next_block(task.generator)
        except Exception as error:
            self._fail(task, error)
            return
        if taken is None:
            self._end(task)
            return
        bundle, about = taken
        self.stats.tasks_with_blocks += not task.node
        task.node = about.node
        task.outputs.append(bundle)
        task.output_bytes += bundle.size
        self.stats.block(about)

    def _fail(self, task: Running, error: Exception) -> None:
        # A stopped task ends with such an error, which is nobody's fault.
        if not (isinstance(error, TaskCancelledError) and self.stopped):
            allowed = self._context.max_errored_blocks
            if 0 <= allowed <= self.stats.failed:
                raise error
            self.stats.failed += 1
            kind = "its function" if isinstance(error, UserCodeException) else "its task"
            logger.warning(
                "%s: a block is left out, because %s failed (%d of max_errored_blocks=%d): %s",
                self.name,
                kind,
                self.stats.failed,
                allowed,
                getattr(error, "cause", None) or error,
            )
        self._end(task, died=isinstance(error, RayActorError))

    def _end(self, task: Running, died: bool = False) -> None:
        task.ended = True
        self.stats.task_ended(time.monotonic() - task.begun, task.node)
        self.stats.used_blocks += task.blocks
        self.stats.used_bytes += task.size
        self.stats.freed_bytes += int(task.input_bytes)
        task.input_bytes = 0.0
        self._made_bytes += task.output_bytes
        self._ended_tasks += 1
        del self._by_id[id(task.generator)]
        self._launcher.on_done(task.generator, died)
        # The last reference: what the task has made beyond what was taken is freed now.
        task.generator = None

    def work(self) -> None:
        """Put out the blocks that are next in order."""
        while self._tasks:
            head = self._tasks[0]
            # The first task's blocks go on while it runs; those of later ones wait for its end.
            self.outbox.extend(head.outputs)
            head.outputs.clear()
            if not head.ended:
                return
            self._tasks.popleft()
        if self._finished():  # actors end as soon as there is nothing more for them
            self._launcher.close()

    # --- what it holds ---

    def running(self) -> int:
        """Tasks at work."""
        return len(self._by_id)

    def unsorted(self) -> tuple[int, int]:
        """Blocks of tasks that began later than one that still works."""
        waiting = [b for task in self._tasks for b in task.outputs]
        return len(waiting), sum(b.size for b in waiting)

    def input_bytes(self) -> float:
        """Bytes of the blocks that its running tasks work on."""
        return sum(task.input_bytes for task in self._tasks)

    def held_bytes(self) -> float:
        """Waiting inputs, inputs and outputs of tasks, and what running tasks have yet to make."""
        held = super().held_bytes()
        for task in self._tasks:
            held += task.input_bytes + sum(b.cost for b in task.outputs)
            if not task.ended:
                # Counted before it is there: tasks that begin together would else go above the budget
                # together.
                held += max(0.0, task.expected - task.output_bytes)
        return held

    def waits_for(self) -> str:
        """Return the operator's tasks, else the reason why the next one does not begin."""
        if self.running():
            return task_waits([(t.generator, t.begun) for t in self._tasks if not t.ended])
        if not self._has_group():
            inbox = self.inboxes[0] if self.inboxes else ()
            wanted = self._exact_rows or self._min_rows
            if inbox and wanted:
                rows = sum(b.rows for b in inbox)
                return f"{super().waits_for()}: it has {rows} of the {wanted} rows of a batch"
            if inbox and self._min_bytes:
                size = sum(b.size for b in inbox)
                return (
                    f"{super().waits_for()}: it has {size} of the {self._min_bytes} bytes of a file"
                )
            return super().waits_for()
        if self.over_budget:
            return (
                "waits for blocks to be used up: with its next task they would be "
                f"{self.over_budget / 1e6:.1f} MB above the budget"
            )
        return (
            f"waits for {self._launcher.lacks(self._limits.free_cpus(self._launcher.actor_cpus))}"
        )

    def _finished(self) -> bool:
        return super()._finished() and not self._reads and not self._tasks

    def stop(self) -> None:
        """Cancel what runs."""
        super().stop()
        self._reads.clear()
        self._drop_tasks()
        self._launcher.close()

    def _drop_tasks(self) -> None:
        for task in self._tasks:
            if not task.ended:
                self._launcher.cancel(task.generator)
        self._tasks.clear()
        self._by_id.clear()

    def close(self) -> None:
        """The execution is over, perhaps early."""
        self._drop_tasks()
        self._launcher.close()


def task_waits(tasks: list[tuple[Waitable, float]]) -> str:
    """Say how many tasks run, and why the oldest waits; each is (generator or ref, start time)."""
    oldest, begun = min(tasks, key=lambda task: task[1])
    count = "a task" if len(tasks) == 1 else f"{len(tasks)} tasks, the oldest"
    said = why(oldest).strip().rstrip(".")
    return f"waits for {count}, begun {time.monotonic() - begun:.0f} s ago: {said}"


UNTAKEN_BLOCKS_MAX = 4  # blocks taken from a task that is not yet next
