"""Stoppers: rules that end trials, or a whole search."""

from __future__ import annotations

import abc
import datetime
import logging
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

from heliostat.tune.aliases import Report, State

logger = logging.getLogger("heliostat")


class Stopper(abc.ABC):
    """Asked after each result whether its trial stops, and whether everything does.

    Examples:
        >>> from ray import tune
        >>> class Enough(tune.Stopper):
        ...     def __call__(self, trial_id, result):
        ...         return result["score"] >= 0.9
        ...     def stop_all(self):
        ...         return False
        >>> Enough()("trial_1", {"score": 0.95})
        True
        >>> config = tune.RunConfig(stop=Enough())
    """

    @property
    def decides(self) -> bool:
        """Whether trials have to wait after each result for what is said of them."""
        return True

    @abc.abstractmethod
    def __call__(self, trial_id: str, result: Report) -> bool:
        """Whether this trial stops."""

    @abc.abstractmethod
    def stop_all(self) -> bool:
        """Whether the search stops."""


class NoopStopper(Stopper):
    """Stops nothing.

    Examples:
        >>> from ray.tune.stopper import NoopStopper
        >>> NoopStopper()("trial_1", {"loss": 1.0})
        False
    """

    @property
    def decides(self) -> bool:
        return type(self) is not NoopStopper  # a class made from it may

    def __call__(self, trial_id: str, result: Report) -> bool:
        return False

    def stop_all(self) -> bool:
        return False


class FunctionStopper(NoopStopper):
    """Stops a trial when a function says so.

    Args:
        function: Takes trial id and result; returns whether the trial stops.

    Examples:
        >>> from ray.tune.stopper import FunctionStopper
        >>> stopper = FunctionStopper(lambda trial_id, result: result["loss"] < 0.1)
        >>> stopper("trial_1", {"loss": 0.05})
        True
    """

    def __init__(self, function: Callable[[str, Report], bool]) -> None:
        self._function = function

    def __call__(self, trial_id: str, result: Report) -> bool:
        return bool(self._function(trial_id, result))

    @classmethod
    def is_valid_function(cls, fn: object) -> bool:
        """Return whether ``stop=`` takes it as a function of trial id and result.

        Args:
            fn: What was given.
        """
        return callable(fn) and not isinstance(fn, Stopper)


class MaximumIterationStopper(NoopStopper):
    """Stops a trial after so many results.

    Args:
        max_iter: How many.

    Examples:
        >>> from ray.tune.stopper import MaximumIterationStopper
        >>> stopper = MaximumIterationStopper(2)
        >>> stopper("trial_1", {}), stopper("trial_1", {})
        (False, True)
    """

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._count: dict[str, int] = defaultdict(int)

    def __call__(self, trial_id: str, result: Report) -> bool:
        self._count[trial_id] += 1
        return self._count[trial_id] >= self._max_iter


class CriteriaStopper(NoopStopper):
    """Stops a trial when one of the metrics has reached its bound: ``stop={"score": 0.9}``."""

    def __init__(self, criteria: Mapping[str, float]) -> None:
        self._criteria = dict(criteria)
        self._missed: set[str] = set()

    def __call__(self, trial_id: str, result: Report) -> bool:
        flat = flattened(result)
        for name, bound in self._criteria.items():
            if name not in flat and name not in self._missed:
                self._missed.add(name)
                logger.warning(
                    "stop={%r: ...}: the trial %s did not report it, but %s",
                    name,
                    trial_id,
                    sorted(flat),
                )
            elif name in flat and flat[name] >= bound:
                return True
        return False


class TimeoutStopper(Stopper):
    """Stops the search after some time: seconds or a ``timedelta``, from its first result on.

    A copy by pickle goes on with the time that was left: what passes between is not counted.

    Args:
        timeout: Seconds, or a ``timedelta``.

    Raises:
        ValueError: ``timeout`` is neither, or below 0.

    Examples:
        >>> import datetime
        >>> from ray import tune
        >>> config = tune.RunConfig(stop=tune.stopper.TimeoutStopper(datetime.timedelta(hours=1)))
    """

    def __init__(self, timeout: int | float | datetime.timedelta) -> None:
        if isinstance(timeout, datetime.timedelta):
            timeout = timeout.total_seconds()
        is_number = isinstance(timeout, int | float)
        if not is_number or timeout < 0:
            raise ValueError(f"timeout={timeout!r} must be seconds from 0 up, or a timedelta.")
        self._timeout = float(timeout)
        self._began: float | None = None

    @property
    def decides(self) -> bool:
        return type(self) is not TimeoutStopper  # a class made from it may

    def __getstate__(self) -> State:
        passed = 0.0 if self._began is None else time.monotonic() - self._began
        return {"left": max(0.0, self._timeout - passed)}

    def __setstate__(self, state: State) -> None:
        self._timeout, self._began = state["left"], None

    def start(self) -> None:
        """Begin to count."""
        if self._began is None:
            self._began = time.monotonic()

    def __call__(self, trial_id: str, result: Report) -> bool:
        return False

    def stop_all(self) -> bool:
        self.start()
        return self._began is not None and time.monotonic() - self._began >= self._timeout


