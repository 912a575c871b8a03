"""The number of replicas that a load needs: counts in, a number out. No clock."""

from __future__ import annotations

import inspect
import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from heliostat.serve.context import ReplicaID
from heliostat.serve.options import (
    AggregationFunction,
    AutoscalingConfig,
    AutoscalingContext,
    AutoscalingPolicy,
    TimeStampedValue,
)
from heliostat.serve.specs import DeploymentID

logger = logging.getLogger("ray.serve")

# From what there is to a number of replicas, and a state that it is told the next time.
Policy = Callable[[AutoscalingContext], tuple[float, dict[str, Any] | None]]

# The count from each of those times on.
Steps = deque[TimeStampedValue]


class Scaler:
    """The load of one deployment, and how long it has asked for another number of replicas."""

    def __init__(
        self,
        deployment: DeploymentID,
        config: AutoscalingConfig,
        before: Scaler | None,
        bounds: tuple[int, int] | None = None,
        policy: Policy | None = None,
        gang_size: int = 1,
    ) -> None:
        self._deployment = deployment
        self._config = config
        self._low, self._high = bounds or (config.min_replicas, config.max_replicas)
        self._gang_size = gang_size  # replicas come and go so many at a time
        self._running: dict[str, int] = before._running if before is not None else {}
        self._queued: dict[str, int] = before._queued if before is not None else {}
        self._totals: Steps = before._totals if before is not None else deque()
        self._queues: Steps = before._queues if before is not None else deque()
        # By metric and replica: what replicas record of themselves.
        self._recorded: dict[str, dict[str, Steps]] = before._recorded if before is not None else {}
        self._more_since: float | None = None
        self._fewer_since: float | None = None
        self._last_up: float | None = None
        self._last_down: float | None = None
        self._policy = policy or _policy_of(config)
        self._policy_state: dict[str, Any] = {}
        self._failure = ""

    def count(self, source: str, requests: int, now: float, *, waiting: bool = False) -> None:
        """Take in how many requests are at a replica, or with ``waiting`` wait at a router."""
        counts = self._queued if waiting else self._running
        if requests:
            counts[source] = requests
        else:
            counts.pop(source, None)
        self._totals.append(TimeStampedValue(now, self.total))
        self._queues.append(TimeStampedValue(now, sum(self._queued.values())))

    def record(self, replica: str, stats: dict[str, float], now: float) -> None:
        """Record the measurements of a replica, for policies."""
        for name, value in stats.items():
            steps = self._recorded.setdefault(name, {}).setdefault(replica, deque())
            steps.append(TimeStampedValue(now, value))
            _forget_before(steps, now - self._config.look_back_period_s)

    def forget(self, source: str) -> None:
        """A replica is gone."""
        self._running.pop(source, None)
        for replicas in self._recorded.values():
            replicas.pop(source, None)

    @property
    def total(self) -> int:
        """Requests that there are now."""
        return sum(self._running.values()) + sum(self._queued.values())

    def _aggregate(self, steps: Steps, now: float) -> float:
        """Reduce the counts of the look-back period to one number."""
        begin = now - self._config.look_back_period_s
        _forget_before(steps, begin)
        if not steps:
            return 0.0
        how = self._config.aggregation_function
        if how is AggregationFunction.MAX:
            return max(value for _, value in steps)
        if how is AggregationFunction.MIN:
            return min(value for _, value in steps)
        first = max(begin, steps[0].timestamp)
        if now <= first:
            return steps[-1].value
        weighted, at, number = 0.0, first, steps[0].value
        for when, value in list(steps)[1:]:
            weighted += number * (when - at)
            at, number = when, value
        return (weighted + number * (now - at)) / (now - first)

    def decide(self, target: int, serving: int, now: float, running: Sequence[str] = ()) -> int:
        """The number of replicas from now on. ``serving``: how many run or start; ``running``: which run."""
        wanted = self._decide(target, serving, now, running)
        if wanted > target:
            self._last_up = now
        elif wanted < target:
            self._last_down = now
        return wanted

    def _decide(self, target: int, serving: int, now: float, running: Sequence[str]) -> int:
        config = self._config
        low, high = self._low, self._high
        if serving == 0 and target == 0:
            # A request is held until there is a replica: nothing to average over, and no delay.
            if self.total:
                return min(max(self._gang_size, low), high)
            desired = 0 if self._policy is None else self._ask(target, now, running)
            return min(max(self._whole(math.ceil(desired)), low), high)
        if self._policy is None:
            desired = self._aggregate(self._totals, now) / config.target_ongoing_requests
        else:
            desired = self._ask(target, now, running)
        up = config.upscaling_factor or config.upscale_smoothing_factor or config.smoothing_factor
        down = (
            config.downscaling_factor
            or config.downscale_smoothing_factor
            or config.smoothing_factor
        )
        change = desired - target
        wanted = math.ceil(target + change * (up if change > 0 else down) - 1e-9)
        return self._delayed(target, min(max(self._whole(wanted), low), high), now)

    def _whole(self, number: int) -> int:
        """Whole gangs, as many as hold that number."""
        return math.ceil(number / self._gang_size) * self._gang_size

    def _delayed(self, target: int, wanted: int, now: float) -> int:
        """Return the number once it was wanted for the configured delay; until then the present target."""
        config = self._config
        if wanted > target:
            self._fewer_since = None
            if self._more_since is None:
                self._more_since = now
            if now - self._more_since >= config.upscale_delay_s:
                self._more_since = None
                return wanted
        elif wanted < target:
            self._more_since = None
            if self._fewer_since is None:
                self._fewer_since = now
            delay = config.downscale_delay_s
            if (
                wanted == 0
                and target == self._gang_size
                and config.downscale_to_zero_delay_s is not None
            ):
                delay = config.downscale_to_zero_delay_s
            if wanted == 0 and self.total:
                wanted = self._gang_size
            if now - self._fewer_since >= delay:
                self._fewer_since = None
                return wanted
        else:
            self._more_since = self._fewer_since = None
        return target

    def _ask(self, target: int, now: float, running: Sequence[str]) -> float:
        """Ask the user's policy for the number of replicas; where it fails the number stays, which
        the log says.
        """
        assert self._policy is not None
        try:
            desired, state = self._policy(self.context(target, now, running))
            math.ceil(desired)  # raises for what is not a finite number
            state = dict(state or {})
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            if failure != self._failure:
                self._failure = failure
                logger.exception(
                    "The autoscaling policy of %s failed. Its %s replicas stay until it answers with a "
                    "number and a dict.",
                    self._deployment,
                    target,
                )
            return target
        self._failure = ""
        self._policy_state = state
        return float(desired)

    def context(self, target: int, now: float, running: Sequence[str]) -> AutoscalingContext:
        """Return the context for a policy."""
        replicas = {name: ReplicaID(name, self._deployment) for name in running}
        recorded = {
            metric: {replicas[name]: steps for name, steps in rows.items() if name in replicas}
            for metric, rows in self._recorded.items()
        }
        return AutoscalingContext(
            deployment_id=self._deployment,
            deployment_name=self._deployment.name,
            app_name=self._deployment.app_name,
            current_num_replicas=len(running),
            target_num_replicas=target,
            running_replicas=list(replicas.values()),
            total_num_requests=self._aggregate(self._totals, now),
            total_queued_requests=self._aggregate(self._queues, now),
            aggregated_metrics={
                metric: {one: self._aggregate(steps, now) for one, steps in rows.items()}
                for metric, rows in recorded.items()
            },
            raw_metrics={
                metric: {one: list(steps) for one, steps in rows.items()}
                for metric, rows in recorded.items()
            },
            capacity_adjusted_min_replicas=self._low,
            capacity_adjusted_max_replicas=self._high,
            policy_state=dict(self._policy_state),
            last_scale_up_time=self._last_up,
            last_scale_down_time=self._last_down,
            current_time=now,
            config=self._config,
        )


