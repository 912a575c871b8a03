"""ASHA: asynchronous successive halving."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Report
from heliostat.tune.error import ArgumentError
from heliostat.tune.schedulers.comparing import ComparingScheduler

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial


class AsyncHyperBandScheduler(ComparingScheduler):
    """Stops a trial at a rung when it is not among the best ``1 / reduction_factor`` that came there.

    Args:
        time_attr: What counts as time, in results.
        metric: What trials are compared by. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        max_t: When a trial ends.
        grace_period: The first rung: no trial stops before.
        reduction_factor: The rungs are at ``grace_period * reduction_factor ** k``.
        brackets: How many series of rungs, each beginning later; trials are spread over them.
        stop_last_trials: Whether trials end at ``max_t``.

    Raises:
        ValueError: ``max_t``, ``grace_period``, ``reduction_factor``, ``brackets`` or ``mode`` makes no
            sense.

    Examples:
        >>> import ray
        >>> from ray.tune.schedulers import ASHAScheduler
        >>> scheduler = ASHAScheduler(max_t=100, grace_period=5, reduction_factor=3)
    """

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 100,
        grace_period: int = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
    ) -> None:
        if max_t <= 0:
            raise ArgumentError(f"max_t={max_t!r} must be above 0.")
        if not 0 < grace_period <= max_t:
            raise ArgumentError(
                f"grace_period={grace_period!r} must be from above 0 to max_t={max_t!r}."
            )
        if reduction_factor <= 1:
            raise ArgumentError(f"reduction_factor={reduction_factor!r} must be above 1.")
        if brackets < 1:
            raise ArgumentError(f"brackets={brackets!r} must be 1 or more.")
        super().__init__(time_attr, metric, mode)
        self._max_t, self._factor, self._stop_last = max_t, reduction_factor, stop_last_trials
        self._brackets = [
            _Bracket(grace_period, max_t, reduction_factor, s) for s in range(brackets)
        ]
        self._bracket_of: dict[str, _Bracket] = {}
        self._stopped = 0

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        super().on_trial_add(tune_controller, trial)
        weights = [bracket.weight for bracket in self._brackets]
        chosen = (
            random.choices(self._brackets, weights)[0] if len(weights) > 1 else self._brackets[0]
        )
        self._bracket_of[trial.trial_id] = chosen

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        if self._time_attr not in result or self._value(result) is None:
            return self.CONTINUE
        if result[self._time_attr] >= self._max_t and self._stop_last:
            decision = self.STOP
        else:
            decision = self._judge(trial, result)
        self._stopped += decision == self.STOP
        return decision

    def on_trial_complete(self, tune_controller: Search, trial: Trial, result: Report) -> None:
        if self._time_attr in result and self._value(result) is not None:
            self._judge(trial, result)

    def _value(self, result: Report) -> float | None:
        """The metric, the higher the better."""
        value = result.get(self._metric or "")
        return value if value is None or self._mode == "max" else -value

    def _judge(self, trial: Trial, result: Report) -> str:
        value = self._value(result)
        assert value is not None
        bracket = self._bracket_of[trial.trial_id]
        good = bracket.is_good(trial.trial_id, result[self._time_attr], value)
        return self.CONTINUE if good else self.STOP

    def debug_string(self) -> str:
        rungs = [bracket.text() for bracket in self._brackets]
        return f"Using AsyncHyperBand: num_stopped={self._stopped}\n" + "\n".join(rungs)


class _Bracket:
    """A series of rungs, the last one first, with the values that trials had there."""

    def __init__(self, grace: float, max_t: float, factor: float, shift: int) -> None:
        count = max(int(math.log(max_t / grace) / math.log(factor) - shift + 1), 0)
        self._factor = factor
        self._rungs: list[tuple[float, dict[str, float]]] = [
            (grace * factor ** (k + shift), {}) for k in reversed(range(count))
        ]
        self.weight = math.exp(count)  # series with more rungs get more trials

    def is_good(self, trial_id: str, time: float, value: float) -> bool:
        """Note a value at the highest rung that the trial has come to; whether it goes on."""
        for milestone, values in self._rungs:
            if time < milestone:
                continue
            if trial_id in values:
                return True
            bound = self._cutoff(list(values.values()))
            values[trial_id] = value
            return bound is None or not value < bound
        return True

    def _cutoff(self, values: list[float]) -> float | None:
        np = required("numpy", "Quantiles of trials", "tune")

        known = [value for value in values if not math.isnan(value)]
        if not known:
            return None
        return float(np.percentile(known, (1 - 1 / self._factor) * 100))

    def text(self) -> str:
        cuts = [f"Iter {at:.3f}: {self._cutoff(list(v.values()))}" for at, v in self._rungs]
        return "Bracket: " + " | ".join(cuts)


ASHAScheduler = AsyncHyperBandScheduler
