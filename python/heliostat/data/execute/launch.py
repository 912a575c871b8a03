"""Where the tasks of a map run: plain tasks, or a pool of actors."""

from __future__ import annotations

import contextlib
from typing import Any

import heliostat as ray
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.work import MapWorker, Stage, run_stage
from heliostat.data.plan.operators import ActorPoolStrategy, Bundle

# Items of a task that nobody has taken yet, a block and its metadata being two: then it pauses.
UNTAKEN_MAX = 4

SHORT_TASK_S = 0.01  # a shorter task would leave its worker idle for much of the time between two


def arguments(inputs: list[Any]) -> tuple[list[tuple[int, int] | None], list[Any]]:
    """(cuts, inputs) of a task: what of each block to read, and the blocks or reads."""
    cuts: list[tuple[int, int] | None] = []
    given = []
    for one in inputs:
        is_part = isinstance(one, Bundle) and not one.is_whole
        cuts.append((one.start, one.rows) if is_part else None)
        given.append(one.ref if isinstance(one, Bundle) else one)
    return cuts, given


def cpus_of(remote_args: dict[str, Any]) -> float:
    """CPUs that one task or actor holds; work on a GPU needs none unless it says so."""
    given = remote_args.get("num_cpus")
    if given is not None:
        return float(given)
    return 0.0 if remote_args.get("num_gpus") else 1.0


class TaskLauncher:
    """Each group of blocks is a task of its own."""

    actors = 0
    actor_cpus = 0.0

    def __init__(
        self, stage: Stage, remote_args: dict[str, Any], limits: Limits, size: int | None
    ) -> None:
        self._stage, self._limits = stage, limits
        self._holder = [ray.put(stage)]
        self._size = size
        self._default_cpus = remote_args.get("num_cpus") is None
        self.cpus = cpus_of(remote_args)
        options = dict(remote_args)
        options.setdefault("num_cpus", self.cpus)
        options.setdefault("max_retries", stage.context.max_task_retries_on_death)
        options["num_returns"] = "streaming"
        options.setdefault("_generator_backpressure_num_objects", UNTAKEN_MAX)
        if limits.nodes > 1:
            options.setdefault("scheduling_strategy", stage.context.scheduling_strategy)
        name = "->".join(t.name for t in stage.transforms) or "Read"
        options.setdefault("name", name[:100])
        remote = ray.remote(run_stage)
        self._run = remote.options(**options)
        self._run_without_cpu = remote.options(**{**options, "num_cpus": 0})

    def has_room(self, running: int, free_cpus: float, task_s: float | None) -> bool:
        """Whether one more task should begin, ``task_s`` being what one takes as far as is known.

        One may always: without a free CPU it takes none.
        """
        if self._size is not None and running >= self._size:
            return False
        # Short tasks: one more than fits, so that a worker finds its next task waiting. Longer ones
        # would only delay each other and the consumer, as there are CPUs that seem free: of actors
        # that wait.
        extra = 1 if task_s is not None and task_s < SHORT_TASK_S else 0
        return running == 0 or (running - extra) * self.cpus < free_cpus

    def start(self, index: int, inputs: list[Any], free_cpus: float) -> Any:
        """Begin task number ``index``; returns its generator."""
        cuts, given = arguments(inputs)
        # Training workers may hold every CPU while they wait for data: feed them all the same.
        starved = self._default_cpus and free_cpus < self.cpus
        run = self._run_without_cpu if starved else self._run
        return run.remote(self._stage.key, self._holder, index, cuts, *given)

    def on_done(self, generator: Any, died: bool = False) -> None:
        """A task has ended."""

    def cancel(self, generator: Any) -> None:
        """Nobody wants the task's result."""
        with contextlib.suppress(Exception):
            ray.cancel(generator)

    def close(self) -> None:
        """The execution is over."""


class ActorLauncher:
    """Groups of blocks go to the actor with the least to do; the pool grows while all are busy."""

    def __init__(
        self,
        stage: Stage,
        remote_args: dict[str, Any],
        limits: Limits,
        strategy: ActorPoolStrategy,
    ) -> None:
        self._strategy, self._limits = strategy, limits
        self._holder = [ray.put(stage)]
        self._default_cpus = remote_args.get("num_cpus") is None
        self.cpus = cpus_of(remote_args)
        options = dict(remote_args)
        options.setdefault("num_cpus", self.cpus)
        retries = stage.context.max_task_retries_on_death
        options.setdefault("max_restarts", retries)
        options.setdefault("max_task_retries", retries)
        if limits.nodes > 1:
            options.setdefault("scheduling_strategy", stage.context.scheduling_strategy)
        options.pop("max_retries", None)
        options.pop("max_calls", None)
        self._retry_errors = stage.context.actor_task_retry_on_errors
        self._options = options
        self._class = ray.remote(MapWorker)
        self._pool: dict[Any, int] = {}
        self._cpus_held: dict[Any, float] = {}
        self._busy: dict[int, Any] = {}
        self._made = False
        self.actors = 0

    @property
    def actor_cpus(self) -> float:
        """CPUs that the pool holds."""
        return sum(self._cpus_held[actor] for actor in self._pool)

    def has_room(self, running: int, free_cpus: float, task_s: float | None) -> bool:
        """Whether an actor can take one more task, after adding one if that helps."""
        least = self._strategy.min_size if self._made else self._strategy.initial_size
        while len(self._pool) < least:
            self._add(free_cpus)
        if any(n == 0 for n in self._pool.values()):
            return True
        fits = free_cpus - len(self._pool) * self.cpus >= self.cpus
        if len(self._pool) < self._strategy.max_size and fits:
            self._add(free_cpus)
            return True
        return any(n < self._strategy.max_tasks_in_flight_per_actor for n in self._pool.values())

    def _add(self, free_cpus: float) -> None:
        options = self._options
        if self._default_cpus and free_cpus < self.cpus:
            options = {**options, "num_cpus": 0}
        actor = self._class.options(**options).remote(self._holder)
        self._pool[actor] = 0
        self._cpus_held[actor] = float(options["num_cpus"])
        self.actors += 1
        self._made = True

    def start(self, index: int, inputs: list[Any], free_cpus: float) -> Any:
        """Send task number ``index`` to an actor; returns its generator."""
        if not self._pool:
            self._add(free_cpus)
        actor = min(self._pool, key=lambda a: self._pool[a])
        cuts, given = arguments(inputs)
        method = actor.run.options(
            num_returns="streaming",
            retry_exceptions=self._retry_errors,
            _generator_backpressure_num_objects=UNTAKEN_MAX,
        )
        generator = method.remote(index, cuts, *given)
        self._pool[actor] += 1
        self._busy[id(generator)] = actor
        return generator

    def on_done(self, generator: Any, died: bool = False) -> None:
        """A task has ended; if its actor is dead for good, another one takes its place."""
        actor = self._busy.pop(id(generator))
        if not died:
            self._pool[actor] -= 1
        elif self._pool.pop(actor, None) is not None:
            self.actors -= 1

    def cancel(self, generator: Any) -> None:
        """Nobody wants the task's result; the pool ends soon."""

    def close(self) -> None:
        """End all actors."""
        for actor in self._pool:
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._pool.clear()