class AppPolicy:
    """A policy for all deployments of an application together, asked once for each moment.

    It is called with their contexts by id, and returns their numbers and states, by id too. Those of which it
    says nothing stay as they are.
    """

    def __init__(
        self,
        policy: AutoscalingPolicy,
        contexts: Callable[[float], dict[DeploymentID, AutoscalingContext]],
    ) -> None:
        self._ask: Any = policy.get_policy()
        if inspect.isclass(self._ask):
            self._ask = self._ask(**policy.policy_kwargs)
        self._contexts = contexts
        self._at: float | None = None
        self._numbers: dict[DeploymentID, float] = {}
        self._states: dict[DeploymentID, dict[str, Any]] = {}

    def of(self, deployment: DeploymentID) -> Policy:
        """The figures of one of them."""

        def policy(context: AutoscalingContext) -> tuple[float, dict[str, Any] | None]:
            now = context.current_time or 0.0
            if now != self._at:
                contexts = self._contexts(now)
                for key, one in contexts.items():
                    # Whichever of them asked the last time.
                    one.policy_state = dict(self._states.get(key, {}))
                numbers, states = self._ask(contexts)
                self._numbers, self._states, self._at = dict(numbers), dict(states or {}), now
            number = self._numbers.get(deployment, context.target_num_replicas)
            return number, self._states.get(deployment, {})

        return policy


def _policy_of(config: AutoscalingConfig) -> Callable[..., Any] | None:
    """The user's policy, an instance where it is a class; ``None``: by the number of requests."""
    given = config.policy
    if given is None or given.is_default_policy_function():
        return None
    policy: Any = given.get_policy()
    if inspect.isclass(policy):
        policy = policy(**given.policy_kwargs)
    return policy  # type: ignore[no-any-return] # the user's


def _forget_before(steps: Steps, begin: float) -> None:
    while len(steps) > 1 and steps[1].timestamp <= begin:
        steps.popleft()
