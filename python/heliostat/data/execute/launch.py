"""Launchers of the tasks of a map: here plain tasks; ``actor_pool.py`` has the pool of actors."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.work import Stage, run_stage, stored
from heliostat.data.plan.operators import Bundle, ReadPart

if TYPE_CHECKING:
    from heliostat import ObjectRef, ObjectRefGenerator
    from heliostat.data.aliases import RemoteArgs, Waitable


# Items of a task that nobody has taken yet, a block and its metadata being two: then it pauses.
UNTAKEN_MAX = 4

Input = Bundle | ReadPart

SHORT_TASK_S = 0.01  # a shorter task would leave its worker idle for much of the time between two


def arguments(
    inputs: Sequence[Input | ObjectRef | None],
) -> tuple[list[tuple[int, int] | None], list[object]]:
    """(cuts, inputs) of a task: what of each block to read, and the blocks or reads."""
    cuts: list[tuple[int, int] | None] = []
    given: list[object] = []
    for one in inputs:
        if not isinstance(one, Bundle):
            cuts.append(None)
            given.append(one)
            continue
        cuts.append(None if one.is_whole else (one.start, one.rows))
        given.append(one.ref)
    return cuts, given


def cpus_of(remote_args: RemoteArgs) -> float:
    """CPUs that one task or actor holds; work on a GPU needs none unless it says so."""
    given = remote_args.get("num_cpus")
    if given is not None:
        return float(given)
    return 0.0 if remote_args.get("num_gpus") else 1.0


class Launcher:
    """The resources of one task or actor of a stage, and the options that both take from the stage."""

    def __init__(self, stage: Stage, remote_args: RemoteArgs, limits: Limits) -> None:
        self._limits = limits
        self._holder = stored(stage)
        self._default_cpus = remote_args.get("num_cpus") is None
        self.cpus = cpus_of(remote_args)
        self.gpus = float(remote_args.get("num_gpus") or 0)
        self.memory = float(remote_args.get("memory") or 0)
        self._options = dict(remote_args)
        self._options.setdefault("num_cpus", self.cpus)
        if limits.nodes > 1:
            self._options.setdefault("scheduling_strategy", stage.context.scheduling_strategy)


class TaskLauncher(Launcher):
    """Each group of blocks is a task of its own."""

    actors = 0
    actor_cpus = 0.0

    def __init__(
        self, stage: Stage, remote_args: RemoteArgs, limits: Limits, size: int | None
    ) -> None:
        super().__init__(stage, remote_args, limits)
        self._stage, self._size = stage, size
        options = self._options
        options.setdefault("max_retries", stage.context.max_task_retries_on_death)
        options["num_returns"] = "streaming"
        options.setdefault("_generator_backpressure_num_objects", UNTAKEN_MAX)
        name = "->".join(t.name for t in stage.transforms) or "Read"
        options.setdefault("name", name[:100])
        remote = ray.remote(run_stage)
        self._run = remote.options(**options)
        self._run_without_cpu = remote.options(**{**options, "num_cpus": 0})

    def prepare(self, free_cpus: float) -> None:
        """The execution begins."""

    def starting(self) -> list[Waitable]:
        """Return the references that tasks wait for before they can begin: none."""
        return []

    def on_started(self, ready: Waitable) -> None:
        """An actor has started; there are none."""

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

    def lacks(self, free_cpus: float) -> str:
        """Return the resource that the next task lacks, in words, if there is no room for it."""
        return f"{self.cpus:g} CPUs: {free_cpus:g} are left beside actors"

    def start(self, index: int, inputs: list[Input], free_cpus: float) -> ObjectRefGenerator:
        """Begin task number ``index``; returns its generator."""
        cuts, given = arguments(inputs)
        # Training workers may hold every CPU while they wait for data: feed them all the same.
        starved = self._default_cpus and free_cpus < self.cpus
        run = self._run_without_cpu if starved else self._run
        made: ObjectRefGenerator = run.remote(self._stage.key, self._holder, index, cuts, *given)
        return made

    def on_done(self, generator: Waitable | None, died: bool = False) -> None:
        """A task has ended."""

    def cancel(self, generator: ObjectRefGenerator) -> None:
        """Cancel a task whose result is not wanted."""
        with contextlib.suppress(Exception):
            ray.cancel(generator)

    def close(self) -> None:
        """The execution is over."""
