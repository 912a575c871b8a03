"""Trials that get more of the cluster, or less, while the search goes on."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from heliostat.tune.aliases import Report
from heliostat.tune.execution.placement_groups import PlacementGroupFactory
from heliostat.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial

logger = logging.getLogger("heliostat")

SPREAD = ("CPU", "GPU")
_LITTLE = 1e-9


class DistributeResources:
    """Spreads free CPUs and GPUs over the trials that have not ended, each the same share.

    A trial always keeps what it began with. Write a subclass, or a function with the same four arguments,
    to share otherwise.

    Args:
        add_bundles: Add bundles to a trial. False: make its only bundle larger.
        increase_by: By what a trial grows at a time, such as ``{"CPU": 2}``. Default: one GPU where trials
            use any, else one CPU; with ``add_bundles`` a bundle like the last one.
        increase_by_times: How many times a trial grows at most; below 1: as often as there is room.
        reserve_resources: What is left to others, such as ``{"CPU": 1}``.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: dict[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: dict[str, float] | None = None,
    ) -> None:
        if increase_by and not any(increase_by.get(name, 0) > 0 for name in SPREAD):
            raise ValueError(f"increase_by={increase_by!r} must have CPUs or GPUs above 0.")
        self.add_bundles = add_bundles
        self.increase_by = increase_by or {}
        self.increase_by_times = increase_by_times
        self.reserve_resources = reserve_resources or {}

    def __call__(
        self,
        tune_controller: Search,
        trial: Trial,
        result: Report,
        scheduler: ResourceChangingScheduler,
    ) -> PlacementGroupFactory | None:
        """Return what a trial should have now; None: what it has."""
        base = scheduler.base_trial_resources or PlacementGroupFactory([{"CPU": 1}])
        if not self.add_bundles and len(base.bundles) > 1:
            raise ValueError(
                f"Trials of {len(base.bundles)} bundles grow by bundles: pass add_bundles=True."
            )
        if result.get("training_iteration", 1) < 1:
            return None
        step = self._step(base)
        live = tune_controller.get_live_trials()
        total = tune_controller.total_resources()
        free = {}
        for name in SPREAD:
            used = sum(one.placement_group_factory.required_resources.get(name, 0) for one in live)
            free[name] = total.get(name, 0) - self.reserve_resources.get(name, 0) - used
        has = _times(trial.placement_group_factory, base, step)
        count = max(self._count(trial, live, has, _fitting(free, step), base, step), 0)
        return self._grown(base, step, count)

    def _step(self, base: PlacementGroupFactory) -> dict[str, float]:
        if self.increase_by:
            return {name: self.increase_by.get(name, 0) for name in SPREAD}
        if self.add_bundles:
            return base.bundles[-1]
        return {"GPU": 1} if base.bundles[0].get("GPU", 0) else {"CPU": 1}

    def _most(self) -> float:
        return self.increase_by_times if self.increase_by_times > 0 else math.inf

    def _count(
        self,
        trial: Trial,
        live: list[Trial],
        has: int,
        fits: int,
        base: PlacementGroupFactory,
        step: dict[str, float],
    ) -> int:
        """The number of times that the trial is to have grown; ``fits`` more have room, or are too many."""
        if fits < 0:
            return has + fits
        grown = [_times(one.placement_group_factory, base, step) for one in live]
        share = math.ceil((fits + sum(grown)) / len(live))
        if fits == 0 or share == 0:
            return has
        return int(min(has + fits, share, self._most()))

    def _grown(
        self, base: PlacementGroupFactory, step: dict[str, float], count: int
    ) -> PlacementGroupFactory:
        bundles = base.bundles
        if self.add_bundles:
            bundles += [dict(step) for _ in range(count)]
        else:
            for name, amount in step.items():
                bundles[0][name] = bundles[0].get(name, 0) + amount * count
        if base.head_bundle_is_empty:
            bundles = [{}, *bundles]
        return PlacementGroupFactory(bundles, base.strategy, *base._args, **base._kwargs)


