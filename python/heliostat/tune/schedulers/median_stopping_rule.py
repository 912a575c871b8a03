"""The median stopping rule."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Report
from heliostat.tune.schedulers.comparing import ComparingScheduler

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial


class MedianStoppingRule(ComparingScheduler):
    """Stops a trial whose best result is worse than the median of the others' running means.

    Args:
        time_attr: What counts as time, in results.
        metric: What trials are compared by. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        grace_period: No trial stops before; the first results up to it do not count.
        min_samples_required: How many other trials must have come as far to compare with.
        min_time_slice: For how long a trial runs before it is judged.
        hard_stop: False: pause such a trial once instead; it is not judged again.

    Raises:
        ValueError: There is no such ``mode``.

    Examples:
        >>> import ray
        >>> from ray.tune.schedulers import MedianStoppingRule
        >>> scheduler = MedianStoppingRule(time_attr="training_iteration", grace_period=5)
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: int = 0,
        hard_stop: bool = True,
    ) -> None:
        super().__init__(time_attr, metric, mode)
        self._grace, self._min_samples = grace_period, min_samples_required
        self._min_time_slice, self._hard_stop = min_time_slice, hard_stop
        self._values: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._stopped: set[str] = set()

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        if self._time_attr not in result or self._metric not in result:
            return self.CONTINUE
        if trial.trial_id in self._stopped:
            return self.CONTINUE  # it was paused once, and goes on like any other
        time, value = result[self._time_attr], result[self._metric]
        own = self._values[trial.trial_id]
        own.append((time, value if self._mode == "max" else -value))
        if time < max(self._grace, self._min_time_slice):
            return self.CONTINUE
        means = [
            self._mean(values, time)
            for trial_id, values in self._values.items()
            if trial_id != trial.trial_id and values[-1][0] >= time
        ]
        means = [mean for mean in means if math.isfinite(mean)]
        if len(means) < self._min_samples:
            return self.CONTINUE
        np = required("numpy", "Quantiles of trials", "tune")

        if not max(value for _, value in own) < np.median(means):
            return self.CONTINUE
        self._stopped.add(trial.trial_id)
        return self.STOP if self._hard_stop else self.PAUSE

    def on_trial_complete(self, tune_controller: Search, trial: Trial, result: Report) -> None:
        has_both = self._time_attr in result and self._metric in result
        if not has_both or trial.trial_id in self._stopped:
            return
        value = result[self._metric or ""]
        own = self._values[trial.trial_id]
        own.append((result[self._time_attr], value if self._mode == "max" else -value))

    def _mean(self, values: list[tuple[float, float]], until: float) -> float:
        """The mean of what a trial had from the grace period up to a time; NaN where it had nothing."""
        counted = [value for time, value in values if self._grace <= time <= until]
        return statistics.fmean(counted) if counted else math.nan

    def debug_string(self) -> str:
        return f"Using MedianStoppingRule: num_stopped={len(self._stopped)}."
