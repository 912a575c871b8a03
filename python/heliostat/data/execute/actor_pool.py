"""A pool of actors that runs the tasks of a map.

A task goes only to an actor that has started. One that waits for resources, or loads a model, holds up
nothing: the others go on, and it joins them when it is ready.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import heliostat as ray
from heliostat.core.platform.preload import mentioned
from heliostat.data.execute.launch import UNTAKEN_MAX, Launcher, arguments
from heliostat.data.execute.limits import Limits
from heliostat.data.execute.work import MapWorker, Stage
from heliostat.data.plan.operators import ActorPoolStrategy
from heliostat.exceptions import GetTimeoutError
from heliostat.util import why

if TYPE_CHECKING:
    from heliostat import ObjectRefGenerator
    from heliostat.actor import ActorHandle
    from heliostat.data.aliases import RemoteArgs, Waitable
    from heliostat.data.execute.launch import Input


class ActorLauncher(Launcher):
    """Groups of blocks go to the actor with the least to do; the pool grows while all are busy."""

    def __init__(
        self,
        stage: Stage,
        remote_args: RemoteArgs,
        limits: Limits,
        strategy: ActorPoolStrategy,
    ) -> None:
        super().__init__(stage, remote_args, limits)
        self._strategy = strategy
        options = self._options
        retries = stage.context.max_task_retries_on_death
        options.setdefault("max_restarts", retries)
        options.setdefault("max_task_retries", retries)
        given = [t.udf.fn for t in stage.transforms if t.udf is not None]
        modules = {name for fn in given if isinstance(fn, type) for name in mentioned(fn)}
        if modules:  # which the actors are forked with, instead of loading them each
            options.setdefault("_preload", sorted(modules))
        options.pop("max_retries", None)
        options.pop("max_calls", None)
        self._ready_s = stage.context.wait_for_min_actors_s
        self._name = "->".join(t.name for t in stage.transforms)
        self._retry_errors = stage.context.actor_task_retry_on_errors
        self._class = ray.remote(MapWorker)
        self._starting: dict[Waitable, ActorHandle] = {}  # actors by what says that they are ready
        self._pool: dict[ActorHandle, int] = {}  # tasks of each actor that has started
        self._cpus_held: dict[ActorHandle, float] = {}
        self._busy: dict[int, ActorHandle] = {}
        self._made = False
        self.actors = 0

    @property
    def actor_cpus(self) -> float:
        """CPUs that the pool holds, or waits for."""
        return sum(self._cpus_held.values())

    def prepare(self, free_cpus: float) -> None:
        """Start the initial actors and wait for them, if the settings say so.

        Raises:
            GetTimeoutError: They are not ready in time.
        """
        if self._ready_s <= 0:
            return
        self._fill(free_cpus)
        starting = list(self._starting)
        try:
            ray.get(starting, timeout=self._ready_s)
        except GetTimeoutError as error:
            raise GetTimeoutError(
                f"The pool of {len(starting)} actors for {self._name} was not ready after "
                f"{self._ready_s:g} s (wait_for_min_actors_s). Each needs {self._needs()}: the cluster "
                "may not have that, or others use it (see ray.available_resources()), or its "
                "constructor takes longer."
            ) from error
        for ready in starting:
            self.on_started(ready)

    def _needs(self) -> dict[str, float]:
        """The resources of an actor by the names that the cluster has for them."""
        named = {"GPU": "num_gpus", "memory": "memory"}
        needs = {"CPU": self.cpus, **{r: self._options.get(o) or 0.0 for r, o in named.items()}}
        needs.update(self._options.get("resources") or {})
        return {name: amount for name, amount in needs.items() if amount}

    def has_room(self, running: int, free_cpus: float, task_s: float | None) -> bool:
        """Whether an actor can take one more task, after adding one to the pool if that helps."""
        self._fill(free_cpus)
        if any(n == 0 for n in self._pool.values()):
            return True
        size = len(self._pool) + len(self._starting)
        wanted = len(self._pool) if self._pool else 1  # as fast as doubling
        if (
            size < self._strategy.max_size
            and len(self._starting) < wanted
            and self._fits(size + 1, free_cpus)
        ):
            self._add(free_cpus)
        return any(n < self._strategy.max_tasks_in_flight_per_actor for n in self._pool.values())

    def lacks(self, free_cpus: float) -> str:
        """Return the resource that the next task lacks, in words, if there is no room for it."""
        if not self._pool and self._starting:
            actor = next(iter(self._starting.values()))
            said = why(actor).strip().rstrip(".")
            return f"the first of {len(self._starting)} actors of its pool: {said}"
        most = self._strategy.max_tasks_in_flight_per_actor
        return f"one of the {len(self._pool)} actors of its pool, which have {most} tasks each"

    def _fill(self, free_cpus: float) -> None:
        """Start as many actors as there have to be."""
        least = self._strategy.min_size if self._made else self._strategy.initial_size
        while len(self._pool) + len(self._starting) < least:
            self._add(free_cpus)

    def _fits(self, size: int, free_cpus: float) -> bool:
        """Whether the cluster could have a pool of that many actors."""
        total = self._limits.resources
        return all(
            size * amount <= (free_cpus if name == "CPU" else total.get(name, 0.0))
            for name, amount in self._needs().items()
        )

    def _add(self, free_cpus: float) -> None:
        options = self._options
        if self._default_cpus and free_cpus < self.cpus:
            options = {**options, "num_cpus": 0}
        actor = self._class.options(**options).remote(self._holder)
        self._starting[actor.ready.remote()] = actor
        self._cpus_held[actor] = float(options["num_cpus"])
        self.actors += 1
        self._made = True

    def starting(self) -> list[Waitable]:
        """Return the references that tell when actors are ready."""
        return list(self._starting)

    def on_started(self, ready: Waitable) -> None:
        """An actor is ready for tasks.

        Raises:
            RayActorError: It could not start, as often as it was tried.
        """
        actor = self._starting.pop(ready)
        try:
            ray.get(ready)
        except Exception:
            self._lose(actor)
            raise
        self._pool[actor] = 0

    def start(self, index: int, inputs: list[Input], free_cpus: float) -> ObjectRefGenerator:
        """Send task number ``index`` to an actor; returns its generator."""
        actor = min(self._pool, key=lambda a: self._pool[a])
        cuts, given = arguments(inputs)
        method = actor.run.options(
            num_returns="streaming",
            retry_exceptions=self._retry_errors,
            _generator_backpressure_num_objects=UNTAKEN_MAX,
        )
        generator: ObjectRefGenerator = method.remote(index, cuts, *given)
        self._pool[actor] += 1
        self._busy[id(generator)] = actor
        return generator

    def on_done(self, generator: Waitable | None, died: bool = False) -> None:
        """A task has ended; if its actor is dead for good, another one takes its place."""
        actor = self._busy.pop(id(generator))
        if not died:
            self._pool[actor] -= 1
        elif self._pool.pop(actor, None) is not None:
            self._lose(actor)

    def _lose(self, actor: ActorHandle) -> None:
        self._cpus_held.pop(actor, None)
        self.actors -= 1

    def cancel(self, generator: ObjectRefGenerator) -> None:
        """Cancel a task whose result is not wanted; the pool ends soon."""

    def close(self) -> None:
        """End all actors."""
        for actor in [*self._pool, *self._starting.values()]:
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._pool.clear()
        self._starting.clear()