class DistributeResourcesToTopJob(DistributeResources):
    """Gives what is free to the best trial; earlier best ones keep what they have.

    Args:
        add_bundles, increase_by, increase_by_times, reserve_resources: As of ``DistributeResources``.
        metric: What trials are compared by. Default: what the scheduler says.
        mode: "min" or "max".
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: dict[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: dict[str, float] | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        self.metric, self.mode = metric, mode

    def __call__(
        self,
        tune_controller: Search,
        trial: Trial,
        result: Report,
        scheduler: ResourceChangingScheduler,
    ) -> PlacementGroupFactory | None:
        self.metric, self.mode = self.metric or scheduler.metric, self.mode or scheduler.mode
        if self.metric is None or self.mode not in ("min", "max"):
            raise ValueError(
                f"DistributeResourcesToTopJob needs a metric ({self.metric}) and a mode ({self.mode}): "
                "pass them to it, to the scheduler or to tune.TuneConfig()."
            )
        return super().__call__(tune_controller, trial, result, scheduler)

    def _count(
        self,
        trial: Trial,
        live: list[Trial],
        has: int,
        fits: int,
        base: PlacementGroupFactory,
        step: dict[str, float],
    ) -> int:
        if fits <= 0:
            return has + fits
        sign = 1 if self.mode == "max" else -1

        def score(one: Trial) -> float:
            return sign * float(one.last_result.get(self.metric or "", -sign * math.inf))

        def has_room(one: Trial) -> bool:
            return _times(one.placement_group_factory, base, step) < self._most()

        ranked = sorted(live, key=score, reverse=True)
        best = next((one for one in ranked if has_room(one)), ranked[0])
        return int(min(has + fits, self._most())) if trial is best else has


def _times(now: PlacementGroupFactory, base: PlacementGroupFactory, step: dict[str, float]) -> int:
    """The number of times that a trial has grown."""
    more, less = now.required_resources, base.required_resources
    return max(
        (
            math.floor((more.get(name, 0) - less.get(name, 0)) / amount + _LITTLE)
            for name, amount in step.items()
            if amount > 0
        ),
        default=0,
    )


def _fitting(free: dict[str, float], step: dict[str, float]) -> int:
    """The number of steps that there is room for; below 0: the number that is too many."""
    return min(
        math.floor(free.get(name, 0) / amount + _LITTLE)
        for name, amount in step.items()
        if amount > 0
    )


Allocation = Callable[
    ["Search", "Trial", Report, "ResourceChangingScheduler"], PlacementGroupFactory | None
]


class ResourceChangingScheduler(TrialScheduler):
    """Gives trials other resources while they run; another scheduler decides which of them go on.

    A trial whose resources change is paused, and goes on from its last checkpoint: trainables have to make
    some. ``tune.get_context().get_trial_resources()``, or ``trial_resources`` of a class, says what a trial
    has now. Not with ``reuse_actors``.

    Args:
        base_scheduler: What decides on trials. Default: ``FIFOScheduler``.
        resources_allocation_function: Called after each result that lets a trial go on, with the search
            (``get_live_trials()``, ``total_resources()``), the trial, the result and this scheduler.
            Returns a ``PlacementGroupFactory``, or None for no change. Default: ``DistributeResources()``;
            None: nothing changes.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.schedulers import ASHAScheduler, ResourceChangingScheduler
        >>> def twice(search, trial, result, scheduler):
        ...     if result["training_iteration"] == 5:
        ...         return tune.PlacementGroupFactory([{"CPU": 2}])
        ...     return None  # no change
        >>> scheduler = ResourceChangingScheduler(ASHAScheduler(), resources_allocation_function=twice)
        >>> config = tune.TuneConfig(metric="loss", mode="min", scheduler=scheduler)
    """

    def __init__(
        self,
        base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: Allocation | None = DistributeResources(),  # noqa: B008 # no state
    ) -> None:
        if resources_allocation_function is None:
            warnings.warn(
                "resources_allocation_function is None: the resources of trials stay as they are.",
                stacklevel=2,
            )
        self._allocate = resources_allocation_function
        self._base_scheduler = base_scheduler or FIFOScheduler()
        self._base_resources: PlacementGroupFactory | None = None
        self._coming: dict[str, PlacementGroupFactory] = {}

    @property
    def metric(self) -> str | None:
        return self._base_scheduler.metric or self._metric

    @property
    def mode(self) -> str | None:
        """ "min" or "max"."""
        return self._base_scheduler._mode or self._mode

    @property
    def resumes_first(self) -> bool:  # type: ignore[override] # of the base scheduler
        return self._base_scheduler.resumes_first

    @property
    def base_trial_resources(self) -> PlacementGroupFactory | None:
        """The resources that trials begin with."""
        return self._base_resources

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: object) -> bool:
        self._metric, self._mode = metric, mode
        return self._base_scheduler.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        """Called when a trial is new.

        Raises:
            RuntimeError: It begins with other resources than those before.
        """
        resources = trial.placement_group_factory
        if self._base_resources is None:
            self._base_resources = resources
        elif resources != self._base_resources:
            raise RuntimeError(
                f"ResourceChangingScheduler needs trials that begin with the same resources: {trial} takes "
                f"{resources}, the first one {self._base_resources}."
            )
        self._base_scheduler.on_trial_add(tune_controller, trial)

    def on_trial_error(self, tune_controller: Search, trial: Trial) -> None:
        self._coming.pop(trial.trial_id, None)
        self._base_scheduler.on_trial_error(tune_controller, trial)

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        if tune_controller.reuses_actors:
            raise ValueError(
                "ResourceChangingScheduler needs a new process for each start: leave out reuse_actors of "
                "TuneConfig."
            )
        decision = self._base_scheduler.on_trial_result(tune_controller, trial, result)
        if decision != self.CONTINUE or self._allocate is None:
            return decision
        wanted = self._allocate(tune_controller, trial, result, self)
        if not wanted or wanted == trial.placement_group_factory:
            return decision
        logger.info("%s gets %s", trial, wanted)
        self._coming[trial.trial_id] = wanted
        return self.PAUSE

    def on_trial_saved(self, tune_controller: Search, trial: Trial) -> None:
        self._base_scheduler.on_trial_saved(tune_controller, trial)

    def on_trial_complete(self, tune_controller: Search, trial: Trial, result: Report) -> None:
        self._coming.pop(trial.trial_id, None)
        self._base_scheduler.on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: Search, trial: Trial) -> None:
        self._base_scheduler.on_trial_remove(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: Search) -> Trial | None:
        """Return a trial whose resources have changed, or what the other scheduler chooses."""
        for trial in tune_controller.get_live_trials():
            wanted = self._coming.get(trial.trial_id)
            if wanted is not None and trial.status == "PAUSED":
                del self._coming[trial.trial_id]
                trial.update_resources(wanted)
                trial.status = "PENDING"  # the other scheduler let it go on
        return self._base_scheduler.choose_trial_to_run(tune_controller)

    def on_stall(self, tune_controller: Search) -> None:
        self._base_scheduler.on_stall(tune_controller)

    def debug_string(self) -> str:
        return f"(ResourceChangingScheduler) {self._base_scheduler.debug_string()}"


__all__ = ["DistributeResources", "DistributeResourcesToTopJob", "ResourceChangingScheduler"]