class TrialPlateauStopper(NoopStopper):
    """Stops a trial whose metric changes no more.

    Args:
        metric: Its name.
        std: Stop when the standard deviation of the last results is at most this.
        num_results: How many results that are.
        grace_period: Results before which no trial stops.
        metric_threshold: Stop only beyond this value.
        mode: "min": below the threshold, "max": above it.

    Raises:
        ValueError: ``metric_threshold`` without a ``mode``.

    Examples:
        >>> from ray.tune.stopper import TrialPlateauStopper
        >>> stopper = TrialPlateauStopper("loss", std=0.001, num_results=3, grace_period=3)
        >>> [stopper("trial_1", {"loss": loss}) for loss in (0.9, 0.5, 0.5, 0.5)]
        [False, False, False, True]
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError("With metric_threshold, `mode` must be 'min' or 'max'.")
        self._metric, self._std, self._grace = metric, std, grace_period
        self._threshold, self._mode = metric_threshold, mode
        self._count: dict[str, int] = defaultdict(int)
        self._window: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=num_results))
        self._num_results = num_results

    def __call__(self, trial_id: str, result: Report) -> bool:
        value = result[self._metric]
        window = self._window[trial_id]
        window.append(value)
        self._count[trial_id] += 1
        if self._count[trial_id] < self._grace or len(window) < self._num_results:
            return False
        if self._threshold is not None:
            beyond = value < self._threshold if self._mode == "min" else value > self._threshold
            if not beyond:
                return False
        return statistics.pstdev(window) <= self._std


class ExperimentPlateauStopper(Stopper):
    """Stops the search when the best results of its trials change no more.

    Args:
        metric: Its name.
        std: Stop when the standard deviation of the best values is at most this.
        top: How many values that are.
        mode: Which are best.
        patience: For how many results it must have been so; at least for one.

    Raises:
        ValueError: An argument makes no sense.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.stopper import ExperimentPlateauStopper
        >>> stopper = ExperimentPlateauStopper("loss", std=0.01, top=2, mode="min")
        >>> config = tune.RunConfig(stop=stopper)
        >>> stopper("trial_1", {"loss": 1.0}), stopper.stop_all()
        (False, False)
        >>> stopper("trial_2", {"loss": 1.0}), stopper.stop_all()
        (True, True)
    """

    def __init__(
        self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError("`mode` must be 'min' or 'max'.")
        is_whole = isinstance(top, int)
        if not is_whole or top <= 1:
            raise ValueError("`top` must be a whole number above 1.")
        if patience < 0:
            raise ValueError("`patience` must be a whole number from 0 up.")
        given: object = std
        if not isinstance(given, int | float) or given <= 0:
            raise ValueError("`std` must be a number above 0.")
        self._metric, self._std, self._top, self._mode = metric, std, top, mode
        self._patience = patience
        self._best: list[float] = []
        self._steady = 0

    def __call__(self, trial_id: str, result: Report) -> bool:
        self._best.append(result[self._metric])
        self._best = sorted(self._best, reverse=self._mode == "max")[: self._top]
        self._steady = self._steady + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Return whether the best values lie close together now."""
        return len(self._best) == self._top and statistics.pstdev(self._best) <= self._std

    def stop_all(self) -> bool:
        return self._steady >= max(1, self._patience)


class CombinedStopper(Stopper):
    """Stops when one of its stoppers does.

    Args:
        *stoppers: The stoppers.

    Examples:
        >>> import ray
        >>> from ray.tune.stopper import CombinedStopper, MaximumIterationStopper, TimeoutStopper
        >>> stop = CombinedStopper(MaximumIterationStopper(100), TimeoutStopper(3600))
    """

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    @property
    def decides(self) -> bool:
        return any(stopper.decides for stopper in self._stoppers)

    def __call__(self, trial_id: str, result: Report) -> bool:
        # Each of them has to see every result.
        decisions = [stopper(trial_id, result) for stopper in self._stoppers]
        return any(decisions)

    def stop_all(self) -> bool:
        return any(stopper.stop_all() for stopper in self._stoppers)


def stopper_of(stop: Any, time_budget_s: Any = None) -> Stopper:
    """Return the stopper that ``RunConfig(stop=...)`` and ``TuneConfig(time_budget_s=...)`` mean."""
    found: list[Stopper] = []
    if isinstance(stop, Stopper):
        found.append(stop)
    elif isinstance(stop, list | tuple):
        if not all(isinstance(one, Stopper) for one in stop):
            raise ValueError(f"stop={stop!r} must be a list of Stoppers alone.")
        found.extend(stop)
    elif isinstance(stop, Mapping):
        found.append(CriteriaStopper(stop))
    elif callable(stop):
        found.append(FunctionStopper(stop))
    elif stop is not None:
        raise ValueError(
            f"stop={stop!r} must be a dict of bounds, a Stopper, or a function of trial id and result."
        )
    if time_budget_s is not None:
        found.append(TimeoutStopper(time_budget_s))
    if not found:
        return NoopStopper()
    return found[0] if len(found) == 1 else CombinedStopper(*found)


def flattened(values: Mapping[str, Any], above: str = "", joint: str = "/") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a/b": 1}``."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value:
            flat.update(flattened(value, f"{name}{joint}", joint))
        else:
            flat[name] = value
    return flat


__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
